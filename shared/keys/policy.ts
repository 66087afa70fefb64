import { GatewayError } from '../base/errors.ts'
import { keyBlocked, keyDisabled, keyExpired, keyRevoked, secretReplaced } from '../base/key-refusals.ts'
import { formatNames } from '../base/names.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { type KeyProviderPreferences, storedPreferences } from '../catalog/provider-preferences.ts'
import type { ApiKey, Budget } from '../generated/prisma/client.ts'
import { type ContentColumns, type ContentLogging, contentLoggingOf } from './content-logging.ts'
import { type Guardrails, storedGuardrails } from './guardrails.ts'
import type { OwnKeys } from './own-keys.ts'

/** From lowest cost to highest quality. */
export const modes = ['cost', 'balanced', 'quality'] as const
export type Mode = (typeof modes)[number]
export const scopes = ['chat', 'embeddings', 'completions', '*'] as const
export type Scope = (typeof scopes)[number]

/** `revoked` is final; a key is disabled by a person, or blocked by the service. */
export type KeyState = 'active' | 'revoked' | 'disabled' | 'blocked'

/** What a key spent in a month. `figures`: nano-dollars and the version of the row, as the admission script reads them. */
export type MonthSpend = { month: string; figures: string }

/** The permissions and limits of a standard key, from one version of its row. */
export type Policy = {
  /** Hash of the key's current secret, under which its version is confirmed. */
  hash: string
  /** Hash of the secret that the policy was found by: the current one, or the one that it replaced. */
  secretHash: string
  /** When that secret stops working; null = as long as the key does. */
  secretExpiresAtMs: number | null
  version: number
  keyId: string
  organisationId: string
  environment: 'live' | 'test'
  /** False for test keys: nothing is reserved or charged. */
  spendsMoney: boolean
  mode: Mode
  rpmLimit: number | null
  tpmLimit: number | null
  /** The rate-limit windows that it counts in. */
  rateKey: string
  /** The limits of all test keys of the organisation together, and their windows; null for a live key. */
  shared: (Limits & { rateKey: string }) | null
  capNano: number | null
  /** The budgets of its organisation and its creator that block requests; null = none. */
  budgets: readonly SpendBudget[] | null
  /** What was spent in a month when the policy was read; null = it was not read with it. */
  monthSpend: MonthSpend | null
  /** Which providers may serve it, before the preferences of a request; null = all. */
  provider: KeyProviderPreferences | null
  /** The organisation's own provider keys, which its requests use; null = the operator's. */
  ownKeys: OwnKeys | null
  /** Whether its answers are cached, and for how long at most; null = they are not. */
  cache: { ttlS: number } | null
  /** What the texts of its requests and their answers are checked for; null = nothing. */
  guardrails: Guardrails | null
  /** Null = all models. */
  allowlist: ReadonlySet<string> | null
  /** The service tiers that its requests may not ask for; null = none. */
  deniedTiers: ReadonlySet<string> | null
  scopes: ReadonlySet<string>
  /** Whether `auto` uses what feedback taught. */
  learning: boolean
  /** Which input and output is logged; null = none. */
  contentLogging: ContentLogging | null
  expiresAtMs: number | null
  state: KeyState
  /** Whether its organisation is suspended. */
  suspended: boolean
}

/** Upper bounds of the rate limits per minute; null = none. */
export type Limits = { rpm: number | null; tpm: number | null }
const unlimited: Limits = { rpm: null, tpm: null }

/** What a policy needs of a key's row: also its organisation's settings, which keys without their own follow. */
export const policyRow = {
  include: {
    organisation: {
      select: {
        suspendedAt: true,
        contentMode: true,
        contentPercent: true,
        contentUntil: true,
        budgets: { where: { blocks: true }, select: { id: true, memberId: true, limitNano: true } },
      },
    },
  },
} as const
type BudgetColumns = Pick<Budget, 'id' | 'memberId' | 'limitNano'>
export type PolicyRow = ApiKey & {
  organisation: ContentColumns & { suspendedAt: Date | null; budgets: BudgetColumns[] }
}

/** A budget as a policy has it. */
type SpendBudget = { id: string; limitNano: number; of: 'organisation' | 'member' }

/** A secret of a key, if it is not the current one. */
export type ReplacedSecret = { hash: string; expiresAtMs: number }

/** What a policy has beside its row: how it was found, the own provider keys, and what was spent in its month. */
type PolicyParts = { replaced?: ReplacedSecret | null; ownKeys?: OwnKeys | null; monthSpend?: MonthSpend | null }

/**
 * The policy of a key's row, for its current secret or one that this replaced. A limit of 0 means none; limits
 * of test keys are capped by `testLimits`, which they share.
 */
export function policyOf(
  row: PolicyRow,
  testLimits: Limits = unlimited,
  { replaced = null, ownKeys = null, monthSpend = null }: PolicyParts = {},
): Policy {
  const bounds = row.environment === 'test' ? testLimits : unlimited
  return {
    hash: row.hash,
    secretHash: replaced?.hash ?? row.hash,
    secretExpiresAtMs: replaced?.expiresAtMs ?? null,
    version: row.version,
    keyId: row.id,
    organisationId: row.organisationId,
    environment: row.environment,
    spendsMoney: row.environment === 'live',
    mode: row.mode,
    rpmLimit: minLimit(row.rpmLimit, bounds.rpm),
    tpmLimit: minLimit(row.tpmLimit, bounds.tpm),
    rateKey: row.id,
    shared: row.environment === 'test' ? { rateKey: `test:${row.organisationId}`, ...testLimits } : null,
    capNano: row.monthlySpendCapNano === null ? null : Number(row.monthlySpendCapNano),
    budgets: budgetsOf(row),
    monthSpend,
    allowlist: row.modelAllowlist.length > 0 ? new Set(row.modelAllowlist) : null,
    deniedTiers: row.deniedTiers.length > 0 ? new Set(row.deniedTiers) : null,
    scopes: scopesOf(row.scopes),
    learning: row.learning,
    provider: storedPreferences(row.provider),
    ownKeys,
    cache: row.cacheTtlS === null ? null : { ttlS: row.cacheTtlS },
    guardrails: storedGuardrails(row.guardrails),
    contentLogging: contentLoggingOf(row, row.organisation),
    expiresAtMs: row.expiresAt?.getTime() ?? null,
    state: keyStateOf(row),
    suspended: row.organisation.suspendedAt !== null,
  }
}

const scopeSets = new Map<string, ReadonlySet<string>>()
/** More sets than there are combinations of scopes in any order. */
const maxScopeSets = 100

/** The set of a key's scopes. Keys share the sets, of which there are few: one is a quarter of a policy. */
function scopesOf(names: readonly string[]): ReadonlySet<string> {
  const name = names.join()
  const known = scopeSets.get(name)
  if (known) return known
  const set = new Set(names)
  if (scopeSets.size < maxScopeSets) scopeSets.set(name, set)
  return set
}

/** Test keys spend nothing. */
function budgetsOf({ environment, createdById, organisation }: PolicyRow): SpendBudget[] | null {
  if (environment === 'test') return null
  const own = organisation.budgets.filter(({ memberId }) => memberId === '' || memberId === createdById)
  if (own.length === 0) return null
  return own.map(({ id, memberId, limitNano }) => ({
    id,
    limitNano: Number(limitNano),
    of: memberId === '' ? 'organisation' : 'member',
  }))
}

function keyStateOf({
  revokedAt,
  disabled,
  blockedReason,
}: Pick<ApiKey, 'revokedAt' | 'disabled' | 'blockedReason'>): KeyState {
  if (revokedAt !== null) return 'revoked'
  if (!disabled) return 'active'
  return blockedReason === null ? 'disabled' : 'blocked'
}

/** A key's status in the API's format, which has one for all that are refused, and what it is for. */
export function presentStatus(row: ApiKey, nowMs: number) {
  const state = keyStateOf(row)
  const isExpired = row.expiresAt !== null && row.expiresAt.getTime() <= nowMs
  return {
    status: state !== 'active' ? 'revoked' : isExpired ? 'expired' : 'active',
    status_reason: state === 'active' ? null : state,
  }
}

function minLimit(own: number | null, bound: number | null): number | null {
  return own && bound ? Math.min(own, bound) : own || bound
}

/** Whether a key may call a route that needs `scope` (null = any key may; `*` allows all). */
export function allows(policy: Policy, scope: Scope | null, nowMs: number): boolean {
  return refusalOf(policy, scope, nowMs) === null
}

/** Asserts that a key may call a route; see `allows`. Throws 401 or 403. */
export function authorise(policy: Policy, scope: Scope | null, nowMs: number): void {
  const refusal = refusalOf(policy, scope, nowMs)
  if (refusal) throw refusal
}

/** The refusal of everything that an organisation's keys do while it is suspended. */
export function organisationSuspended(): GatewayError {
  return new GatewayError(
    'organisation_suspended',
    'This organisation is suspended. Contact the operator of this service.',
  )
}

/** The refusal of a replaced secret whose overlap is over, or of a key that has expired. */
export function expiryOf({ expiresAtMs, secretExpiresAtMs }: Policy, nowMs: number): GatewayError | null {
  if (secretExpiresAtMs !== null && secretExpiresAtMs <= nowMs) return secretReplaced()
  return expiresAtMs !== null && expiresAtMs <= nowMs ? keyExpired() : null
}

/** Whether a refusal is about the key itself, not about one request: what runs under the key ends. */
export function refusesKey({ status, code }: GatewayError): boolean {
  return status === 401 || code === 'organisation_suspended'
}

const refusals = { revoked: keyRevoked, disabled: keyDisabled, blocked: keyBlocked } as const

function refusalOf(policy: Policy, scope: Scope | null, nowMs: number): GatewayError | null {
  const { state, suspended, scopes } = policy
  if (state !== 'active') return refusals[state]()
  const expiry = expiryOf(policy, nowMs)
  if (expiry) return expiry
  if (suspended) return organisationSuspended()
  if (scope === null || scopes.has('*') || scopes.has(scope)) return null
  return insufficientScope(scope)
}

/** The refusal of a route that needs another scope than the key has. */
export function insufficientScope(scope: Scope): GatewayError {
  const needed = scope === '*' ? '`*`' : `\`${scope}\` or \`*\``
  return new GatewayError('insufficient_scope', `This key’s scopes do not allow this route (it needs ${needed}).`)
}

type Resolved = { models: Catalog['models']; ids: ReadonlySet<string> }

/** Model ids by allowlist: an allowlist may name models by any of their slugs, and is resolved once per policy and catalog. */
const idsByAllowlist = new WeakMap<ReadonlySet<string>, Resolved>()

/** The ids of the models a key may use; null = all. */
export function allowedModels(catalog: Catalog, { allowlist }: Pick<Policy, 'allowlist'>): ReadonlySet<string> | null {
  if (!allowlist) return null
  const { models } = catalog
  const resolved = idsByAllowlist.get(allowlist)
  if (resolved?.models === models) return resolved.ids
  const idsOf = (slug: string) =>
    catalog.arms.get(slug.toLowerCase())?.map(({ model }) => model) ?? [catalog.find(slug)?.id ?? slug]
  const ids = new Set([...allowlist].flatMap(idsOf))
  idsByAllowlist.set(allowlist, { models, ids })
  return ids
}

/** The 400 of a request for automatic model selection when the key's allowlist has no model of its kind. */
export function noAllowedModelError(allowlist: Iterable<string>): GatewayError {
  const message = `The allowlist of this key has no model that this request can be sent to. It has: ${formatNames([...allowlist])}.`
  return new GatewayError('invalid_request', message, { param: 'model' })
}
