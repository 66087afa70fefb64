import { setTimeout as sleep } from 'node:timers/promises'
import { addMs, type MonotonicMs, systemMonotonic } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import type { Shard } from '../io/redis-shards.ts'
import { accountsOf, type BillingContext, spendAccounts } from './reservation.ts'
import type { ScriptArguments, Scripts } from './scripts.ts'
import type { UsageEvent } from './usage-event.ts'

/** The settlement of one admitted request. */
export type Settlement = {
  id: string
  organisationId: string
  /** The accounts of the month that it counts in (`accountsOf`). */
  accounts: string
  rateKey: string
  /** The windows that the key shares with others; '' = none. */
  sharedRateKey: string
  month: string
  /** The reserved amount in nano-dollars; null = the reply to the admission was lost: release whatever is reserved under the id. */
  reservedNano: number | null
  costNano: number
  /** The starts of the buckets that count its tokens, in the key's window and in the shared one; 0 = not counted. */
  tokenBucketUs: number
  sharedTokenBucketUs: number
  tokenDifference: number
  event: UsageEvent | null
}

const noTokens = { sharedRateKey: '', tokenBucketUs: 0, sharedTokenBucketUs: 0, tokenDifference: 0 }

/** The settlement of an event whose request ended before: nothing is reserved for it, and its tokens are already counted. */
export function lostSettlement(event: UsageEvent): Settlement {
  const { id, org: organisationId, key: keyId, month, cost: costNano } = event
  const accounts = spendAccounts(keyId, event.budgets)
  return { id, organisationId, accounts, rateKey: keyId, month, costNano, event, reservedNano: 0, ...noTokens }
}

/** Releases whatever is reserved under an id: whether anything is, is unknown. */
export function unknownSettlement(
  key: Pick<BillingContext, 'organisationId' | 'keyId' | 'rateKey' | 'budgets'>,
  id: string,
  month: string,
): Settlement {
  const { organisationId, rateKey } = key
  return {
    id,
    organisationId,
    accounts: accountsOf(key),
    rateKey,
    month,
    reservedNano: null,
    costNano: 0,
    event: null,
    ...noTokens,
  }
}

const flushDelayMs = 2
const maxPerCall = 256
const maxPending = 100_000
/** Maximum queue length for settlements of unknown reservations, which the sweeper also releases after their deadline. */
const maxUnknown = 10_000
const maxRetryDelayMs = 500
const giveUpAfterMs = 2_500

/**
 * Batches the settlements of a shard to Redis: one script call settles many requests, at most 2 ms after the first (their reservations protect
 * the wallet until then). While Redis is unavailable, settlements stay queued for the lifetime of the process.
 */
export class Settlements {
  readonly #scripts: Scripts
  readonly #shard: Shard
  readonly #instance: string
  readonly #log: Logger
  readonly #pending: Settlement[] = []
  #timer: NodeJS.Timeout | null = null
  #sendInProgress: Promise<void> | null = null
  #giveUpAtMs: MonotonicMs | null = null

  constructor(scripts: Scripts, shard: Shard, instance: string, log: Logger) {
    this.#scripts = scripts
    this.#shard = shard
    this.#instance = instance
    this.#log = log
  }

  /** Queues a settlement. When the queue is full, writes its event to the log only. */
  add(settlement: Settlement): void {
    if (this.#pending.length >= (settlement.reservedNano === null ? maxUnknown : maxPending)) {
      if (settlement.event)
        this.#log.error({ event: settlement.event }, 'too many unsettled requests: event kept in this log line only')
      return
    }
    this.#pending.push(settlement)
    if (this.#pending.length >= maxPerCall) void this.flush()
    else this.#timer ??= setTimeout(() => void this.flush(), flushDelayMs)
  }

  /** Resolves when all queued settlements are in Redis, or were abandoned after `close`. */
  async flush(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    while (this.#pending.length > 0) {
      this.#sendInProgress ??= this.#send().finally(() => {
        this.#sendInProgress = null
      })
      await this.#sendInProgress
    }
  }

  /** Flushes the queue. Gives up after 2.5 s without Redis and writes the remaining events to the log only. */
  async close(): Promise<void> {
    this.#giveUpAtMs = addMs(systemMonotonic.now(), giveUpAfterMs)
    await this.flush()
  }

  async #send(): Promise<void> {
    for (let failures = 0; this.#pending.length > 0; ) {
      const batch = this.#pending.slice(0, maxPerCall)
      try {
        const settlements = batch.map(argumentsOf)
        await this.#scripts.settle({ instance: this.#instance, settlements }, this.#shard)
        this.#pending.splice(0, batch.length)
        failures = 0
      } catch (error) {
        // The call may have succeeded. A request settled twice counts twice in Redis until the ledger worker has processed
        // both events: Postgres books it once.
        if (++failures === 1) this.#log.warn({ err: error }, 'cannot settle; trying again')
        if (this.#giveUpAtMs && systemMonotonic.now() > this.#giveUpAtMs) return this.#abandonPending()
        await sleep(Math.min(50 * failures, maxRetryDelayMs))
      }
    }
  }

  #abandonPending(): void {
    for (const { event } of this.#pending.splice(0))
      if (event) this.#log.error({ event }, 'settlement failed: event kept in this log line only')
  }
}

/** The script arguments of one settlement. */
function argumentsOf(settlement: Settlement): ScriptArguments['settle']['settlements'][number] {
  const { reservedNano, event } = settlement
  return { ...settlement, reservedNano: reservedNano ?? '', event: event ? JSON.stringify(event) : '' }
}
