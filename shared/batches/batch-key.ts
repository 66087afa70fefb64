import { GatewayError } from '../base/errors.ts'
import type { OwnKeys } from '../keys/own-keys.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Scope } from '../keys/policy.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'

/** The scope that a key needs for the lines of a kind. */
const scopes = {
  chat: 'chat',
  embedding: 'embeddings',
  completion: 'completions',
  messages: 'chat',
  responses: 'chat',
  generate_content: 'chat',
} as const satisfies Record<DirectKind, Scope>

/** The resolved key, or why it may not be used, with the hash of the secret it was found under. */
export type KeyVerdict = { hash: string | null } & ({ key: ResolvedKey } | { error: GatewayError })
type Named = { model: string; models?: string[] | undefined }

/** The key that created a batch, under its current secret: its policy applies to each line. */
export class BatchKey {
  readonly #services: Platform
  readonly #keyId: string
  readonly #kind: DirectKind
  #hash: string | null = null
  #environment: 'live' | 'test' = 'live'
  #ownKeys: OwnKeys | null = null

  constructor(services: Platform, keyId: string, kind: DirectKind) {
    this.#services = services
    this.#keyId = keyId
    this.#kind = kind
  }

  /** Resolves the key for the next line, or the reason why it may not be used. Rejects when the stores are unavailable. */
  async resolve(): Promise<KeyVerdict> {
    this.#hash ??= await this.#readHash()
    const hash = this.#hash
    try {
      const key = await this.#services.policies.find(hash ?? '', scopes[this.#kind])
      this.#environment = key.policy.environment
      this.#ownKeys = key.policy.ownKeys
      return { hash, key }
    } catch (error) {
      if (error instanceof GatewayError) return { hash, error }
      throw error
    }
  }

  /** Whether the key's secret differs from the refused one. Several lines may be refused under the same secret. */
  async hasChanged(refused: string | null): Promise<boolean> {
    this.#hash = await this.#readHash()
    return this.#hash !== null && this.#hash !== refused
  }

  async #readHash(): Promise<string | null> {
    const row = await this.#services.db.apiKey.findUnique({ where: { id: this.#keyId }, select: { hash: true } })
    return row?.hash ?? null
  }

  /** Whether any configured provider serves one of the models that a line names. */
  isServed(body: DirectKinds[DirectKind]['request']): boolean {
    const { model, models = [] } = body as Named
    const { catalog, upstreams } = this.#services
    return [model, ...models].some(slug => {
      const row = catalog.find(slug)
      // A key that uses own keys alone is told so by its line.
      if (this.#ownKeys?.mode === 'own') return true
      return row ? upstreams.targets(row, this.#environment, this.#ownKeys).length > 0 : true
    })
  }
}
