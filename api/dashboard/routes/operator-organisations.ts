import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newId } from '../../../shared/base/ids.ts'
import { nanoFromUsd, usdFromNano } from '../../../shared/base/money.ts'
import { oneLine } from '../../../shared/base/one-line.ts'
import { monthOf } from '../../../shared/base/time.ts'
import { audit } from '../../../shared/io/audit.ts'
import type { Platform } from '../../../shared/platform.ts'
import { listCredits } from '../../../shared/wallet/statement.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { adjustmentId } from '../../operator/adjustments.ts'
import { addCredit } from '../../operator/credit.ts'
import { findOrganisation } from '../../operator/flags.ts'
import { paging, readPage } from '../../routes/paging.ts'
import type {
  NewProvisioningKey,
  OperatorOrganisation,
  OrganisationDetail,
  OrganisationsPage,
  Suspension,
} from '../wire/operator.ts'
import type { Role } from '../wire/person.ts'

const base = '/dashboard/api/operator/organisations'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const maxPeople = 500
const maxListed = 100
const latestCredits = 20
const maxHoldDays = 365
/** One nano-dollar: smaller amounts would be booked as zero. */
const minUsd = 1e-9

/** The audit log names the actor as an operator. */

type Row = {
  id: string
  name: string
  createdAt: Date
  balanceNano: bigint
  spentNano: bigint
  members: number
  keys: number
  suspendedAt: Date | null
  suspensionReason: string | null
}

const presentRow = ({ id, name, members, keys, ...row }: Row): OperatorOrganisation => ({
  id,
  name,
  created_at: row.createdAt.toISOString(),
  balance_usd: usdFromNano(row.balanceNano),
  month_spend_usd: usdFromNano(row.spentNano),
  members,
  keys,
  suspended: row.suspendedAt !== null,
})

type Suspendable = { suspendedAt: Date | null; suspensionReason: string | null }

/** Presents the suspension of an organisation or a person. */
export function presentSuspension({ suspendedAt, suspensionReason }: Suspendable): Suspension {
  return suspendedAt && { at: suspendedAt.toISOString(), reason: suspensionReason ?? '' }
}

type Wanted = { id?: string; search?: string | undefined; after?: string | undefined; limit: number }

/** Organisations, newest first: ids are ordered by creation time. A search matches ids, names and members' emails. */
function read({ db, clock }: Platform, { id, search, after, limit }: Wanted): Promise<Row[]> {
  const text = search?.trim().toLowerCase() || null
  return db.$queryRaw<Row[]>`
    SELECT o.id, o.name, o.created_at AS "createdAt", o.suspended_at AS "suspendedAt",
      o.suspension_reason AS "suspensionReason", coalesce(w.balance_nano, 0) AS "balanceNano",
      (SELECT coalesce(sum(s.spent_nano), 0)::bigint FROM key_spend s JOIN api_keys k ON k.id = s.key_id
        WHERE k.organisation_id = o.id AND s.month = ${monthOf(clock.now())}) AS "spentNano",
      (SELECT count(*)::int FROM memberships m WHERE m.organisation_id = o.id) AS members,
      (SELECT count(*)::int FROM api_keys k WHERE k.organisation_id = o.id AND k.revoked_at IS NULL) AS keys
    FROM organisations o LEFT JOIN wallets w ON w.organisation_id = o.id
    WHERE (${id ?? null}::text IS NULL OR o.id = ${id ?? null})
      AND (${after ?? null}::text IS NULL OR o.id < ${after ?? null})
      AND (${text}::text IS NULL OR o.id = ${text} OR position(${text} IN lower(o.name)) > 0 OR EXISTS (
        SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.organisation_id = o.id AND position(${text} IN lower(u.email)) > 0))
    ORDER BY o.id DESC LIMIT ${limit}`
}

const list = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List organisations, newest first',
  query: z.strictObject({ limit: paging.limit, after: paging.after, search: z.string().max(200).optional() }),
  answers: { 200: { description: 'A page of organisations.' } },
  async handle({ services, query }): Promise<OrganisationsPage> {
    const { search, after } = query
    const page = await readPage(
      { limit: query.limit, order: 'desc' },
      ({ limit }) => read(services, { search, after, limit }),
      async rows => rows.map(presentRow),
    )
    return { data: page.data, has_more: page.has_more, last_id: page.last_id as string | null }
  },
})

const create = endpoint({
  ...shared,
  method: 'post',
  path: base,
  summary: 'Create an organisation',
  body: z.strictObject({
    name: oneLine(z.string().trim().min(1).max(200)),
    owner_email: z.email().optional().describe('The email of the owner: a person with a confirmed address.'),
  }),
  answers: { 201: { description: 'The organisation.' } },
  async handle({ services, body, actor }): Promise<OrganisationDetail> {
    const id = newId('org')
    const owner = body.owner_email === undefined ? null : await ownerOf(services, body.owner_email)
    await services.db.$transaction(async tx => {
      await tx.organisation.create({ data: { id, name: body.name, wallet: { create: {} } } })
      if (owner)
        await tx.membership.create({ data: { id: newId('mem'), organisationId: id, userId: owner.id, role: 'owner' } })
      await audit(tx, { organisationId: id, actor, action: 'organisation.created' })
    })
    return detailOf(services, id)
  },
})

/** The owner of a new organisation. Throws 400. */
async function ownerOf({ db }: Platform, email: string) {
  const user = await db.user.findUnique({ where: { email: email.toLowerCase() } })
  if (user?.emailVerified) return user
  throw new GatewayError(
    'invalid_request',
    user ? 'This address is not confirmed.' : 'No account has this email address.',
    { param: 'owner_email' },
  )
}

const readOne = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{organisation}`,
  summary: 'Retrieve an organisation',
  answers: { 200: { description: 'The organisation.' } },
  errors: ['not_found'],
  handle: ({ services, params }): Promise<OrganisationDetail> => detailOf(services, params.organisation!),
})

/** Throws 404. */
export async function detailOf(services: Platform, id: string): Promise<OrganisationDetail> {
  const { db, wallets } = services
  const [row] = await read(services, { id, limit: 1 })
  if (!row) throw new GatewayError('not_found', 'No such organisation.')
  const [wallet, people, provisioningKeys, credits] = await Promise.all([
    wallets.view(id),
    db.membership.findMany({
      where: { organisationId: id },
      include: { user: { select: { name: true, email: true } } },
      orderBy: { createdAt: 'asc' },
      take: maxPeople,
    }),
    db.provisioningKey.findMany({ where: { organisationId: id }, orderBy: { createdAt: 'desc' }, take: maxListed }),
    listCredits(db, id, latestCredits),
  ])
  return {
    ...presentRow(row),
    balance_usd: usdFromNano(wallet.balanceNano),
    available_usd: usdFromNano(wallet.availableNano),
    reserved_usd: usdFromNano(wallet.reservedNano),
    held_usd: usdFromNano(wallet.heldNano),
    held_release_at: wallet.heldReleaseAt?.toISOString() ?? null,
    suspension: presentSuspension(row),
    people: people.map(({ userId, user, role }) => ({ id: userId, ...user, role: role as Role })),
    provisioning_keys: provisioningKeys.map(key => ({
      id: key.id,
      prefix: key.prefix,
      last4: key.last4,
      created_at: key.createdAt.toISOString(),
      revoked_at: key.revokedAt?.toISOString() ?? null,
    })),
    credits: credits.map(entry => ({
      id: String(entry.id),
      kind: entry.kind === 'adjustment' ? ('adjustment' as const) : ('deposit' as const),
      amount_usd: usdFromNano(entry.amountNano),
      method: entry.method,
      note: entry.note,
      available_at: entry.availableAt?.toISOString() ?? null,
      created_at: entry.createdAt.toISOString(),
    })),
  }
}

const credit = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{organisation}/credits`,
  summary: 'Credit an organisation',
  body: z.strictObject({
    id: adjustmentId.optional().describe('The client’s own: a repetition with the same id books nothing.'),
    amount_usd: z.number().min(minUsd).max(1_000_000),
    method: z.enum(['grant', 'card', 'ach']),
    hold_days: z.int().min(0).max(maxHoldDays).optional().describe('Default: 5 for ACH, otherwise none.'),
  }),
  answers: { 200: { description: 'The organisation with its new balance.' } },
  errors: ['not_found', 'idempotency_key_reused'],
  async handle({ services, params, body, actor }): Promise<OrganisationDetail> {
    const { id: organisationId } = await findOrganisation(services, params.organisation!)
    const amountNano = nanoFromUsd(body.amount_usd)
    const { id, method, hold_days: holdDays } = body
    await addCredit(services, { id, organisationId, amountNano, method, holdDays }, actor)
    return detailOf(services, organisationId)
  },
})

const createKey = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{organisation}/provisioning-keys`,
  summary: 'Create a provisioning key',
  answers: { 201: { description: 'The key; its secret is shown only once.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<NewProvisioningKey> {
    const { id } = await findOrganisation(services, params.organisation!)
    return services.keys.createProvisioning(id, actor)
  },
})

const revokeKey = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{organisation}/provisioning-keys/{id}`,
  summary: 'Revoke a provisioning key',
  answers: { 200: { description: 'The organisation without the key.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<OrganisationDetail> {
    const { id } = await findOrganisation(services, params.organisation!)
    const revoked = await services.keys.revokeProvisioning(id, actor, params.id!)
    if (revoked === 0) throw new GatewayError('not_found', 'No such active provisioning key.')
    return detailOf(services, id)
  },
})

export const operatorOrganisationRoutes: Endpoint[] = [list, create, readOne, credit, createKey, revokeKey]
