import type { ProviderError } from '../providers/contract.ts'
import type { Route } from '../providers/upstreams.ts'
import type { Services } from '../services.ts'

/** Answers with fewer tokens say nothing about a provider's speed. */
const fewestTokens = { streamed: 8, whole: 128 }

/** Watches one call and tells the live figures how it went. Calls to the sandbox say nothing about any provider. */
export class Watch {
  readonly route: Route
  firstByteMs: number | null = null
  readonly #services: Pick<Services, 'health' | 'clock' | 'log'>
  readonly #startedMs: number
  /** Whether the client has got anything for its wait. */
  #delivers = false

  constructor(services: Pick<Services, 'health' | 'clock' | 'log'>, route: Route) {
    this.route = route
    this.#services = services
    this.#startedMs = services.clock.now()
  }

  get elapsedMs(): number {
    return this.#services.clock.now() - this.#startedMs
  }

  /** The first byte of the answer came. Only a streamed one tells how long the provider thinks before it speaks. */
  began({ streamed }: { streamed: boolean }): void {
    const { health, clock } = this.#services
    this.firstByteMs = clock.now()
    this.#delivers = streamed
    if (streamed && this.route.credential) health.began(this.route.target, this.firstByteMs - this.#startedMs)
  }

  /** The answer of so many tokens is whole. */
  succeeded(tokens: number, { streamed }: { streamed: boolean }): void {
    const { health, clock } = this.#services
    const { target, credential } = this.route
    if (!credential) return
    const enough = tokens >= (streamed ? fewestTokens.streamed : fewestTokens.whole)
    const fromMs = (streamed ? this.firstByteMs : null) ?? this.#startedMs
    health.succeeded(target, enough ? (tokens * 1_000) / Math.max(1, clock.now() - fromMs) : null)
  }

  /** The provider failed. Tells the log, too: that our own credentials are refused is an alert. */
  failed(error: ProviderError): void {
    const { health, clock, log } = this.#services
    const { target, credential, alone } = this.route
    const { reason, status, cause: err } = error
    const fields = { provider: target.provider.name, model: target.model.id, key: credential?.id, reason, status, err }
    if (reason === 'auth' || reason === 'quota') log.error(fields, 'the provider refuses our API key')
    else log.warn(fields, 'attempt failed')
    if (!credential) return
    const inVain = reason === 'timeout' || !this.#delivers
    health.failed(target, error, inVain ? clock.now() - this.#startedMs : 0, { id: credential.id, alone })
  }

  /** The call ended without saying anything about the provider: the client left, or the request was at fault. */
  abandoned(): void {
    if (this.route.credential) this.#services.health.abandoned(this.route.target)
  }
}
