import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { addMs, type Clock, type MonotonicMs, monthOf, systemMonotonic } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import { storeUnavailable } from '../io/outage.ts'
import { type Shard, ShardBatches } from '../io/redis-shards.ts'
import { holdMember } from './holds.ts'
import { applyVerdict, type StalePolicy } from './refusals.ts'
import {
  accountsOf,
  type BillingContext,
  budgetIds,
  createReservation,
  flatCost,
  type MaxCost,
  packKey,
  type Reservation,
  reservableCost,
  spendAccounts,
} from './reservation.ts'
import type { ScriptArguments, Scripts } from './scripts.ts'
import type { UsageEvent } from './usage-event.ts'
import type { Wallets } from './wallets.ts'

export type { StalePolicy } from './refusals.ts'
export type { BillingContext, MaxCost, Reservation } from './reservation.ts'

/** The part of the admission that a run uses; implemented separately for client requests, delayed jobs and batch lines. */
export type AdmissionGate = Pick<Admission, 'admit' | 'settle' | 'extend' | 'release'> & {
  /** Called before each provider call with its target. */
  recordCall?(target: { model: { id: string }; provider: { name: string } }): Promise<void>
}

type PendingAdmission = {
  billing: BillingContext
  readToken: string
  id: string
  month: string
  maxCost: MaxCost
  /** How often its wallet had to be loaded, or the stores compared. */
  loads: number
  resolve(result: Reservation | StalePolicy): void
  reject(error: unknown): void
}
/** The script's reply to one request: the figures of a reservation as one text, or a verdict with its details. */
type Reply = string | (string | number)[]

const heartbeatMs = 3_000
/** A process without a heartbeat for longer counts as dead, and its reservations are released. */
export const deadAfterMs = 15_000
const maxPerCall = 256
export const maxBacklog = 1_000_000
const maxLoads = 4
const drainMs = 2_000
const drainPollMs = 20

/**
 * Admission control for every billed request. All requests of one event-loop turn are admitted by one script call per shard;
 * finished requests are settled by one call at most 2 ms later.
 */
export class Admission {
  readonly instance = `${hostname()}-${process.pid}-${newId('req').slice(4, 16)}`
  readonly #scripts: Scripts
  readonly #wallets: Wallets
  readonly #clock: Clock
  readonly #log: Logger
  readonly #deadlineMs: number
  /** By the index of the shard. */
  readonly #settlements: readonly Settlements[]
  readonly #pending: ShardBatches<PendingAdmission>
  readonly #onSettled: ((event: UsageEvent) => void) | undefined
  /** The number of unsettled reservations of money, and their sum in nano-dollars. */
  #openReservations = 0
  #reservedNano = 0
  #heartbeat: NodeJS.Timeout | null = null

  constructor(options: {
    scripts: Scripts
    wallets: Wallets
    clock: Clock
    log: Logger
    /** Longer than the longest request: an older reservation is leaked and gets swept. */
    deadlineMs: number
    /** Called with the usage of each settled request. */
    onSettled?: ((event: UsageEvent) => void) | undefined
  }) {
    this.#scripts = options.scripts
    this.#wallets = options.wallets
    this.#clock = options.clock
    this.#log = options.log
    this.#deadlineMs = options.deadlineMs
    this.#onSettled = options.onSettled
    const { shards } = options.scripts
    this.#settlements = shards.all.map(shard => new Settlements(options.scripts, shard, this.instance, options.log))
    this.#pending = new ShardBatches(shards, maxPerCall, (shard, batch) => this.#admitBatch(shard, batch))
  }

  /** The sum of the unsettled reservations of this process, in nano-dollars. */
  get reservedNano(): number {
    return this.#reservedNano
  }

  /** Registers this process, so that the sweeper releases its reservations if it dies. */
  async start(): Promise<void> {
    await Promise.all([this.#beat(1), this.#wallets.generations.advance()])
    this.#heartbeat = setInterval(() => {
      void this.#beat(1).catch(() => {})
      void this.#wallets.generations.advance().catch(() => {})
    }, heartbeatMs)
    this.#heartbeat.unref()
  }

  /** Waits up to two seconds for aborted requests to settle, flushes all settlements and unregisters this process. */
  async close(): Promise<void> {
    if (this.#heartbeat) clearInterval(this.#heartbeat)
    for (let waitedMs = 0; this.#openReservations > 0 && waitedMs < drainMs; waitedMs += drainPollMs)
      await sleep(drainPollMs)
    await Promise.all(this.#settlements.map(settlements => settlements.close()))
    await this.#beat(0).catch(() => {})
  }

  #beat(alive: 0 | 1): Promise<unknown> {
    const { shards, beat } = this.#scripts
    return Promise.all(shards.all.map(shard => beat({ instance: this.instance, alive }, shard)))
  }

  #settlementsOf(organisationId: string): Settlements {
    return this.#settlements[this.#scripts.shards.of(organisationId).index]!
  }

  /**
   * Admits a request and reserves its maximum cost, or returns `StalePolicy`. `readToken` is the token under which the
   * policy was just read from Postgres, '' for a cached policy. `month`: whose cap it counts against, '' for the current one.
   * Throws a GatewayError: 401 expired, 402, 429, 503.
   */
  admit(
    billing: BillingContext,
    readToken: string,
    id: string,
    maxCost: MaxCost,
    month = '',
  ): Promise<Reservation | StalePolicy> {
    return new Promise((resolve, reject) =>
      this.#enqueue({ billing, readToken, id, month, maxCost, loads: 0, resolve, reject }),
    )
  }

  /**
   * Reserves `nano` more for a running request, as a separate reservation under another `id`; does not count against the rate
   * limits. `month`: that of the request, which is charged in it. Throws as `admit` does.
   */
  extend(
    billing: BillingContext,
    readToken: string,
    id: string,
    nano: number,
    month = '',
  ): Promise<Reservation | StalePolicy> {
    return this.admit({ ...billing, rpmLimit: null, tpmLimit: null }, readToken, id, flatCost(nano), month)
  }

  /**
   * Settles a reservation: charges `costNano`, corrects the token window to `tokens`, logs the event. Only the first
   * settlement counts. Never throws; retries in the background.
   */
  settle(reservation: Reservation, costNano: number, tokens: number, event: UsageEvent | null): void {
    const { id, billing, month, reservedNano, tokenBucketsUs } = reservation
    if (billing.spendsMoney && !this.#markClosed(reservation)) return
    const { organisationId, rateKey, shared } = billing
    const isValid = Number.isSafeInteger(costNano) && costNano >= 0
    // An invalid amount would fail the whole batch of settlements.
    if (!isValid) this.#log.error({ event }, 'settlement with an impossible cost: event kept in this log line only')
    const tokenDifference = Number.isSafeInteger(tokens) && tokens >= 0 ? tokens - reservation.countedTokens : 0
    this.#settlementsOf(organisationId).add({
      id,
      organisationId,
      accounts: accountsOf(billing),
      rateKey,
      sharedRateKey: shared?.rateKey ?? '',
      month,
      reservedNano,
      costNano: isValid ? costNano : 0,
      tokenBucketUs: tokenBucketsUs.own,
      sharedTokenBucketUs: tokenBucketsUs.shared,
      tokenDifference,
      // With the accounts that it is settled against, so that its booking takes it off the same ones.
      event: isValid ? (event && billing.budgets ? { ...event, budgets: budgetIds(billing)! } : event) : null,
    })
    if (isValid && event) this.#onSettled?.(event)
  }

  /** Settles a finished request whose settlement may have been lost with its process. Idempotent: it is booked once. */
  settleLost(event: UsageEvent): void {
    this.#settlementsOf(event.org).add(lostSettlement(event))
  }

  /** Releases a reservation without a charge or a log entry. */
  release(reservation: Reservation): void {
    this.settle(reservation, 0, 0, null)
  }

  /**
   * Turns a reservation into the hold of the job with the same id: it no longer depends on this process and lasts until the job
   * ends. Throws what Redis throws; the caller retries.
   */
  async transferToJob(reservation: Reservation): Promise<void> {
    const { id, billing, month, reservedNano } = reservation
    if (!reservation.isOpen) return
    const { organisationId, keyId } = billing
    const budgets = budgetIds(billing)
    const member = holdMember({ id, organisationId, keyId, budgets, month, holdNano: BigInt(reservedNano) })
    const shard = this.#scripts.shards.of(organisationId)
    const moved = { instance: this.instance, additions: [{ member }], releases: [] }
    if (reservedNano > 0) await this.#scripts.hold(moved, shard)
    this.#markClosed(reservation)
  }

  /** Marks a reservation as closed. Returns false if it was closed already. */
  #markClosed(reservation: Reservation): boolean {
    if (!reservation.isOpen) return false
    reservation.isOpen = false
    this.#openReservations--
    this.#reservedNano -= reservation.reservedNano
    return true
  }

  /** Resolves when everything settled so far is in Redis. */
  async flush(): Promise<void> {
    await Promise.all(this.#settlements.map(settlements => settlements.flush()))
  }

  #enqueue(request: PendingAdmission): void {
    request.month ||= monthOf(this.#clock.now())
    this.#pending.add(request.billing.organisationId, request)
  }

  async #admitBatch(shard: Shard, requests: readonly PendingAdmission[]): Promise<void> {
    const head = { nowMs: this.#clock.now(), instance: this.instance, maxDurationMs: this.#deadlineMs, maxBacklog }
    let replies: Reply[]
    try {
      const values = { ...head, ...this.#wallets.generations.known[shard.index]!, requests: requests.map(argumentsOf) }
      replies = (await this.#scripts.admit(values, shard)) as Reply[]
    } catch (error) {
      for (const request of requests) {
        request.reject(storeUnavailable(error))
        this.#releaseUnknown(request)
      }
      return
    }
    for (let i = 0; i < requests.length; i++) this.#applyReply(requests[i]!, replies[i]!)
  }

  #applyReply(request: PendingAdmission, reply: Reply): void {
    try {
      if (typeof reply === 'string') {
        const reservation = createReservation(reply, request)
        if (reservation.isOpen) {
          this.#openReservations++
          this.#reservedNano += reservation.reservedNano
        }
        request.resolve(reservation)
      } else if (reply[0] === 'load' || reply[0] === 'outdated') void this.#repair(request, reply[0])
      else request.resolve(applyVerdict(reply, request.billing, this.#clock.now()))
    } catch (error) {
      request.reject(error)
    }
  }

  /** Loads the wallet or key month of a request, or compares the stores because one may have been restored, and retries it. */
  async #repair(request: PendingAdmission, need: 'load' | 'outdated'): Promise<void> {
    const { billing, month } = request
    try {
      if (need === 'load') await this.#wallets.load(billing.organisationId, billing.keyId, month)
      else await this.#wallets.generations.compare(this.#scripts.shards.of(billing.organisationId))
    } catch (error) {
      return request.reject(storeUnavailable(error))
    }
    if (++request.loads < maxLoads) return this.#enqueue(request)
    const message = 'The wallet could not be loaded. Try again.'
    request.reject(new GatewayError('service_unavailable', message, { headers: { 'retry-after': '1' } }))
  }

  /** Releases what a failed script call may have reserved: whether the script ran is unknown. */
  #releaseUnknown({ billing, id, month }: PendingAdmission): void {
    if (!billing.spendsMoney) return
    this.#settlementsOf(billing.organisationId).add(unknownSettlement(billing, id, month))
  }
}

/** The script arguments of one request. */
function argumentsOf(request: PendingAdmission): ScriptArguments['admit']['requests'][number] {
  const { billing, readToken, month, id, maxCost } = request
  const explicit = maxCost.explicit ? 1 : 0
  const withoutTokens = maxCost.withoutTokens ? 1 : 0
  // Only what was just read: Redis may have lost what a cached policy was read with.
  const { monthSpend } = billing
  const spend = readToken !== '' && monthSpend?.month === month ? monthSpend.figures : ''
  return { ...reservableCost(maxCost), key: packKey(billing), readToken, month, spend, id, explicit, withoutTokens }
}

/** The settlement of one admitted request. */
type Settlement = {
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
function unknownSettlement(
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
const maxSettlementsPerCall = 256
const maxPending = 100_000
/** Maximum queue length for settlements of unknown reservations, which the sweeper also releases after their deadline. */
const maxUnknown = 10_000
const maxRetryDelayMs = 500
const giveUpAfterMs = 2_500

/**
 * Batches the settlements of a shard to Redis: one script call settles many requests, at most 2 ms after the first (their reservations protect
 * the wallet until then). While Redis is unavailable, settlements stay queued for the lifetime of the process.
 */
class Settlements {
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
    if (this.#pending.length >= maxSettlementsPerCall) void this.flush()
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
      const batch = this.#pending.slice(0, maxSettlementsPerCall)
      try {
        const settlements = batch.map(settlementArguments)
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
function settlementArguments(settlement: Settlement): ScriptArguments['settle']['settlements'][number] {
  const { reservedNano, event } = settlement
  return { ...settlement, reservedNano: reservedNano ?? '', event: event ? JSON.stringify(event) : '' }
}
