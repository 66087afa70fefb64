import { GatewayError } from '../base/errors.ts'
import { keyExpired } from '../base/key-refusals.ts'
import { type Nano, usdFromNano } from '../base/money.ts'
import { nextMonthStart } from '../base/time.ts'
import { type BillingContext, rateFigures, rateHeaders, type SpendBudget } from './reservation.ts'

/** The key's policy changed since it was read: read it again under this token and retry. */
export type StalePolicy = { stale: string }

/** Returns `StalePolicy` or throws the GatewayError of a verdict of `admit.lua`. */
export function applyVerdict(reply: (string | number)[], billing: BillingContext, nowMs: number): StalePolicy {
  switch (reply[0]) {
    case 'stale':
      return { stale: String(reply[1]) }
    case 'expired':
      throw keyExpired()
    case 'rate':
      throw rateLimited(billing, reply)
    case 'cap':
      throw capReached(
        Number(reply[1]),
        Number(reply[2]),
        nowMs,
        billing.budgets?.find(({ id }) => id === reply[3])?.of,
      )
    case 'funds':
      throw insufficientCredits(Number(reply[1]), Number(reply[2]), Number(reply[3]), Number(reply[4]))
    default:
      throw backlogError(reply[0])
  }
}

/** The 429 of a request that exceeds its key's rate limits, or those of the organisation's test keys together. */
function rateLimited(limits: BillingContext, reply: readonly (string | number)[]): GatewayError {
  const { shared } = limits
  const [rpm, tpm] = reply[7] && shared ? [shared.rpm, shared.tpm] : [limits.rpmLimit, limits.tpmLimit]
  const limit = reply[1] === 'requests' ? `${rpm} requests` : `${tpm} tokens`
  const who = reply[7] ? 'All test keys of this organisation together are' : 'This key is'
  const retryAfter = Math.max(1, Math.ceil(Number(reply[2]) / 1000))
  return new GatewayError('rate_limit_exceeded', `${who} limited to ${limit} per minute. Retry in ${retryAfter} s.`, {
    headers: { 'retry-after': String(retryAfter), ...rateHeaders(rateFigures(limits, reply, 3)) },
  })
}

/** The 402: the key's cap, or the budget of its organisation or its member, leaves no room for a single output token. */
export function capReached(
  capNano: number,
  spentNano: number,
  nowMs: number,
  budget?: SpendBudget['of'],
): GatewayError {
  const resetsAt = nextMonthStart(nowMs)
  const [limit, action] = budget
    ? [`The monthly budget of ${budgetOwners[budget]}`, 'Raise the budget']
    : ['This key’s monthly cap', 'Raise the cap']
  return new GatewayError(
    'monthly_spend_cap_reached',
    `${limit} of $${capNano / 1e9} leaves no room for this request. ${action} or wait until ${resetsAt}.`,
    {
      metadata: { cap_usd: capNano / 1e9, spent_usd: spentNano / 1e9, resets_at: resetsAt, ...(budget && { budget }) },
    },
  )
}

const budgetOwners = { organisation: 'this organisation', member: 'the member who created this key' }

/** The 402: the available balance does not cover the reservation. Amounts in nano-dollars; `releaseAtMs` 0 = nothing is held. */
export function insufficientCredits(
  requiredNano: number,
  availableNano: number,
  heldNano: number,
  releaseAtMs: number,
): GatewayError {
  const metadata = {
    required_usd: usdFromNano(BigInt(requiredNano)),
    available_usd: usdFromNano(BigInt(availableNano)),
    held_usd: usdFromNano(BigInt(heldNano)),
    held_release_at: releaseAtMs > 0 ? new Date(releaseAtMs).toISOString() : null,
  }
  return new GatewayError(
    'insufficient_credits',
    `This request needs up to $${metadata.required_usd} but only $${metadata.available_usd} is available. Add credits, or ask for less, e.g. by a lower max_tokens.`,
    { metadata },
  )
}

/** The 402 of an operator's debit, from that of its reservation. */
export function debitRefused({ metadata }: GatewayError, amountNano: Nano): GatewayError {
  return new GatewayError(
    'insufficient_credits',
    `A debit of $${usdFromNano(amountNano)} would take the available balance of $${metadata?.available_usd} below zero.`,
    { param: 'amount_usd', ...(metadata && { metadata }) },
  )
}

/** The 503 while too many usage events wait to be booked. */
function backlogError(verdict: unknown): GatewayError {
  const message = `Accounting is behind (${verdict}). Try again shortly.`
  return new GatewayError('service_unavailable', message, { headers: { 'retry-after': '5' } })
}
