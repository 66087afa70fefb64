import { GatewayError } from '../base/errors.ts'
import type { Known } from '../keys/policies.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Services } from '../services.ts'
import { scopes } from './line.ts'

/** What a line is judged by, and the secret it was found under. */
export type Judged = { hash: string | null } & ({ known: Known } | { error: GatewayError })
type Named = { model: string; models?: string[] | undefined }

/** The key that created a batch, under whichever secret it has now: its policy holds for each line. */
export class BatchKey {
  readonly #services: Services
  readonly #keyId: string
  readonly #kind: DirectKind
  #hash: string | null = null
  #environment: 'live' | 'test' = 'live'

  constructor(services: Services, keyId: string, kind: DirectKind) {
    this.#services = services
    this.#keyId = keyId
    this.#kind = kind
  }

  /** The key as the next line is to be judged by it, or why it may not be used at all. Rejects when the stores are away. */
  async known(): Promise<Judged> {
    this.#hash ??= await this.#current()
    const hash = this.#hash
    try {
      const known = await this.#services.policies.find(hash ?? '', scopes[this.#kind])
      this.#environment = known.policy.environment
      return { hash, known }
    } catch (error) {
      if (error instanceof GatewayError) return { hash, error }
      throw error
    }
  }

  /** Whether the key has another secret than the one that was refused. Several lines may be refused under the same. */
  async changed(refused: string | null): Promise<boolean> {
    this.#hash = await this.#current()
    return this.#hash !== null && this.#hash !== refused
  }

  async #current(): Promise<string | null> {
    const row = await this.#services.db.apiKey.findUnique({ where: { id: this.#keyId }, select: { hash: true } })
    return row?.hash ?? null
  }

  /** Whether anybody is configured who serves one of the models that a line names. */
  isServed(body: DirectKinds[DirectKind]['request']): boolean {
    const { model, models = [] } = body as Named
    const { catalog, upstreams } = this.#services
    return [model, ...models].some(slug => {
      const row = catalog.find(slug)
      return row ? upstreams.targets(row, this.#environment).length > 0 : true
    })
  }
}
