import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import type { ApiKey } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import type { Policies } from './policies.ts'
import { modes, scopes } from './policy.ts'
import { hashSecret, newSecret } from './secret.ts'

const limit = z.int().min(0).max(2_147_483_647).nullish().describe('Unset, null or 0 means no limit.')

/** The policy fields of SPEC's key table as a body or a command gives them. */
export const keyPolicy = z.strictObject({
  name: z.string().min(1).max(200).optional(),
  mode: z.enum(modes).optional(),
  rpm_limit: limit,
  tpm_limit: limit,
  monthly_spend_cap_usd: z
    .number()
    .min(0)
    .max(1_000_000)
    .nullish()
    .describe('Hard ceiling on spend per UTC month; null = uncapped.'),
  model_allowlist: z
    .array(z.string().min(1).max(100))
    .max(1_000)
    .nullish()
    .describe('Model slugs; null or empty = all models.'),
  scopes: z
    .string()
    .transform(text => text.split(',').map(scope => scope.trim()))
    .pipe(z.array(z.enum(scopes)).min(1))
    .optional()
    .describe('Comma-separated: chat, embeddings, completions, or *.'),
  expires_at: z.iso.datetime().nullish(),
})
export const newKey = keyPolicy.omit({ expires_at: true }).extend({
  environment: z.enum(['live', 'test']).default('live'),
  expires_in_days: z.int().min(1).max(36_500).nullish(),
})
export const keyPatch = keyPolicy.extend({ disabled: z.boolean().optional() })

type KeyPolicy = z.output<typeof keyPolicy>

/** A key as the provisioning routes and the command line show it (contract §3). */
export type KeyRecord = ReturnType<typeof keyRecord>

export function keyRecord(row: ApiKey, spentNano: Nano) {
  const expired = row.expiresAt !== null && row.expiresAt.getTime() <= Date.now()
  return {
    hash: row.hash,
    name: row.name,
    environment: row.environment,
    mode: row.mode,
    rpm_limit: row.rpmLimit || null,
    tpm_limit: row.tpmLimit || null,
    monthly_spend_cap_usd: row.monthlySpendCapNano === null ? null : usdFromNano(row.monthlySpendCapNano),
    model_allowlist: row.modelAllowlist.length > 0 ? row.modelAllowlist : null,
    scopes: row.scopes.join(','),
    expires_at: row.expiresAt?.toISOString() ?? null,
    prefix: row.prefix,
    last4: row.last4,
    status: row.revokedAt || row.disabled ? 'revoked' : expired ? 'expired' : 'active',
    spend_month_usd: usdFromNano(spentNano),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
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

/** The standard and provisioning keys: this class alone writes their tables. */
export class Keys {
  readonly #db: Database
  readonly #policies: Policies

  constructor(db: Database, policies: Policies) {
    this.#db = db
    this.#policies = policies
  }

  /** Creates a standard key. The secret is in the answer and nowhere else. */
  async create(organisationId: string, input: z.output<typeof newKey>): Promise<{ row: ApiKey; secret: string }> {
    const { environment, expires_in_days: days, ...policy } = input
    const { secret, ...stored } = newSecret(`svc_sk_${environment}_`)
    const expiresAt = days ? new Date(Date.now() + days * 86_400_000) : null
    const row = await this.#db.apiKey.create({
      data: {
        name: `${environment} key`,
        ...columns(policy),
        ...stored,
        id: newId('key'),
        organisationId,
        environment,
        expiresAt,
      },
    })
    return { row, secret }
  }

  /** A page of an organisation's keys, newest first; revoked ones only when asked for. `after` is a hash. */
  async list(
    organisationId: string,
    options: { limit: number; after?: string; includeRevoked?: boolean },
  ): Promise<ApiKey[]> {
    return this.#db.apiKey.findMany({
      where: { organisationId, ...(options.includeRevoked ? {} : { revokedAt: null }) },
      orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
      take: options.limit,
      ...(options.after && { cursor: { hash: options.after }, skip: 1 }),
    })
  }

  /** One key by its hash. Throws 404, also for another organisation's. `organisationId` null = any (the operator). */
  async get(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.#db.apiKey.findFirst({ where: { hash, ...(organisationId && { organisationId }) } })
    if (!row) throw new GatewayError('not_found', 'No such key.')
    return row
  }

  /** Changes policy fields, in force for the next request on every process. Throws 404 for a key revoked for good. */
  async patch(organisationId: string | null, hash: string, input: z.output<typeof keyPatch>): Promise<ApiKey> {
    const { disabled, ...policy } = input
    const row = await this.#live(organisationId, hash)
    const data = { ...columns(policy), ...(disabled !== undefined && { disabled }), version: { increment: 1 } }
    return this.#policies.changing(hash, () =>
      this.#db.apiKey.update({ where: { id: row.id, hash, revokedAt: null }, data }),
    )
  }

  /** Replaces the secret and keeps the policy; the old one stops working in the same transaction. */
  async roll(organisationId: string | null, hash: string): Promise<{ row: ApiKey; secret: string }> {
    const { id, environment } = await this.#live(organisationId, hash)
    const { secret, ...stored } = newSecret(`svc_sk_${environment}_`)
    const row = await this.#policies.changing(hash, () =>
      this.#db.$transaction(async tx => {
        const updated = await tx.apiKey.update({
          where: { id, hash, revokedAt: null },
          data: { ...stored, version: { increment: 1 } },
        })
        await tx.retiredSecret.create({ data: { hash, keyId: id } })
        return updated
      }),
    )
    return { row, secret }
  }

  /** Disables a key for good; its history stays. Revoking twice changes nothing. */
  async revoke(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.get(organisationId, hash)
    if (row.revokedAt) return row
    const data = { revokedAt: new Date(), version: { increment: 1 } }
    return this.#policies.changing(hash, () => this.#db.apiKey.update({ where: { id: row.id }, data }))
  }

  /** Creates a provisioning key for an organisation. */
  async createProvisioning(
    organisationId: string,
  ): Promise<{ id: string; prefix: string; last4: string; secret: string }> {
    const { secret, ...stored } = newSecret('svc_pk_')
    const row = await this.#db.provisioningKey.create({ data: { ...stored, id: newId('key'), organisationId } })
    return { id: row.id, prefix: row.prefix, last4: row.last4, secret }
  }

  /** Revokes every provisioning key of an organisation, or the one given; answers how many. */
  async revokeProvisioning(organisationId: string, id?: string): Promise<number> {
    const where = { organisationId, revokedAt: null, ...(id && { id }) }
    const { count } = await this.#db.provisioningKey.updateMany({ where, data: { revokedAt: new Date() } })
    return count
  }

  /** The organisation of a provisioning secret. Throws 401. */
  async provisioningOrganisation(secret: string): Promise<string> {
    const row = await this.#db.provisioningKey.findUnique({ where: { hash: hashSecret(secret) } })
    if (!row) throw new GatewayError('invalid_api_key', 'This provisioning key does not exist.')
    if (row.revokedAt) throw new GatewayError('revoked_api_key', 'This provisioning key was revoked.')
    return row.organisationId
  }

  async #live(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.get(organisationId, hash)
    if (row.revokedAt) throw new GatewayError('not_found', 'This key was revoked for good.')
    return row
  }
}
