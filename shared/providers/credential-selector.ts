import type { Connections, Credential } from './connections.ts'
import type { Target } from './contract.ts'
import type { Health } from './health.ts'

/** Selects among the API keys of a provider: round-robin among those without a cooldown. */
export class CredentialSelector {
  readonly #connections: Connections
  readonly #health: Pick<Health, 'keyCooldownMs' | 'hasKeys'>
  /** Calls by provider; bounded by the catalog. */
  readonly #calls = new Map<string, number>()

  constructor(connections: Connections, health: Pick<Health, 'keyCooldownMs' | 'hasKeys'>) {
    this.#connections = connections
    this.#health = health
  }

  /** The API keys of a target, by ids that do not reveal them, with their remaining cooldowns. */
  list(target: Target): { id: string; cooldownMs: number }[] {
    const connection = this.#connections.find(target.provider.name)
    if (!connection || connection.auth === 'none') return []
    return connection.credentials.map(({ id }) => ({ id, cooldownMs: this.#health.keyCooldownMs(target, id) }))
  }

  /** The time until one of the API keys is usable; 0 for a provider that is not configured. */
  cooldownMs(target: Target): number {
    if (!this.#health.hasKeys) return 0
    const connection = this.#connections.find(target.provider.name)
    if (!connection) return 0
    let cooldownMs = Number.POSITIVE_INFINITY
    for (const { id } of connection.credentials)
      cooldownMs = Math.min(cooldownMs, this.#health.keyCooldownMs(target, id))
    return cooldownMs
  }

  /** See `Upstreams.credential`. */
  select(target: Target, preferredId: string | null): { credential: Credential; alone: boolean } {
    const { name } = target.provider
    const { credentials } = this.#connections.get(name)
    const [only, another] = credentials
    if (!another) return { credential: only!, alone: true }
    const ready = credentials.filter(({ id }) => this.#health.keyCooldownMs(target, id) === 0)
    const usable = ready.length > 0 ? ready : credentials
    return {
      credential: usable.find(({ id }) => id === preferredId) ?? this.#next(name, usable),
      alone: usable.length === 1,
    }
  }

  #next(provider: string, usable: Credential[]): Credential {
    const calls = this.#calls.get(provider) ?? 0
    this.#calls.set(provider, calls + 1)
    return usable[calls % usable.length]!
  }
}
