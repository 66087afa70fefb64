import { isIPv6 } from 'node:net'
import { LRUCache } from 'lru-cache'

/** A receiver that took this long once counts as slow for a while. */
const slowMs = 5_000
const slowForMs = 60_000
/** So few attempts of one organisation may wait at once for one slow address. */
const maxPerAddress = 10

type Known = { waiting: number; slowUntilMs: number }
type Limit = { key: string; max: number }

/**
 * Keeps receivers that hang from taking up every place of a worker: as long as they are slow they get few at a time. What
 * counts is where a name leads, as one machine has as many names as it likes, and whose events they are.
 */
export class SlowReceivers {
  readonly #known = new LRUCache<string, Known>({ max: 20_000 })
  readonly #maxInAll: number

  /** `places` is how many attempts the worker makes at once. */
  constructor(places: number) {
    this.#maxInAll = Math.max(maxPerAddress, Math.floor(places / 4))
  }

  /** The limits of an attempt before its address is known. */
  ofOrganisation(organisationId: string): Limit[] {
    return [{ key: organisationId, max: this.#maxInAll }]
  }

  /** The limits of an attempt at these addresses. Those of a content delivery network belong to many receivers: hence the two. */
  ofAddresses(organisationId: string, addresses: readonly string[]): Limit[] {
    const networks = [...new Set(addresses.map(networkOf))]
    return networks.flatMap(network => [
      { key: `${organisationId} ${network}`, max: maxPerAddress },
      { key: network, max: this.#maxInAll },
    ])
  }

  /** Takes a place under each of the limits. False, and none taken, when one of them is slow and has none left. */
  enter(limits: readonly Limit[], nowMs: number): boolean {
    const isFull = ({ key, max }: Limit) => {
      const known = this.#known.get(key)
      return known !== undefined && nowMs < known.slowUntilMs && known.waiting >= max
    }
    if (limits.some(isFull)) return false
    for (const { key } of limits) {
      const known = this.#known.get(key) ?? { waiting: 0, slowUntilMs: 0 }
      known.waiting++
      this.#known.set(key, known)
    }
    return true
  }

  /** Gives the places back, with how long they were taken. */
  leave(limits: readonly Limit[], nowMs: number, tookMs: number): void {
    for (const { key } of limits) {
      const known = this.#known.get(key)
      if (!known) continue
      known.waiting--
      if (tookMs >= slowMs) known.slowUntilMs = nowMs + slowForMs
    }
  }
}

/** An IPv4 address; of an IPv6 address the network that one customer has at least, a /64. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address
  const [head = '', tail = ''] = address.split('::')
  const groups = (text: string) => text.split(':').filter(Boolean)
  const [front, back] = [groups(head), groups(tail)]
  const zeros = address.includes('::') ? Array<string>(Math.max(0, 8 - front.length - back.length)).fill('0') : []
  return `${[...front, ...zeros, ...back].slice(0, 4).join(':')}::/64`
}
