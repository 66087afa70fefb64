import { createHash } from 'node:crypto'
import type { Redis } from '../io/redis.ts'
import type { Policy } from '../keys/policy.ts'
import type { RoutingRequest } from './options.ts'
import type { Home } from './router.ts'

/** No provider keeps a prompt in its cache for longer. */
const keptForS = 3_600

/**
 * Where sessions were served last, so that their next request goes to the same model, provider and API key, whose prompt
 * cache knows it. Kept in Redis for an hour after the last request.
 */
export class Sessions {
  readonly #redis: Redis

  constructor(redis: Redis) {
    this.#redis = redis
  }

  /** Where a session was served before, null when that is not known. */
  async recall(key: string): Promise<Home | null> {
    const text = await this.#redis.get(key).catch(() => null) // Without it the request is served all the same.
    const [model, provider, credentialId] = text?.split(' ') ?? []
    return model && provider ? { model, provider, credentialId: credentialId || null } : null
  }

  remember(key: string, { model, provider, credentialId }: Home): void {
    const home = `${model} ${provider} ${credentialId ?? ''}`
    void this.#redis.set(key, home, 'EX', keptForS).catch(() => {})
  }
}

/** The key of a caller's session: it has a home for each model it names and each mode. */
export function sessionKey(policy: Policy, session: string, { model, mode = policy.mode }: RoutingRequest): string {
  const hash = createHash('sha256').update(`${model}\n${mode}\n${session}`).digest('base64url').slice(0, 22)
  return `session:${policy.organisationId}:${policy.environment}:${hash}`
}
