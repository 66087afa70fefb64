import { hostname } from 'node:os'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { usdFromNano } from '../base/money.ts'
import { type Clock, monthOf, nextMonthStart } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import type { Accounts } from './accounts.ts'
import type { Scripts } from './scripts.ts'
import type { UsageEvent } from './usage-event.ts'

/** What the admission needs to know of a key. */
export type Spender = {
  hash: string
  version: number
  keyId: string
  organisationId: string
  expiresAtMs: number | null
  rpmLimit: number | null
  tpmLimit: number | null
  capNano: number | null
  /** False for test keys: nothing is reserved or charged. */
  spendsMoney: boolean
}

/** The bound of what one request may cost: a fixed part (input, or a flat price) and a price per output token. */
export type Bound = {
  estimatedTokens: number
  fixedNano: number
  picoPerOutputToken: number
  outputTokens: number
  /** True when the caller asked for `outputTokens`, false when it is only the model's own limit. */
  explicit: boolean
}

export type Window = { limit: number; remaining: number; resetMs: number }
export type RateFigures = { requests: Window | null; tokens: Window | null }

/** An admitted request, to be settled exactly once. */
export type Ticket = {
  id: string
  spender: Spender
  month: string
  reservedNano: number
  /** Output tokens the reservation covers. */
  outputTokens: number
  clamped: boolean
  countedTokens: number
  minute: number
  rates: RateFigures
}

/** The key's policy changed since it was read: read it again under this generation token and come back. */
export type Stale = { stale: string }

type Arrival = {
  spender: Spender
  fresh: string
  id: string
  month: string
  bound: Bound
  resolve(reply: Reply): void
  reject(error: unknown): void
}
type Reply = (string | number)[]
type Finished = { ticket: Ticket; costNano: number; tokens: number; event: UsageEvent | null }

const deadlineMs = 15 * 60_000
const heartbeatMs = 3_000
/** A process silent for longer is taken for dead, and what it reserved is given back. */
export const deadAfterMs = 15_000
const flushDelayMs = 2
const flushAtMost = 256
const mostUnsettled = 100_000

/**
 * The gate in front of every billed request. Arrivals of one event-loop turn are admitted by one script call; finished
 * requests are settled by one call at most 2 ms later (their reservations protect the wallet meanwhile).
 */
export class Admission {
  readonly instance = `${hostname()}-${process.pid}-${newId('req').slice(4, 16)}`
  readonly #scripts: Scripts
  readonly #accounts: Accounts
  readonly #heartbeat: (instance: string, atMs: number) => Promise<unknown>
  readonly #clock: Clock
  readonly #log: Logger
  readonly #backlogLimit: number
  #arrivals: Arrival[] = []
  #finished: Finished[] = []
  #flushTimer: NodeJS.Timeout | null = null
  #flushing: Promise<void> | null = null
  #beating: NodeJS.Timeout | null = null

  constructor(options: {
    scripts: Scripts
    accounts: Accounts
    heartbeat(instance: string, atMs: number): Promise<unknown>
    clock: Clock
    log: Logger
    /** Usage events that may wait for the ledger worker before new requests are refused. */
    backlogLimit?: number
  }) {
    this.#scripts = options.scripts
    this.#accounts = options.accounts
    this.#heartbeat = options.heartbeat
    this.#clock = options.clock
    this.#log = options.log
    this.#backlogLimit = options.backlogLimit ?? 1_000_000
  }

  /** Registers this process, so that its reservations are given back should it die. */
  async start(): Promise<void> {
    const beat = () => this.#heartbeat(this.instance, this.#clock.now())
    await beat()
    this.#beating = setInterval(() => void beat().catch(() => {}), heartbeatMs)
    this.#beating.unref()
  }

  /** Settles what is left and says goodbye. */
  async close(): Promise<void> {
    if (this.#beating) clearInterval(this.#beating)
    await this.flush()
    await this.#heartbeat(this.instance, 0).catch(() => {})
  }

  /**
   * Admits a request and reserves its bound, or gives `Stale`. `fresh` is the generation token under which the policy was
   * just read from Postgres, '' when it is remembered. Throws a GatewayError: 401 expired, 402, 429, 503.
   */
  async admit(spender: Spender, fresh: string, id: string, bound: Bound): Promise<Ticket | Stale> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const month = monthOf(this.#clock.now())
      const reply = await new Promise<Reply>((resolve, reject) => {
        this.#arrivals.push({ spender, fresh, id, month, bound, resolve, reject })
        if (this.#arrivals.length === 1) setImmediate(() => void this.#admitAll())
      })
      if (reply[0] === 'load') {
        // Redis does not know this wallet or key month: a new one, or Redis was wiped.
        await this.#accounts.install(spender.organisationId, spender.keyId, month)
        continue
      }
      return this.#verdict(reply, spender, id, month, bound)
    }
    throw new GatewayError('service_unavailable', 'The wallet could not be loaded. Try again.', {
      headers: { 'retry-after': '1' },
    })
  }

  /** Settles a ticket: charges `costNano`, corrects the token window to `tokens`, logs the event. Never throws; retries behind the scenes. */
  settle(ticket: Ticket, costNano: number, tokens: number, event: UsageEvent | null): void {
    if (this.#finished.length >= mostUnsettled) {
      this.#log.error({ event }, 'settlement queue is full: event kept in this log line only')
      return
    }
    this.#finished.push({ ticket, costNano, tokens, event })
    if (this.#finished.length >= flushAtMost) void this.flush()
    else this.#flushTimer ??= setTimeout(() => void this.flush(), flushDelayMs)
  }

  /** Gives the reservation back without a charge or a log entry. */
  release(ticket: Ticket): void {
    this.settle(ticket, 0, 0, null)
  }

  /** Resolves when everything settled so far is in Redis, or Redis has been away for too long. */
  async flush(): Promise<void> {
    if (this.#flushTimer) clearTimeout(this.#flushTimer)
    this.#flushTimer = null
    this.#flushing ??= this.#settleAll().finally(() => {
      this.#flushing = null
    })
    await this.#flushing
  }

  async #admitAll(): Promise<void> {
    const arrivals = this.#arrivals
    this.#arrivals = []
    const now = this.#clock.now()
    const args: (string | number)[] = [now, this.instance, now + deadlineMs, this.#backlogLimit]
    for (const { spender: s, fresh, id, month, bound: b } of arrivals) {
      args.push(
        s.hash,
        s.version,
        fresh,
        s.keyId,
        s.organisationId,
        s.expiresAtMs ?? '',
        s.rpmLimit ?? 0,
        s.tpmLimit ?? 0,
      )
      args.push(s.capNano ?? '', s.spendsMoney ? 1 : 0, month, id, b.estimatedTokens, b.fixedNano, b.picoPerOutputToken)
      args.push(b.outputTokens, b.explicit ? 1 : 0)
    }
    try {
      const replies = (await this.#scripts.admit(args)) as Reply[]
      for (const [i, arrival] of arrivals.entries()) arrival.resolve(replies[i]!)
    } catch (error) {
      for (const arrival of arrivals) arrival.reject(unavailable(error))
    }
  }

  #verdict(reply: Reply, spender: Spender, id: string, month: string, bound: Bound): Ticket | Stale {
    switch (reply[0]) {
      case 'ok':
        return {
          id,
          spender,
          month,
          outputTokens: Number(reply[1]),
          reservedNano: Number(reply[2]),
          clamped: reply[3] === 1,
          countedTokens: Number(reply[4]),
          minute: Math.floor(this.#clock.now() / 60_000),
          rates: rateFigures(spender, reply, 5),
        }
      case 'stale':
        return { stale: String(reply[1]) }
      case 'expired':
        throw new GatewayError('expired_api_key', 'This API key has expired. Create a new one.')
      case 'rate':
        throw rateLimited(spender, reply)
      case 'cap':
        throw capReached(Number(reply[1]), Number(reply[2]), this.#clock.now())
      case 'funds':
        throw insufficient(reply)
      default:
        throw new GatewayError('service_unavailable', `Accounting is behind (${reply[0]}). Try again shortly.`, {
          headers: { 'retry-after': '5' },
          metadata: { bound: bound.outputTokens },
        })
    }
  }

  async #settleAll(): Promise<void> {
    for (let failures = 0; this.#finished.length > 0; ) {
      const batch = this.#finished.slice(0, flushAtMost)
      try {
        await this.#scripts.settle(this.#settlement(batch))
        this.#finished.splice(0, batch.length)
        failures = 0
      } catch (error) {
        // An unknown outcome may charge Redis twice until the ledger has booked both events as the one they are.
        if (++failures > 60) {
          for (const { event } of this.#finished.splice(0))
            this.#log.error({ err: error, event }, 'settlement failed: event kept in this log line only')
          return
        }
        await new Promise(resolve => setTimeout(resolve, Math.min(50 * failures, 500)))
      }
    }
  }

  #settlement(batch: Finished[]): (string | number)[] {
    const args: (string | number)[] = [this.#clock.now(), this.instance]
    for (const { ticket, costNano, tokens, event } of batch) {
      const { spender } = ticket
      const limited = spender.rpmLimit || spender.tpmLimit
      args.push(ticket.id, spender.organisationId, spender.keyId, ticket.month, ticket.reservedNano, costNano)
      args.push(limited ? ticket.minute : '', tokens - ticket.countedTokens, event ? JSON.stringify(event) : '')
    }
    return args
  }
}

function unavailable(cause: unknown): GatewayError {
  return new GatewayError('service_unavailable', 'The gateway cannot reach its store. Try again shortly.', {
    headers: { 'retry-after': '1' },
    cause,
  })
}

function rateFigures(spender: Spender, reply: Reply, at: number): RateFigures {
  const window = (limit: number | null, i: number) =>
    limit ? { limit, remaining: Number(reply[i]), resetMs: Number(reply[i + 1]) } : null
  return { requests: window(spender.rpmLimit, at), tokens: window(spender.tpmLimit, at + 2) }
}

/** The rate-limit headers of contract §1, as OpenAI writes them. */
export function rateHeaders(rates: RateFigures): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, window] of Object.entries(rates)) {
    if (!window) continue
    headers[`x-ratelimit-limit-${name}`] = String(window.limit)
    headers[`x-ratelimit-remaining-${name}`] = String(window.remaining)
    headers[`x-ratelimit-reset-${name}`] = `${window.resetMs / 1000}s`
  }
  return headers
}

function rateLimited(spender: Spender, reply: Reply): GatewayError {
  const what = reply[1] === 'requests' ? `${spender.rpmLimit} requests` : `${spender.tpmLimit} tokens`
  const retryAfter = Math.max(1, Math.ceil(Number(reply[2]) / 1000))
  return new GatewayError(
    'rate_limit_exceeded',
    `This key is limited to ${what} per minute. Retry in ${retryAfter} s.`,
    {
      headers: { 'retry-after': String(retryAfter), ...rateHeaders(rateFigures(spender, reply, 3)) },
    },
  )
}

function capReached(capNano: number, spentNano: number, nowMs: number): GatewayError {
  const metadata = { cap_usd: capNano / 1e9, spent_usd: spentNano / 1e9, resets_at: nextMonthStart(nowMs) }
  return new GatewayError(
    'monthly_spend_cap_reached',
    `This key’s monthly cap of $${metadata.cap_usd} leaves no room for this request. Raise the cap or wait until ${metadata.resets_at}.`,
    { metadata },
  )
}

function insufficient(reply: Reply): GatewayError {
  const [required, available, held, releaseAt] = reply.slice(1).map(Number)
  const metadata = {
    required_usd: usdFromNano(BigInt(required!)),
    available_usd: usdFromNano(BigInt(available!)),
    held_usd: usdFromNano(BigInt(held!)),
    held_release_at: releaseAt ? new Date(releaseAt).toISOString() : null,
  }
  return new GatewayError(
    'insufficient_credits',
    `This request needs up to $${metadata.required_usd} but only $${metadata.available_usd} is available. Add credits or lower max_tokens.`,
    { metadata },
  )
}
