import { readFileSync } from 'node:fs'
import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'
import type { ProviderError, Target } from './contract.ts'

/** What is known of one deployment (a model at a provider) at this moment. */
export type Figures = {
  circuit: 'closed' | 'open' | 'half_open'
  /** How long nobody should call it: its circuit is open, or it asked to be left alone. 0 = it may be called. */
  restMs: number
  /** Share of its calls that failed in the last minutes; 0 while too few were made to tell. */
  failureRate: number
  /** Time to the first byte of streamed answers, null while unknown. */
  firstByteMs: number | null
  tokensPerSecond: number | null
}

/** The shared record of one deployment or API key, its moments in this process's time. */
type Record = {
  atMs: number
  openUntilMs: number
  restUntilMs: number
  good: number
  bad: number
  firstByteMs: number
  tokensPerSecond: number
  /** Until when we know that somebody else tries it out. */
  triedUntilMs: number
}

/** What this process saw since the last exchange. */
type Seen = {
  good: number
  bad: number
  /** Failures since the last success. */
  run: number
  begun: number
  firstByteMs: number
  tokensPerSecond: number
  coolDownMs: number
  restMs: number
}

/** Those of a deployment nobody has called lately. */
export const unknownFigures: Figures = {
  circuit: 'closed',
  restMs: 0,
  failureRate: 0,
  firstByteMs: null,
  tokensPerSecond: null,
}

const unwritten: Omit<Record, 'atMs'> = {
  openUntilMs: 0,
  restUntilMs: 0,
  good: 0,
  bad: 0,
  firstByteMs: -1,
  tokensPerSecond: -1,
  triedUntilMs: 0,
}

const exchangeEveryMs = 500
/** A circuit stays open for as long as a failure costs its caller, within these bounds. */
const coolDownMs = { least: 1_000, most: 60_000 }
/** No provider's wish to be left alone is honoured for longer. */
const longestRestMs = 3_600_000
const trialMs = 10_000
/** How long a process waits before it asks again for the one trial call that a half-open circuit allows. */
const trialAgainMs = 250
const fewestCalls = 5
/** As many in a row open a circuit: whoever was passed over before that would never be tried again. */
const fewestFailures = 3
/** How counts fade, and when what nobody adds to any more is forgotten. */
const halfLifeMs = 60_000
const forgetAfterMs = 600_000

/**
 * Live figures of every deployment and API key: success rate, latency, speed, circuit, pauses that providers asked for.
 * They are kept in Redis, decay there, and are shared by all processes: failures at once, the rest twice a second. Three
 * failures in a row open a circuit; after the cool-down one call of all processes is let through to try.
 */
export class Health {
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #records = new Map<string, Record>()
  readonly #ids = new WeakMap<object, string>()
  #seen = new Map<string, Seen>()
  #cursor = '0'
  #timer: NodeJS.Timeout | null = null
  #exchanging: Promise<void> | null = null
  #pending = false
  /** Whether any API key ever had to rest: most never do, and every decision asks. */
  #keysRested = false

  constructor(redis: Redis, clock: Clock) {
    this.#redis = redis
    this.#clock = clock
    redis.defineCommand('headgate:health', {
      numberOfKeys: 0,
      lua: readFileSync(new URL('./health.lua', import.meta.url), 'utf8'),
    })
  }

  /** Reads what is known and keeps up with it. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.exchange(), exchangeEveryMs)
    this.#timer.unref()
    await this.exchange()
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  figures(target: Target): Figures {
    const record = this.#records.get(this.#idOf(target))
    const now = this.#clock.now()
    if (!record || (now - record.atMs > forgetAfterMs && record.restUntilMs <= now)) return unknownFigures
    const circuit = record.openUntilMs === 0 ? 'closed' : record.openUntilMs > now ? 'open' : 'half_open'
    const { good, bad, firstByteMs, tokensPerSecond } = record
    const calls = bad === 0 ? 0 : (good + bad) * 0.5 ** ((now - record.atMs) / halfLifeMs)
    // With its past held against it, nobody would try whether it has recovered while others serve.
    const isForgiven = calls < fewestCalls || bad < fewestFailures || circuit === 'half_open'
    return {
      circuit,
      restMs: Math.max(0, record.openUntilMs - now, record.restUntilMs - now, record.triedUntilMs - now),
      failureRate: isForgiven ? 0 : bad / (good + bad),
      firstByteMs: firstByteMs < 0 ? null : firstByteMs,
      tokensPerSecond: tokensPerSecond < 0 ? null : tokensPerSecond,
    }
  }

  /** The calls of a target in the last minutes as they fade, for people to see. */
  calls(target: Target): { good: number; bad: number } {
    const { good, bad, atMs } = this.#records.get(this.#idOf(target)) ?? { ...unwritten, atMs: 0 }
    const faded = 0.5 ** ((this.#clock.now() - atMs) / halfLifeMs)
    return { good: good * faded, bad: bad * faded }
  }

  /** How long an API key must not be used for a target. */
  keyRestMs(target: Target, keyId: string): number {
    if (!this.#keysRested) return 0
    const now = this.#clock.now()
    const until = (id: string) => this.#records.get(id)?.restUntilMs ?? 0
    return Math.max(0, until(keyOfModel(target, keyId)) - now, until(keyOfProvider(target, keyId)) - now)
  }

  /** True when a target may be called now. A half-open circuit lets one call of all processes through, to try. */
  async enter(target: Target): Promise<boolean> {
    const id = this.#idOf(target)
    const record = this.#records.get(id)
    if (!record || record.openUntilMs === 0) return true
    const now = this.#clock.now()
    if (Math.max(record.openUntilMs, record.triedUntilMs) > now) return false
    const won = await this.#redis.set(`health:trial:${id}`, '1', 'PX', trialMs, 'NX').catch(() => null)
    if (won === null) record.triedUntilMs = now + trialAgainMs
    return won !== null
  }

  /** A target began to answer, `firstByteMs` after it was called. */
  began(target: Target, firstByteMs: number): void {
    const seen = this.#see(this.#idOf(target))
    seen.begun++
    seen.firstByteMs = mean(seen.firstByteMs, firstByteMs, seen.begun)
    // Whoever waits for a circuit to close should know at once.
    if (this.figures(target).circuit === 'half_open') void this.exchange()
  }

  /** A target answered as it should, at `tokensPerSecond` (null where that is not known). */
  succeeded(target: Target, tokensPerSecond: number | null): void {
    const seen = this.#see(this.#idOf(target))
    seen.good++
    seen.run = 0
    if (tokensPerSecond !== null) seen.tokensPerSecond = mean(seen.tokensPerSecond, tokensPerSecond, seen.good)
    if (this.figures(target).circuit === 'half_open') void this.exchange()
  }

  /**
   * A call failed by its provider's fault, for which its caller waited `wastedMs`. What concerns only the API key it was
   * made with (its rate limit, its credentials) makes that key rest while there are others; everything else counts against
   * the target.
   */
  failed(target: Target, error: ProviderError, wastedMs: number, key: { id: string; alone: boolean }): void {
    const { reason, retryAfterMs } = error
    const restMs = retryAfterMs === null ? 0 : Math.min(retryAfterMs, longestRestMs)
    const refused = reason === 'auth' || reason === 'quota'
    const limited = reason === 'rate_limited' && (restMs > 0 || !key.alone)
    if (limited || (refused && !key.alone)) {
      const id = refused ? keyOfProvider(target, key.id) : keyOfModel(target, key.id)
      this.#rest(id, refused ? Math.max(restMs, coolDownMs.most) : restMs || coolDownMs.least)
      this.#keysRested = true
      this.abandoned(target)
    } else {
      const seen = this.#see(this.#idOf(target))
      seen.bad++
      seen.run++
      if (restMs > 0) this.#rest(this.#idOf(target), restMs)
      seen.coolDownMs = Math.min(Math.max(wastedMs, coolDownMs.least), coolDownMs.most)
    }
    void this.exchange()
  }

  /** A call that `enter` let through ended without saying anything about its target. */
  abandoned(target: Target): void {
    if (this.figures(target).circuit === 'half_open')
      void this.#redis.del(`health:trial:${this.#idOf(target)}`).catch(() => {})
  }

  /**
   * Gives what was seen here so far to the others and takes what they saw. While Redis is away, the figures stay as they
   * are. Never rejects.
   */
  exchange(): Promise<void> {
    this.#pending = true
    this.#exchanging ??= this.#exchangeAll()
    return this.#exchanging
  }

  async #exchangeAll(): Promise<void> {
    try {
      while (this.#pending) {
        this.#pending = false
        await this.#exchangeOnce()
      }
    } finally {
      this.#exchanging = null
    }
  }

  async #exchangeOnce(): Promise<void> {
    const args: (string | number)[] = [this.#cursor, halfLifeMs, forgetAfterMs, fewestFailures]
    for (const [id, seen] of this.#seen) args.push(id, ...orderOf(seen))
    this.#seen = new Map()
    const command = this.#redis as unknown as { 'headgate:health'(args: (string | number)[]): Promise<string[]> }
    const [now = '0', ...changed] = await command['headgate:health'](args).catch(() => [])
    if (now === '0') return
    this.#cursor = now
    const aheadMs = Number(now) - this.#clock.now()
    for (let i = 0; i < changed.length; i += 2) this.#take(changed[i]!, changed[i + 1]!, aheadMs)
  }

  #take(id: string, text: string, aheadMs: number): void {
    const shared = JSON.parse(text) as { [field: string]: number }
    const { good = 0, bad = 0, at = 0, open_until = 0, rest_until = 0 } = shared
    this.#keysRested ||= id.split('|').length > 2
    const restUntilMs = rest_until === 0 ? 0 : rest_until - aheadMs
    this.#records.set(id, {
      atMs: at - aheadMs,
      good,
      bad,
      openUntilMs: open_until === 0 ? 0 : open_until - aheadMs,
      // What this process was asked may not have reached the others yet.
      restUntilMs: Math.max(restUntilMs, this.#records.get(id)?.restUntilMs ?? 0),
      firstByteMs: shared.first_byte_ms ?? -1,
      tokensPerSecond: shared.tokens_per_second ?? -1,
      triedUntilMs: 0,
    })
  }

  /** Holds in this process at once, so that the very next call of the same request knows. */
  #rest(id: string, restMs: number): void {
    const seen = this.#see(id)
    seen.restMs = Math.max(seen.restMs, restMs)
    const now = this.#clock.now()
    const record = this.#records.get(id) ?? { ...unwritten, atMs: now }
    this.#records.set(id, { ...record, restUntilMs: Math.max(record.restUntilMs, now + restMs) })
  }

  // Bounded by the catalog and the configured API keys.
  #see(id: string): Seen {
    let seen = this.#seen.get(id)
    if (!seen) {
      seen = { good: 0, bad: 0, run: 0, begun: 0, firstByteMs: -1, tokensPerSecond: -1, coolDownMs: 0, restMs: 0 }
      this.#seen.set(id, seen)
    }
    return seen
  }

  #idOf({ deployment, provider, model }: Target): string {
    let id = this.#ids.get(deployment)
    if (id === undefined) {
      id = `${provider.name}|${model.id}`
      this.#ids.set(deployment, id)
    }
    return id
  }
}

/** In the order in which the script takes them. */
function orderOf({ good, bad, run, begun, firstByteMs, tokensPerSecond, coolDownMs, restMs }: Seen): number[] {
  return [good, bad, run, begun, firstByteMs, tokensPerSecond, coolDownMs, restMs]
}

function mean(soFar: number, next: number, count: number): number {
  return soFar < 0 ? next : soFar + (next - soFar) / count
}

const keyOfModel = ({ provider, model }: Target, keyId: string) => `${provider.name}|${model.id}|${keyId}`
const keyOfProvider = ({ provider }: Target, keyId: string) => `${provider.name}|*|${keyId}`
