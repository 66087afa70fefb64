import { fieldSeparator } from './scripts.ts'

/** The rate limits of several keys together, and their windows. Each bounds the key's own limit, and holds only where that is set. */
type SharedLimits = Readonly<{ rateKey: string; rpm: number | null; tpm: number | null }>

/** A budget that refuses requests: the account of its month, its limit, and whose keys it sums. */
export type SpendBudget = Readonly<{ id: string; limitNano: number; of: 'organisation' | 'member' }>

/** The fields of a key's policy that admission and settlement use. Every policy is one (`shared/keys/policy.ts`). */
export type BillingContext = Readonly<{
  hash: string
  version: number
  keyId: string
  /** The rate-limit windows it counts in: the key's own, or those of its batch lines. */
  rateKey: string
  organisationId: string
  /** What it shares with the other test keys of its organisation; absent for live keys. */
  shared?: SharedLimits | null
  expiresAtMs: number | null
  rpmLimit: number | null
  tpmLimit: number | null
  capNano: number | null
  /** The budgets that bound its spend beside its cap; null or absent = none. */
  budgets?: readonly SpendBudget[] | null
  /** What the key had spent in a month when its policy was read, for a Redis that does not know it; absent = not read. */
  monthSpend?: Readonly<{ month: string; figures: string }> | null
  /** False for test keys: nothing is reserved or charged. */
  spendsMoney: boolean
}>

/** The maximum cost of one request: a fixed part (input, or a flat price) and a price per output token. */
export type MaxCost = {
  estimatedTokens: number
  fixedNano: number
  picoPerOutputToken: number
  outputTokens: number
  /** True when the client requested `outputTokens`, false when it is the model's own limit. */
  explicit: boolean
  /** A wallet that cannot pay `outputTokens` lowers them, but not below this number; then the request is refused. */
  minTokens: number
  /** Output tokens to reserve at first when the rest is reserved while the request runs; 0 = reserve all. */
  likelyTokens: number
  /** It calls no model: it counts as a request, and is not refused for the tokens of others. */
  withoutTokens?: true
  /** What both parts are multiplied by when they are reserved, because earlier requests cost more; absent = 1. */
  factor?: number
}

/** The cost of a request with this number of output tokens, in nano-dollars. */
export function costWithOutput({ fixedNano, picoPerOutputToken }: MaxCost, tokens: number): number {
  return fixedNano + Math.ceil((tokens * picoPerOutputToken) / 1_000)
}

/** The maximum cost as it is reserved: with its factor. */
export function reservableCost(maxCost: MaxCost): MaxCost {
  const { factor = 1, fixedNano, picoPerOutputToken } = maxCost
  if (factor === 1) return maxCost
  return {
    ...maxCost,
    fixedNano: Math.ceil(fixedNano * factor),
    picoPerOutputToken: Math.ceil(picoPerOutputToken * factor),
  }
}

/** The ids of the budgets, separated by commas, as usage events, jobs and batches have them; null = none. */
export function budgetIds({ budgets }: Pick<BillingContext, 'budgets'>): string | null {
  return budgets ? budgets.map(({ id }) => id).join(',') : null
}

/** The accounts whose month a reservation or a charge counts in: that of its key, and those of its budgets, after commas. */
export function spendAccounts(keyId: string, budgets: string | null | undefined): string {
  return budgets ? `${keyId},${budgets}` : keyId
}

/** The accounts of a key's reservations. */
export function accountsOf(billing: Pick<BillingContext, 'keyId' | 'budgets'>): string {
  return billing.budgets ? spendAccounts(billing.keyId, budgetIds(billing)) : billing.keyId
}

type RateWindow = { limit: number; remaining: number; resetMs: number }
type RateFigures = { requests: RateWindow | null; tokens: RateWindow | null }

/** The reservation of an admitted request, settled exactly once. */
export type Reservation = {
  id: string
  billing: BillingContext
  month: string
  reservedNano: number
  /** Reserved in addition while the request ran, in nano-dollars. */
  extraNano?: number
  /** Output tokens the request may use. */
  outputTokens: number
  /** Of these, the tokens that were reserved at the admission. */
  reservedTokens: number
  /** The cost of all `outputTokens` without the factor, in nano-dollars; may exceed `reservedNano` while some are not reserved. */
  maxNano: number
  /** The factor of the reserved maximum cost; absent = 1. */
  factor?: number
  clamped: boolean
  /** Whether the caller set the limit of output tokens. */
  explicit: boolean
  countedTokens: number
  /** The starts of the buckets that count its tokens, by Redis' clock in microseconds; 0 = not counted. */
  tokenBucketsUs: { own: number; shared: number }
  rates: RateFigures
  /** True while this process holds the reservation; absent when another owner does. */
  isOpen?: boolean
}

/** The maximum cost of a request with a known price in nano-dollars and without output tokens. */
export function flatCost(fixedNano: number): MaxCost {
  const noOutput = { picoPerOutputToken: 0, outputTokens: 0, explicit: true, minTokens: 0, likelyTokens: 0 }
  return { estimatedTokens: 0, fixedNano, ...noOutput }
}

/** The maximum cost of a request that calls no model. */
export function noCost(): MaxCost {
  return { ...flatCost(0), withoutTokens: true }
}

/** The billing of a request that is free of charge. */
export function withoutMoney(billing: BillingContext): BillingContext {
  return { ...billing, spendsMoney: false }
}

type AdmittedRequest = { billing: BillingContext; id: string; month: string; maxCost: MaxCost }

/** The reservation of an admitted request; `figures` is the reply of `admit.lua`. */
export function createReservation(figures: string, { billing, id, month, maxCost }: AdmittedRequest): Reservation {
  const reply = figures.split(' ')
  const outputTokens = Number(reply[0])
  return {
    id,
    billing,
    month,
    outputTokens,
    reservedTokens: Number(reply[1]),
    reservedNano: Number(reply[2]),
    maxNano: costWithOutput(maxCost, outputTokens),
    factor: maxCost.factor ?? 1,
    clamped: reply[3] === '1',
    explicit: maxCost.explicit,
    countedTokens: Number(reply[4]),
    tokenBucketsUs: { own: Number(reply[5]), shared: Number(reply[6]) },
    rates: rateFigures(billing, reply, 7),
    isOpen: billing.spendsMoney,
  }
}

const packedKeys = new WeakMap<BillingContext, string>()

/** The script arguments shared by all requests of a key, packed and cached. */
export function packKey(b: BillingContext): string {
  let text = packedKeys.get(b)
  if (text === undefined) {
    const [rpm, sharedRpm] = windowLimits(b.rpmLimit, b.shared?.rpm)
    const [tpm, sharedTpm] = windowLimits(b.tpmLimit, b.shared?.tpm)
    const key = [b.hash, b.version, b.keyId, b.organisationId, b.expiresAtMs ?? '', rpm, tpm, b.capNano ?? '']
    const shared = b.shared ? [b.shared.rateKey, sharedRpm, sharedTpm] : b.budgets ? ['', 0, 0] : []
    const budgets = (b.budgets ?? []).flatMap(({ id, limitNano }) => [id, limitNano])
    text = [...key, b.spendsMoney ? 1 : 0, b.rateKey, ...shared, ...budgets, ''].join(fieldSeparator)
    packedKeys.set(b, text)
  }
  return text
}

/** The limits of a key's own window and of the shared one; 0 = it has none. Its own is needed only if it is the lower one. */
function windowLimits(own: number | null, shared: number | null | undefined): [own: number, shared: number] {
  if (!own || !shared) return [own ?? 0, 0]
  return [own < shared ? own : 0, shared]
}

/** The rate-limit figures in a reply of the admission script, starting at index `at`. */
export function rateFigures(
  { rpmLimit, tpmLimit }: Pick<BillingContext, 'rpmLimit' | 'tpmLimit'>,
  reply: readonly (string | number)[],
  at: number,
): RateFigures {
  const window = (limit: number | null, i: number) =>
    limit ? { limit, remaining: Number(reply[i]), resetMs: Number(reply[i + 1]) } : null
  return { requests: window(rpmLimit, at), tokens: window(tpmLimit, at + 2) }
}

/** The rate-limit headers, in OpenAI's format (docs/keys-and-limits.md). */
export function rateHeaders({ requests, tokens }: RateFigures): Record<string, string> {
  const headers: Record<string, string> = {}
  if (requests) {
    headers['x-ratelimit-limit-requests'] = String(requests.limit)
    headers['x-ratelimit-remaining-requests'] = String(requests.remaining)
    headers['x-ratelimit-reset-requests'] = `${requests.resetMs / 1000}s`
  }
  if (tokens) {
    headers['x-ratelimit-limit-tokens'] = String(tokens.limit)
    headers['x-ratelimit-remaining-tokens'] = String(tokens.remaining)
    headers['x-ratelimit-reset-tokens'] = `${tokens.resetMs / 1000}s`
  }
  return headers
}
