import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { type Clock, monthOf } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import { unavailable } from '../io/outage.ts'
import type { Accounts } from './accounts.ts'
import { holdMember } from './holds.ts'
import { rateFigures, rateLimited } from './rates.ts'
import { capReached, insufficientCredits } from './refusals.ts'
import { type Scripts, separator } from './scripts.ts'
import { lostSettlement, Settlements } from './settlement.ts'
import type { Bound, Spender, Ticket } from './ticket.ts'
import type { UsageEvent } from './usage-event.ts'

export type { Bound, Spender, Ticket } from './ticket.ts'

/** The key's policy changed since it was read: read it again under this generation token and come back. */
export type Stale = { stale: string }

/** What a run needs of the admission: a request of a client, a job and a line of a batch each have their own. */
export type Gate = Pick<Admission, 'admit' | 'settle' | 'extend' | 'release'> & {
  /** Hears that a target is about to be called. */
  asked?(target: { model: { id: string }; provider: { name: string } }): Promise<void>
}

type Arrival = {
  spender: Spender
  fresh: string
  id: string
  month: string
  bound: Bound
  /** How often the wallet had to be brought into Redis for it. */
  loads: number
  resolve(admitted: Ticket | Stale): void
  reject(error: unknown): void
}
type Reply = (string | number)[]

const heartbeatMs = 3_000
/** A process silent for longer is taken for dead, and what it reserved is given back. */
export const deadAfterMs = 15_000
const admitAtMost = 256
const maxBacklog = 1_000_000
const maxLoads = 3
const goodbyeMs = 2_000
const goodbyePollMs = 20

/**
 * The gate in front of every billed request. Arrivals of one event-loop turn are admitted by one script call; finished
 * requests are settled by one call at most 2 ms later.
 */
export class Admission {
  readonly instance = `${hostname()}-${process.pid}-${newId('req').slice(4, 16)}`
  readonly #scripts: Scripts
  readonly #accounts: Accounts
  readonly #clock: Clock
  readonly #log: Logger
  readonly #deadlineMs: number
  readonly #settlements: Settlements
  /** How many tickets with money on them nobody has settled yet. */
  #openTickets = 0
  #arrivals: Arrival[] = []
  #beating: NodeJS.Timeout | null = null

  constructor(options: {
    scripts: Scripts
    accounts: Accounts
    clock: Clock
    log: Logger
    /** Longer than any request may take: a reservation this old has been forgotten. */
    deadlineMs: number
  }) {
    this.#scripts = options.scripts
    this.#accounts = options.accounts
    this.#clock = options.clock
    this.#log = options.log
    this.#deadlineMs = options.deadlineMs
    this.#settlements = new Settlements(options.scripts, this.instance, options.log)
  }

  /** Registers this process, so that its reservations are given back should it die. */
  async start(): Promise<void> {
    const beat = () => this.#scripts.beat([this.instance, 1])
    await beat()
    this.#beating = setInterval(() => void beat().catch(() => {}), heartbeatMs)
    this.#beating.unref()
  }

  /** Waits a moment for requests that were just cut off, settles what is left and says goodbye. */
  async close(): Promise<void> {
    if (this.#beating) clearInterval(this.#beating)
    for (let waitedMs = 0; this.#openTickets > 0 && waitedMs < goodbyeMs; waitedMs += goodbyePollMs)
      await sleep(goodbyePollMs)
    await this.#settlements.close()
    await this.#scripts.beat([this.instance, 0]).catch(() => {})
  }

  /**
   * Admits a request and reserves its bound, or gives `Stale`. `fresh` is the generation token under which the policy was
   * just read from Postgres, '' when it is remembered. Throws a GatewayError: 401 expired, 402, 429, 503.
   */
  admit(spender: Spender, fresh: string, id: string, bound: Bound): Promise<Ticket | Stale> {
    return new Promise((resolve, reject) =>
      this.#arrive({ spender, fresh, id, month: '', bound, loads: 0, resolve, reject }),
    )
  }

  /**
   * Reserves `nano` more for a request that runs, on a ticket of its own under another `id`; it counts as no request. Throws as
   * `admit` does.
   */
  extend(spender: Spender, fresh: string, id: string, nano: number): Promise<Ticket | Stale> {
    const bound = { estimatedTokens: 0, fixedNano: nano, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
    return this.admit({ ...spender, rpmLimit: null, tpmLimit: null }, fresh, id, bound)
  }

  /**
   * Settles a ticket: charges `costNano`, corrects the token window to `tokens`, logs the event. Only the first settlement
   * of a ticket counts. Never throws; retries behind the scenes.
   */
  settle(ticket: Ticket, costNano: number, tokens: number, event: UsageEvent | null): void {
    const { id, spender, month, reservedNano } = ticket
    if (spender.spendsMoney && !this.#close(ticket)) return
    const { organisationId, keyId, rateKey } = spender
    const possible = Number.isSafeInteger(costNano) && costNano >= 0
    // An absurd amount must not hold up everybody else's settlements.
    if (!possible) this.#log.error({ event }, 'settlement with an impossible cost: event kept in this log line only')
    const tokenDifference = Number.isSafeInteger(tokens) && tokens >= 0 ? tokens - ticket.countedTokens : 0
    this.#settlements.add({
      id,
      organisationId,
      keyId,
      rateKey,
      month,
      reservedNano,
      costNano: possible ? costNano : 0,
      countedAtUs: ticket.countedAtUs,
      tokenDifference,
      event: possible ? event : null,
    })
  }

  /** Settles a finished request whose own settlement may have been lost with its process. Booked once, whatever arrives. */
  settleLost(event: UsageEvent): void {
    this.#settlements.add(lostSettlement(event))
  }

  /** Gives the reservation back without a charge or a log entry. */
  release(ticket: Ticket): void {
    this.settle(ticket, 0, 0, null)
  }

  /**
   * Makes a ticket the hold of the job of the same id: it belongs to no process any more and stands until the job is over.
   * Throws what Redis throws: to be tried again.
   */
  async keepForJob(ticket: Ticket): Promise<void> {
    const { id, spender, month, reservedNano } = ticket
    if (!ticket.isOpen) return
    const { organisationId, keyId } = spender
    const member = holdMember({ id, organisationId, keyId, month, holdNano: BigInt(reservedNano) })
    if (reservedNano > 0) await this.#scripts.hold([this.instance, 1, member])
    this.#close(ticket)
  }

  /** Notes that nothing is reserved under a ticket any more. False where that was known. */
  #close(ticket: Ticket): boolean {
    if (!ticket.isOpen) return false
    ticket.isOpen = false
    this.#openTickets--
    return true
  }

  /** Resolves when everything settled so far is in Redis. */
  flush(): Promise<void> {
    return this.#settlements.flush()
  }

  #arrive(arrival: Arrival): void {
    arrival.month = monthOf(this.#clock.now())
    this.#arrivals.push(arrival)
    if (this.#arrivals.length === 1) setImmediate(() => void this.#admitAll())
  }

  async #admitAll(): Promise<void> {
    const arrivals = this.#arrivals.slice(0, admitAtMost)
    this.#arrivals = this.#arrivals.slice(admitAtMost)
    if (this.#arrivals.length > 0) setImmediate(() => void this.#admitAll())
    const head = [this.#clock.now(), this.instance, this.#deadlineMs, maxBacklog]
    let replies: Reply[]
    try {
      replies = (await this.#scripts.admit([...head, ...arrivals.map(packed)])) as Reply[]
    } catch (error) {
      for (const arrival of arrivals) {
        arrival.reject(unavailable(error))
        this.#forget(arrival)
      }
      return
    }
    for (let i = 0; i < arrivals.length; i++) this.#answer(arrivals[i]!, replies[i]!)
  }

  #answer(arrival: Arrival, reply: Reply): void {
    try {
      if (reply[0] === 'load') void this.#load(arrival)
      else arrival.resolve(this.#verdict(reply, arrival))
    } catch (error) {
      arrival.reject(error)
    }
  }

  /** Redis does not know this wallet or key month: a new one, or Redis was wiped. */
  async #load(arrival: Arrival): Promise<void> {
    const { spender, month } = arrival
    try {
      await this.#accounts.load(spender.organisationId, spender.keyId, month)
    } catch (error) {
      return arrival.reject(unavailable(error))
    }
    if (++arrival.loads < maxLoads) return this.#arrive(arrival)
    const message = 'The wallet could not be loaded. Try again.'
    arrival.reject(new GatewayError('service_unavailable', message, { headers: { 'retry-after': '1' } }))
  }

  /** Whether the script ran is unknown: nobody will use what it may have reserved. */
  #forget({ spender, id, month }: Arrival): void {
    if (!spender.spendsMoney) return
    const { organisationId, keyId, rateKey } = spender
    const nothing = { reservedNano: null, costNano: 0, countedAtUs: 0, tokenDifference: 0, event: null }
    this.#settlements.add({ id, organisationId, keyId, rateKey, month, ...nothing })
  }

  #verdict(reply: Reply, { spender, id, month }: Arrival): Ticket | Stale {
    switch (reply[0]) {
      case 1: {
        const ticket: Ticket = {
          id,
          spender,
          month,
          outputTokens: Number(reply[1]),
          reservedNano: Number(reply[2]),
          clamped: reply[3] === 1,
          countedTokens: Number(reply[4]),
          countedAtUs: Number(reply[5]),
          rates: rateFigures(spender, reply, 6),
          isOpen: spender.spendsMoney,
        }
        if (spender.spendsMoney) this.#openTickets++
        return ticket
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
        throw insufficientCredits(Number(reply[1]), Number(reply[2]), Number(reply[3]), Number(reply[4]))
      default:
        throw new GatewayError('service_unavailable', `Accounting is behind (${reply[0]}). Try again shortly.`, {
          headers: { 'retry-after': '5' },
        })
    }
  }
}

/** The arguments of an arrival, packed as the script takes them. */
function packed({ spender, fresh, id, month, bound: b }: Arrival): string {
  const request =
    keyText(spender) + fresh + separator + month + separator + id + separator + b.estimatedTokens + separator
  return (
    request +
    b.fixedNano +
    separator +
    b.picoPerOutputToken +
    separator +
    b.outputTokens +
    separator +
    (b.explicit ? 1 : 0)
  )
}

const keyTexts = new WeakMap<Spender, string>()

/** The arguments that are the same for every request of a key. */
function keyText(s: Spender): string {
  let text = keyTexts.get(s)
  if (text === undefined) {
    const key = [s.hash, s.version, s.keyId, s.organisationId, s.expiresAtMs ?? '', s.rpmLimit ?? 0, s.tpmLimit ?? 0]
    text = [...key, s.capNano ?? '', s.spendsMoney ? 1 : 0, s.rateKey, ''].join(separator)
    keyTexts.set(s, text)
  }
  return text
}
