import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../io/log.ts'
import { type Scripts, separator } from './scripts.ts'
import type { UsageEvent } from './usage-event.ts'

/** How one admitted request ended. */
export type Settlement = {
  id: string
  organisationId: string
  keyId: string
  rateKey: string
  month: string
  /** What was reserved, in nano-dollars; null = the admission's answer never came: whatever stands under the id. */
  reservedNano: number | null
  costNano: number
  /** When its tokens were counted, by Redis' clock in microseconds; 0 = they were not. */
  countedAtUs: number
  tokenDifference: number
  event: UsageEvent | null
}

/** The settlement of an event whose request is over: nothing is reserved for it, and its tokens are counted. */
export function lostSettlement(event: UsageEvent): Settlement {
  const { id, org: organisationId, key: keyId, month, cost: costNano } = event
  const nothingHeld = { reservedNano: 0, countedAtUs: 0, tokenDifference: 0 }
  return { id, organisationId, keyId, rateKey: keyId, month, costNano, event, ...nothingHeld }
}

const flushDelayMs = 2
const flushAtMost = 256
const mostWaiting = 100_000
/** Of reservations nobody learnt of no more than these are kept: the sweeper finds them by their deadline, too. */
const mostUnknown = 10_000
const longestRetryDelayMs = 500
const giveUpAfterMs = 2_500

/**
 * Finished requests on their way to Redis: one script call settles many, at most 2 ms after the first (their reservations
 * protect the wallet meanwhile). While Redis is away they wait, for as long as the process lives.
 */
export class Settlements {
  readonly #scripts: Scripts
  readonly #instance: string
  readonly #log: Logger
  readonly #waiting: Settlement[] = []
  #timer: NodeJS.Timeout | null = null
  #sending: Promise<void> | null = null
  #giveUpAtMs = Number.POSITIVE_INFINITY

  constructor(scripts: Scripts, instance: string, log: Logger) {
    this.#scripts = scripts
    this.#instance = instance
    this.#log = log
  }

  add(settlement: Settlement): void {
    if (this.#waiting.length >= (settlement.reservedNano === null ? mostUnknown : mostWaiting)) {
      if (settlement.event)
        this.#log.error({ event: settlement.event }, 'too many unsettled requests: event kept in this log line only')
      return
    }
    this.#waiting.push(settlement)
    if (this.#waiting.length >= flushAtMost) void this.flush()
    else this.#timer ??= setTimeout(() => void this.flush(), flushDelayMs)
  }

  /** Resolves when everything added so far is in Redis, or has been given up after `close`. */
  async flush(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    while (this.#waiting.length > 0) {
      this.#sending ??= this.#send().finally(() => {
        this.#sending = null
      })
      await this.#sending
    }
  }

  /** Settles what is left. Gives up after 2.5 s without Redis: the events are then in the log only. */
  async close(): Promise<void> {
    this.#giveUpAtMs = Date.now() + giveUpAfterMs
    await this.flush()
  }

  async #send(): Promise<void> {
    for (let failures = 0; this.#waiting.length > 0; ) {
      const batch = this.#waiting.slice(0, flushAtMost)
      try {
        await this.#scripts.settle([this.#instance, ...batch.map(packed)])
        this.#waiting.splice(0, batch.length)
        failures = 0
      } catch (error) {
        // Whether it happened is unknown. Settled twice, a request counts twice in Redis only until the ledger worker
        // has seen both events: Postgres books it once.
        if (++failures === 1) this.#log.warn({ err: error }, 'cannot settle; trying again')
        if (Date.now() > this.#giveUpAtMs) return this.#giveUp()
        await sleep(Math.min(50 * failures, longestRetryDelayMs))
      }
    }
  }

  #giveUp(): void {
    for (const { event } of this.#waiting.splice(0))
      if (event) this.#log.error({ event }, 'settlement failed: event kept in this log line only')
  }
}

/** The arguments of a settlement, packed as the script takes them. */
function packed(s: Settlement): string {
  const head = s.id + separator + s.organisationId + separator + s.keyId + separator + s.month + separator
  const money = `${s.reservedNano ?? ''}${separator}${s.costNano}${separator}`
  const tokens = `${s.countedAtUs}${separator}${s.tokenDifference}${separator}`
  return head + money + tokens + (s.event ? JSON.stringify(s.event) : '') + separator + s.rateKey
}
