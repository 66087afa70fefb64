import type { RateFigures } from './rates.ts'

/** What the admission needs to know of a key. */
export type Spender = Readonly<{
  hash: string
  version: number
  keyId: string
  /** Whose rate windows it is counted in: the key's own, or those of its batch lines. */
  rateKey: string
  organisationId: string
  expiresAtMs: number | null
  rpmLimit: number | null
  tpmLimit: number | null
  capNano: number | null
  /** False for test keys: nothing is reserved or charged. */
  spendsMoney: boolean
}>

/** The bound of what one request may cost: a fixed part (input, or a flat price) and a price per output token. */
export type Bound = {
  estimatedTokens: number
  fixedNano: number
  picoPerOutputToken: number
  outputTokens: number
  /** True when the caller asked for `outputTokens`, false when it is only the model's own limit. */
  explicit: boolean
}

/** An admitted request, to be settled exactly once. */
export type Ticket = {
  id: string
  spender: Spender
  month: string
  reservedNano: number
  /** What was reserved beside it while the request ran, in nano-dollars. */
  extraNano?: number
  /** Output tokens the reservation covers. */
  outputTokens: number
  clamped: boolean
  countedTokens: number
  /** When its tokens were counted, by Redis' clock in microseconds; 0 = they were not. */
  countedAtUs: number
  rates: RateFigures
  /** True while money is reserved under it by this process; absent where it is another's. */
  isOpen?: boolean
}
