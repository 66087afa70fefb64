import type { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { provisioningKeyRevoked } from '../base/key-refusals.ts'
import { type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import { type Clock, dayMs } from '../base/time.ts'
import { storedPreferences } from '../catalog/provider-preferences.ts'
import { type ApiKey, Prisma, type ProvisioningKey } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { containing, literally, rowsAfter } from '../io/keyset.ts'
import { lockOneKey } from '../io/organisation-locks.ts'
import { assertPublicUrl, type UrlPolicy } from '../io/safe-url.ts'
import { type ContentColumns, presentContentSetting } from './content-logging.ts'
import { changeOfState } from './cost-control.ts'
import { storedGuardrails } from './guardrails.ts'
import type { KeyPolicy, keyPatch, newKey } from './key-requests.ts'
import { ownKeyModeOf } from './own-keys.ts'
import type { Policies } from './policies.ts'
import { organisationSuspended, policyRow, presentStatus } from './policy.ts'
import { type OverlappingSecret, retireSecret } from './replaced-secrets.ts'
import { hashSecret, newSecret, type Secret } from './secret.ts'
import { type KeyChange, TestKeyLimit } from './test-key-limit.ts'

/** A key in the format of the provisioning routes and the command line. */
export type KeyRecord = ReturnType<typeof keyRecord>

/** Presents a key's row, without its secret. `replaced`: its former secret, while that still works. */
export function keyRecord(row: ApiKey, spentNano: Nano, replaced: OverlappingSecret | null, nowMs: number) {
  return {
    hash: row.hash,
    ...settings(row),
    prefix: row.prefix,
    last4: row.last4,
    ...presentStatus(row, nowMs),
    spend_month_usd: usdFromNano(spentNano),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
    previous_secret_last4: replaced?.last4 ?? null,
    previous_secret_valid_until: replaced?.validUntil.toISOString() ?? null,
  }
}

/** The configurable fields of a key, in the API's format. */
export function settings(row: ApiKey) {
  return {
    name: row.name,
    environment: row.environment,
    mode: row.mode,
    rpm_limit: row.rpmLimit || null,
    tpm_limit: row.tpmLimit || null,
    monthly_spend_cap_usd: row.monthlySpendCapNano === null ? null : usdFromNano(row.monthlySpendCapNano),
    model_allowlist: row.modelAllowlist.length > 0 ? row.modelAllowlist : null,
    scopes: row.scopes.join(','),
    learning: row.learning,
    denied_service_tiers: row.deniedTiers.length > 0 ? row.deniedTiers : null,
    provider: storedPreferences(row.provider),
    own_keys: ownKeyModeOf(row),
    cache: row.cacheTtlS === null ? null : { ttl_s: row.cacheTtlS },
    guardrails: storedGuardrails(row.guardrails),
    expires_at: row.expiresAt?.toISOString() ?? null,
  }
}

/** The settings of a key that is created with its name alone. */
export const defaultSettings: Omit<ReturnType<typeof settings>, 'name' | 'environment'> = {
  mode: 'balanced',
  rpm_limit: null,
  tpm_limit: null,
  monthly_spend_cap_usd: null,
  model_allowlist: null,
  scopes: '*',
  learning: true,
  denied_service_tiers: null,
  provider: null,
  own_keys: 'shared',
  cache: null,
  guardrails: null,
  expires_at: null,
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
    ...(policy.learning !== undefined && { learning: policy.learning }),
    ...(policy.denied_service_tiers !== undefined && { deniedTiers: [...new Set(policy.denied_service_tiers ?? [])] }),
    ...(policy.cache !== undefined && { cacheTtlS: policy.cache?.ttl_s ?? null }),
    ...(policy.guardrails !== undefined && { guardrails: policy.guardrails ?? Prisma.DbNull }),
    ...(policy.provider !== undefined && { provider: policy.provider ?? Prisma.DbNull }),
    ...(policy.own_keys !== undefined && { ownKeys: policy.own_keys === 'shared' ? null : policy.own_keys }),
    ...(policy.expires_at !== undefined && { expiresAt: policy.expires_at ? new Date(policy.expires_at) : null }),
  }
}

/** Turns Prisma's "record not found" (P2025) into a 404: the row was deleted, rolled or revoked since it was read. */
function throwNotFound(error: unknown): never {
  if ((error as { code?: unknown }).code !== 'P2025') throw error
  throw new GatewayError('not_found', 'This key was rolled or revoked just now.')
}

/** The filter of a search: part of a name, the visible prefix or last four characters of a secret, or a key's id or hash. */
function searchFilter(text: string): Prisma.ApiKeyWhereInput {
  return {
    OR: [
      { name: containing(text) },
      { prefix: { startsWith: literally(text) } },
      ...['last4', 'id', 'hash'].map(field => ({ [field]: text })),
    ],
  }
}

/** States of keys by which a list is filtered; `unused`: keys that could be used, and were not for 60 days. */
export const keyStates = ['active', 'unused', 'disabled', 'expired'] as const
type KeyState = (typeof keyStates)[number]
const unusedMs = 60 * dayMs

function stateFilter(state: KeyState, nowMs: number): Prisma.ApiKeyWhereInput {
  const isInTime = { OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }] }
  const before = { lt: new Date(nowMs - unusedMs) }
  switch (state) {
    case 'active':
      return { disabled: false, revokedAt: null, ...isInTime }
    case 'unused': {
      const isIdle = { OR: [{ lastUsedAt: before }, { lastUsedAt: null, createdAt: before }] }
      return { disabled: false, revokedAt: null, AND: [isInTime, isIdle] }
    }
    case 'disabled':
      return { disabled: true, revokedAt: null }
    case 'expired':
      return { disabled: false, revokedAt: null, expiresAt: { lte: new Date(nowMs) } }
  }
}

const patchableFields = (row: ApiKey) => ({
  ...settings(row),
  disabled: row.disabled,
  content_logging: presentContentSetting(row),
})

const guardUrl = 'guardrails.webhook.url'

type Page = { limit: number; after?: string; order?: 'asc' | 'desc' }
type KeyFilters = {
  /** Otherwise without revoked keys. */
  includeRevoked?: boolean
  /** See `searchFilter`. */
  search?: string
  createdById?: string | undefined
  environment?: 'live' | 'test' | undefined
  state?: KeyState | undefined
}
type NewKey = z.output<typeof newKey>
type RollOptions = {
  overlapHours?: number | undefined
  /** Runs in the same transaction. */
  beside?: TransactionStep<CreatedKey>
  /** The new secret, if there is one already. */
  given?: Secret
}
/** A key with its new secret, which is not stored, and the secret that this replaced, if that still works. */
export type CreatedKey = { row: ApiKey; secret: string; replaced: OverlappingSecret | null }

/** The standard and provisioning keys. Only this class and `removed-member-keys.ts` write their tables, with the audit event in the same transaction. */
export class Keys {
  readonly #db: Database
  readonly #policies: Policies
  readonly #clock: Clock
  readonly #testKeys: TestKeyLimit
  readonly #urlPolicy: UrlPolicy

  constructor(
    db: Database,
    policies: Policies,
    options: { clock: Clock; maxTestKeys: number | null; urlPolicy: UrlPolicy },
  ) {
    this.#db = db
    this.#policies = policies
    this.#clock = options.clock
    this.#testKeys = new TestKeyLimit(options.maxTestKeys, options.clock)
    this.#urlPolicy = options.urlPolicy
  }

  /**
   * Creates a standard key; `beside` runs in the same transaction. `given`: its secret, if it has one already. Throws 403 for too
   * many active test keys.
   */
  async create(
    organisationId: string,
    input: NewKey,
    actor: Actor,
    beside?: TransactionStep<CreatedKey>,
    given?: Secret,
  ): Promise<CreatedKey> {
    const { environment, expires_in_days: days, ...policy } = input
    await this.#checkUrl(policy)
    const { secret, ...stored } = given ?? newSecret(`svc_sk_${environment}_`)
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
      if (environment === 'test') await this.#testKeys.assertRoom(tx, organisationId)
      const created = await tx.apiKey.create({ data })
      const changes = changesBetween({}, settings(created))
      await audit(tx, { organisationId, actor, action: 'key.created', target: created, changes })
      await beside?.(tx, { row: created, secret, replaced: null })
      return created
    })
    return { row, secret, replaced: null }
  }

  /** A page of an organisation's keys by creation time. `after` is a key's hash. Throws 404 for an unknown one. */
  async list(organisationId: string, options: Page & KeyFilters): Promise<ApiKey[]> {
    const { limit, after, order = 'desc', includeRevoked = false, search, createdById, environment, state } = options
    // Keyset pagination by creation time: the key itself may no longer match the filter.
    const last = after === undefined ? null : await this.get(organisationId, after)
    return this.#db.apiKey.findMany({
      where: {
        organisationId,
        ...(!includeRevoked && { revokedAt: null }),
        ...(createdById !== undefined && { createdById }),
        ...(environment && { environment }),
        AND: [search ? searchFilter(search) : {}, state ? stateFilter(state, this.#clock.now()) : {}],
        ...(last && rowsAfter(last, order)),
      },
      orderBy: [{ createdAt: order }, { id: order }],
      take: limit,
    })
  }

  /** Gets a key by its hash. Throws 404, also for a key of another organisation. `organisationId` null = any (for the operator). */
  async get(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.#db.apiKey.findFirst({ where: { hash, ...(organisationId && { organisationId }) } })
    if (!row) throw new GatewayError('not_found', 'No such key.')
    return row
  }

  /**
   * Finds a key of an organisation by any of its names: its id, which stays, the hash of its secret, or the hash of a secret
   * that a roll replaced. Throws 404.
   */
  async find(organisationId: string, name: string): Promise<ApiKey> {
    const row = await this.#db.apiKey.findFirst({ where: { organisationId, OR: [{ id: name }, { hash: name }] } })
    if (row) return row
    const replaced = await this.#db.retiredSecret.findUnique({ where: { hash: name }, include: { key: true } })
    if (replaced?.key.organisationId !== organisationId)
      throw new GatewayError('not_found', 'No such key.', { param: 'key' })
    return replaced.key
  }

  /** Updates policy fields, effective at once on every process. Throws 404 for a revoked key, 403 for too many active test keys. */
  async patch(
    organisationId: string | null,
    hash: string,
    input: z.output<typeof keyPatch>,
    actor: Actor,
  ): Promise<ApiKey> {
    const { disabled, ...policy } = input
    await this.#checkUrl(policy)
    const data = { ...columns(policy), ...(disabled !== undefined && { disabled }) }
    return this.#update(organisationId, hash, data, actor)
  }

  /** Asserts that the guard of a policy has a public address. Throws 400. */
  async #checkUrl({ guardrails }: KeyPolicy): Promise<void> {
    if (guardrails?.webhook) await assertPublicUrl(guardrails.webhook.url, { ...this.#urlPolicy, param: guardUrl })
  }

  /** Sets which input and output of a key is logged, effective as `patch`. Throws 404 for a permanently revoked key. */
  setContentLogging(organisationId: string, hash: string, data: ContentColumns, actor: Actor): Promise<ApiKey> {
    return this.#update(organisationId, hash, data, actor)
  }

  async #update(
    organisationId: string | null,
    hash: string,
    changed: Prisma.ApiKeyUpdateInput & KeyChange,
    actor: Actor,
  ): Promise<ApiKey> {
    const { id, organisationId: owner } = await this.#getUnrevoked(organisationId, hash)
    const where = { id, hash, revokedAt: null }
    const commit = async (tx: Connection) => {
      await lockOneKey(tx, owner)
      // A row lock serialises concurrent patches, so that each audit event has only its own changes.
      await tx.$executeRaw`SELECT 1 FROM api_keys WHERE id = ${id} FOR UPDATE`
      const before = await tx.apiKey.findUniqueOrThrow({ where })
      const state = changeOfState(before, changed.disabled, this.#clock.now())
      const data = { ...changed, ...state, version: { increment: 1 } }
      if (this.#testKeys.isReactivated(before, changed)) await this.#testKeys.assertRoom(tx, owner)
      const after = await tx.apiKey.update({ where, data })
      const changes = changesBetween(patchableFields(before), patchableFields(after))
      if (Object.keys(changes).length > 0)
        await audit(tx, { organisationId: owner, actor, action: 'key.updated', target: after, changes })
      return after
    }
    const key = { hash, organisationId: owner }
    return this.#policies.applyChange(key, () => this.#db.$transaction(commit).catch(throwNotFound))
  }

  /**
   * Replaces the secret and keeps the policy. The old secret stops working in the same transaction, or after `overlapHours`; one
   * that an earlier roll left working always stops. The row stays: spend per month, rate windows, request log and ledger refer
   * to its id, so a roll resets neither cap nor rate window. The address `/api/v1/keys/{hash}` is that of the new secret.
   */
  async roll(
    organisationId: string | null,
    hash: string,
    actor: Actor,
    { overlapHours = 0, beside, given }: RollOptions = {},
  ): Promise<CreatedKey> {
    const old = await this.#getUnrevoked(organisationId, hash)
    const { id } = old
    const { secret, ...stored } = given ?? newSecret(`svc_sk_${old.environment}_`)
    return this.#policies.applyChange(old, () =>
      this.#db.$transaction(async tx => {
        await lockOneKey(tx, old.organisationId)
        const data = { ...stored, version: { increment: 1 } }
        const row = await tx.apiKey.update({ where: { id, hash, revokedAt: null }, data }).catch(throwNotFound)
        const validUntil = await retireSecret(tx, old, row.hash, { overlapHours, nowMs: this.#clock.now() })
        const changes = changesBetween(
          { last4: old.last4 },
          { last4: row.last4, previous_secret_valid_until: validUntil?.toISOString() },
        )
        await audit(tx, { organisationId: row.organisationId, actor, action: 'key.rolled', target: row, changes })
        const rolled = { row, secret, replaced: validUntil && { last4: old.last4, validUntil } }
        await beside?.(tx, rolled)
        return rolled
      }),
    )
  }

  /** Revokes a key permanently and keeps its history. Idempotent: a retry completes an interrupted revocation. */
  async revoke(organisationId: string | null, hash: string, actor: Actor): Promise<ApiKey> {
    const row = await this.get(organisationId, hash)
    const data = { revokedAt: new Date(this.#clock.now()), version: { increment: 1 } }
    const commit = async (tx: Connection) => {
      await lockOneKey(tx, row.organisationId)
      const { count } = await tx.apiKey.updateMany({ where: { id: row.id, hash, revokedAt: null }, data })
      if (count === 1)
        await audit(tx, { organisationId: row.organisationId, actor, action: 'key.revoked', target: row })
    }
    return this.#policies.applyChange(row, async () => {
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

  /** Revokes every provisioning key of an organisation, or only `id`. Returns how many. */
  async revokeProvisioning(organisationId: string, actor: Actor, id?: string): Promise<number> {
    const where = { organisationId, revokedAt: null, ...(id && { id }) }
    const data = { revokedAt: new Date(this.#clock.now()) }
    return this.#db.$transaction(async tx => {
      const revoked = await tx.provisioningKey.updateManyAndReturn({ where, data })
      for (const { id, prefix } of revoked)
        await audit(tx, { organisationId, actor, action: 'provisioning_key.revoked', target: { id, name: prefix } })
      return revoked.length
    })
  }

  /** Finds the provisioning key of a secret. Throws 401, and 403 while its organisation is suspended. */
  async findProvisioningKey(secret: string): Promise<ProvisioningKey> {
    const where = { hash: hashSecret(secret) }
    const row = await this.#db.provisioningKey.findUnique({ where, ...policyRow })
    if (!row) throw new GatewayError('invalid_api_key', 'This provisioning key does not exist.')
    if (row.revokedAt) throw provisioningKeyRevoked()
    if (row.organisation.suspendedAt) throw organisationSuspended()
    return row
  }

  async #getUnrevoked(organisationId: string | null, hash: string): Promise<ApiKey> {
    const row = await this.get(organisationId, hash)
    if (row.revokedAt) throw new GatewayError('not_found', 'This key was revoked for good.')
    return row
  }
}
