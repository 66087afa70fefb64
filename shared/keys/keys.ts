import type { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import { type Clock, dayMs, systemClock } from '../base/time.ts'
import type { ApiKey, Prisma, ProvisioningKey } from '../generated/prisma/client.ts'
import type { Beside, Connection, Database } from '../io/db.ts'
import { type Actor, audit, changesBetween } from './audit.ts'
import type { KeyPolicy, keyPatch, newKey } from './key-requests.ts'
import type { Policies } from './policies.ts'
import { hashSecret, newSecret } from './secret.ts'

/** A key as the provisioning routes and the command line show it (contract §3). */
export type KeyRecord = ReturnType<typeof keyRecord>

export function keyRecord(row: ApiKey, spentNano: Nano, nowMs: number) {
  const expired = row.expiresAt !== null && row.expiresAt.getTime() <= nowMs
  return {
    hash: row.hash,
    ...settings(row),
    prefix: row.prefix,
    last4: row.last4,
    status: row.revokedAt || row.disabled ? 'revoked' : expired ? 'expired' : 'active',
    spend_month_usd: usdFromNano(spentNano),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
  }
}

/** What was chosen for a key, as the API writes it. */
function settings(row: ApiKey) {
  return {
    name: row.name,
    environment: row.environment,
    mode: row.mode,
    rpm_limit: row.rpmLimit || null,
    tpm_limit: row.tpmLimit || null,
    monthly_spend_cap_usd: row.monthlySpendCapNano === null ? null : usdFromNano(row.monthlySpendCapNano),
    model_allowlist: row.modelAllowlist.length > 0 ? row.modelAllowlist : null,
    scopes: row.scopes.join(','),
    expires_at: row.expiresAt?.toISOString() ?? null,
  }
}

function columns(policy: KeyPolicy) {
  const cap = policy.monthly_spend_cap_usd
  return {
    ...(policy.name !== undefined && { name: policy.name }),
    ...(policy.mode !== undefined && { mode: policy.mode }),
    ...(policy.rpm_limit !== undefined && { rpmLimit: policy.rpm_limit || null }),
    ...(policy.tpm_limit !== undefined && { tpmLimit: policy.tpm_limit || null }),
    ...(cap !== undefined && { monthlySpendCapNano: cap === null ? null : nanoFromUsd(cap) }),
    ...(policy.model_allowlist !== undefined && { modelAllowlist: policy.model_allowlist ?? [] }),
    ...(policy.scopes !== undefined && { scopes: policy.scopes }),
    ...(policy.expires_at !== undefined && { expiresAt: policy.expires_at ? new Date(policy.expires_at) : null }),
  }
}

/** What an update of a row that is gone, rolled or revoked since it was read comes to. */
function refuseGone(error: unknown): never {
  if ((error as { code?: unknown }).code !== 'P2025') throw error
  throw new GatewayError('not_found', 'This key was rolled or revoked just now.')
}

/** What a search finds: a part of a name, or the part of a secret that is shown, or a key's id or hash. */
function matching(text: string): Prisma.ApiKeyWhereInput {
  return {
    OR: [
      { name: { contains: text, mode: 'insensitive' } },
      { prefix: { startsWith: text } },
      ...['last4', 'id', 'hash'].map(field => ({ [field]: text })),
    ],
  }
}

const patchable = (row: ApiKey) => ({ ...settings(row), disabled: row.disabled })

type NewKey = z.output<typeof newKey>
/** A key with its secret, which is stored nowhere. */
export type MadeKey = { row: ApiKey; secret: string }

/** The standard and provisioning keys: this class and `departures.ts` alone write their tables, and note who had it done in the same transaction. */
export class Keys {
  readonly #db: Database
  readonly #policies: Policies
  readonly #clock: Clock

  constructor(db: Database, policies: Policies, clock: Clock = systemClock) {
    this.#db = db
    this.#policies = policies
    this.#clock = clock
  }

  /** Creates a standard key, with whatever `beside` writes. The secret is in the answer and nowhere else. */
  async create(organisationId: string, input: NewKey, actor: Actor, beside?: Beside<MadeKey>): Promise<MadeKey> {
    const { environment, expires_in_days: days, ...policy } = input
    const { secret, ...stored } = newSecret(`svc_sk_${environment}_`)
    const data = {
      name: `${environment} key`,
      ...columns(policy),
      ...(days && { expiresAt: new Date(this.#clock.now() + days * dayMs) }),
      ...stored,
      id: newId('key'),
      organisationId,
      environment,
      createdById: actor.kind === 'user' ? actor.id : null,
    }
    const row = await this.#db.$transaction(async tx => {
      const created = await tx.apiKey.create({ data })
      const changes = changesBetween({}, settings(created))
      await audit(tx, { organisationId, actor, action: 'key.created', target: created, changes })
      await beside?.(tx, { row: created, secret })
      return created
    })
    return { row, secret }
  }

  /** A page of an organisation's keys by age; revoked ones only when asked for. `after` is a key's hash. `search`: see `matching`. Throws 404 for an unknown `after`. */
  async list(
    organisationId: string,
    options: { limit: number; after?: string; order?: 'asc' | 'desc'; includeRevoked?: boolean; search?: string },
  ): Promise<ApiKey[]> {
    const { limit, after, order = 'desc', includeRevoked = false, search } = options
    // The key itself may have left the list since, so the page starts at its place and not at the key.
    const last = after === undefined ? null : await this.get(organisationId, after)
    const beyond = order === 'desc' ? 'lt' : 'gt'
    return this.#db.apiKey.findMany({
      where: {
        organisationId,
        ...(!includeRevoked && { revokedAt: null }),
        ...(search && { AND: matching(search) }),
        ...(last && {
          OR: [{ createdAt: { [beyond]: last.createdAt } }, { createdAt: last.createdAt, id: { [beyond]: last.id } }],
        }),
      },
      orderBy: [{ createdAt: order }, { id: order }],
      take: limit,
    })
  }

  /** One key by its hash. Throws 404, also for another organisation's. `organisationId` null = any (the operator). */
  async get(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.#db.apiKey.findFirst({ where: { hash, ...(organisationId && { organisationId }) } })
    if (!row) throw new GatewayError('not_found', 'No such key.')
    return row
  }

  /** Changes policy fields, in force for the next request on every process. Throws 404 for a key revoked for good. */
  async patch(
    organisationId: string | null,
    hash: string,
    input: z.output<typeof keyPatch>,
    actor: Actor,
  ): Promise<ApiKey> {
    const { disabled, ...policy } = input
    const { id, organisationId: owner } = await this.#live(organisationId, hash)
    const where = { id, hash, revokedAt: null }
    const data = { ...columns(policy), ...(disabled !== undefined && { disabled }), version: { increment: 1 } }
    const commit = async (tx: Connection) => {
      // Two patches at a time wait for each other, so that each is noted by what it changed itself.
      await tx.$executeRaw`SELECT 1 FROM api_keys WHERE id = ${id} FOR UPDATE`
      const before = await tx.apiKey.findUniqueOrThrow({ where })
      const after = await tx.apiKey.update({ where, data })
      const changes = changesBetween(patchable(before), patchable(after))
      if (Object.keys(changes).length > 0)
        await audit(tx, { organisationId: owner, actor, action: 'key.updated', target: after, changes })
      return after
    }
    return this.#policies.changing(hash, () => this.#db.$transaction(commit).catch(refuseGone))
  }

  /** Replaces the secret and keeps the policy; the old one stops working in the same transaction. */
  async roll(organisationId: string | null, hash: string, actor: Actor, beside?: Beside<MadeKey>): Promise<MadeKey> {
    const old = await this.#live(organisationId, hash)
    const { id } = old
    const { secret, ...stored } = newSecret(`svc_sk_${old.environment}_`)
    const row = await this.#policies.changing(hash, () =>
      this.#db.$transaction(async tx => {
        const data = { ...stored, version: { increment: 1 } }
        const updated = await tx.apiKey.update({ where: { id, hash, revokedAt: null }, data }).catch(refuseGone)
        await tx.retiredSecret.create({ data: { hash, keyId: id } })
        const changes = changesBetween({ last4: old.last4 }, { last4: updated.last4 })
        const { organisationId } = updated
        await audit(tx, { organisationId, actor, action: 'key.rolled', target: updated, changes })
        await beside?.(tx, { row: updated, secret })
        return updated
      }),
    )
    return { row, secret }
  }

  /** Disables a key for good; its history stays. Doing it again changes nothing, but makes sure of it. */
  async revoke(organisationId: string | null, hash: string, actor: Actor): Promise<ApiKey> {
    const row = await this.get(organisationId, hash)
    const data = { revokedAt: new Date(this.#clock.now()), version: { increment: 1 } }
    const commit = async (tx: Connection) => {
      const { count } = await tx.apiKey.updateMany({ where: { id: row.id, hash, revokedAt: null }, data })
      if (count === 1)
        await audit(tx, { organisationId: row.organisationId, actor, action: 'key.revoked', target: row })
    }
    return this.#policies.changing(hash, async () => {
      await this.#db.$transaction(commit)
      return this.get(organisationId, hash)
    })
  }

  /** Creates a provisioning key for an organisation. */
  async createProvisioning(
    organisationId: string,
    actor: Actor,
  ): Promise<{ id: string; prefix: string; last4: string; secret: string }> {
    const { secret, ...stored } = newSecret('svc_pk_')
    const id = newId('key')
    await this.#db.$transaction(async tx => {
      await tx.provisioningKey.create({ data: { ...stored, id, organisationId } })
      const target = { id, name: stored.prefix }
      await audit(tx, { organisationId, actor, action: 'provisioning_key.created', target })
    })
    return { id, prefix: stored.prefix, last4: stored.last4, secret }
  }

  /** Revokes every provisioning key of an organisation, or the one given; answers how many. */
  async revokeProvisioning(organisationId: string, actor: Actor, id?: string): Promise<number> {
    const where = { organisationId, revokedAt: null, ...(id && { id }) }
    const data = { revokedAt: new Date(this.#clock.now()) }
    return this.#db.$transaction(async tx => {
      const revoked = await tx.provisioningKey.updateManyAndReturn({ where, data })
      for (const { id, prefix } of revoked) {
        const target = { id, name: prefix }
        await audit(tx, { organisationId, actor, action: 'provisioning_key.revoked', target })
      }
      return revoked.length
    })
  }

  /** The provisioning key of a secret. Throws 401. */
  async provisioning(secret: string): Promise<ProvisioningKey> {
    const row = await this.#db.provisioningKey.findUnique({ where: { hash: hashSecret(secret) } })
    if (!row) throw new GatewayError('invalid_api_key', 'This provisioning key does not exist.')
    if (row.revokedAt) throw new GatewayError('revoked_api_key', 'This provisioning key was revoked.')
    return row
  }

  async #live(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.get(organisationId, hash)
    if (row.revokedAt) throw new GatewayError('not_found', 'This key was revoked for good.')
    return row
  }
}
