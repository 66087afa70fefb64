import { isIPv6 } from 'node:net'
import { LRUCache } from 'lru-cache'
import { upToEntries } from '../../shared/base/lru-limit.ts'
import { addMs, longAgo, type MonotonicMs } from '../../shared/base/time.ts'

/** A receiver that once took this long counts as slow for `slowPeriodMs`. */
const slowMs = 5_000
const slowPeriodMs = 60_000
/** Maximum concurrent attempts of one organisation at one slow address. */
const maxPerAddress = 10

type Receiver = { waiting: number; slowUntilMs: MonotonicMs }
type Limit = { key: string; max: number }

/**
 * Prevents slow receivers from taking all slots of a worker: while they are slow, their concurrency is limited. Limits apply
 * per resolved address, because one machine may have any number of names, and per organisation.
 */
export class SlowReceivers {
  readonly #receivers = new LRUCache<string, Receiver>(upToEntries(20_000))
  readonly #maxInAll: number

  /** `slots` is how many attempts the worker makes concurrently. */
  constructor(slots: number) {
    this.#maxInAll = Math.max(maxPerAddress, Math.floor(slots / 4))
  }

  /** The limits of an attempt whose addresses are not known yet. */
  ofOrganisation(organisationId: string): Limit[] {
    return [{ key: organisationId, max: this.#maxInAll }]
  }

  /** The limits of an attempt at these addresses: two per network, as a CDN's address is shared by many receivers. */
  ofAddresses(organisationId: string, addresses: readonly string[]): Limit[] {
    const networks = [...new Set(addresses.map(networkOf))]
    return networks.flatMap(network => [
      { key: `${organisationId} ${network}`, max: maxPerAddress },
      { key: network, max: this.#maxInAll },
    ])
  }

  /** Takes a permit of each limit. False, and none taken, when one of them is slow and exhausted. */
  enter(limits: readonly Limit[], nowMs: MonotonicMs): boolean {
    const isFull = ({ key, max }: Limit) => {
      const receiver = this.#receivers.get(key)
      return receiver !== undefined && nowMs < receiver.slowUntilMs && receiver.waiting >= max
    }
    if (limits.some(isFull)) return false
    for (const { key } of limits) {
      const receiver = this.#receivers.get(key) ?? { waiting: 0, slowUntilMs: longAgo }
      receiver.waiting++
      this.#receivers.set(key, receiver)
    }
    return true
  }

  /** Releases the permits; `tookMs` is how long they were held. */
  leave(limits: readonly Limit[], nowMs: MonotonicMs, tookMs: number): void {
    for (const { key } of limits) {
      const receiver = this.#receivers.get(key)
      if (!receiver) continue
      receiver.waiting--
      if (tookMs >= slowMs) receiver.slowUntilMs = addMs(nowMs, slowPeriodMs)
    }
  }
}

/** An IPv4 address; for IPv6 its /64 network, the smallest that one customer is assigned. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address
  const [head = '', tail = ''] = address.split('::')
  const groups = (text: string) => text.split(':').filter(Boolean)
  const [front, back] = [groups(head), groups(tail)]
  const zeros = address.includes('::') ? Array<string>(Math.max(0, 8 - front.length - back.length)).fill('0') : []
  return `${[...front, ...zeros, ...back].slice(0, 4).join(':')}::/64`
}
