import { createHash } from 'node:crypto'
import type { Redis } from '../io/redis.ts'
import type { Policy } from '../keys/policy.ts'
import type { RoutingRequest } from './options.ts'
import type { StickyTarget } from './router.ts'

/** No provider caches a prompt for longer. */
const ttlS = 3_600

/**
 * Remembers the target that last served a session, so that its next request goes to the same model, provider and API
 * key, whose prompt cache holds it. Stored in Redis for an hour after the last request.
 */
export class StickySessions {
  readonly #redis: Redis

  constructor(redis: Redis) {
    this.#redis = redis
  }

  /** The target that last served a session; null when unknown. */
  async recall(key: string): Promise<StickyTarget | null> {
    const text = await this.#redis.get(key).catch(() => null) // Without it the request is served anyway.
    const [model, provider, credentialId] = text?.split(' ') ?? []
    return model && provider ? { model, provider, credentialId: credentialId || null } : null
  }

  remember(key: string, { model, provider, credentialId }: StickyTarget): void {
    const target = `${model} ${provider} ${credentialId ?? ''}`
    void this.#redis.set(key, target, 'EX', ttlS).catch(() => {})
  }
}

/** The Redis key of a caller's session: each named model and each mode has its own sticky target. */
export function stickySessionKey(
  policy: Policy,
  session: string,
  { model, mode = policy.mode }: RoutingRequest,
): string {
  const hash = createHash('sha256').update(`${model}\n${mode}\n${session}`).digest('base64url').slice(0, 22)
  return `session:${policy.organisationId}:${policy.environment}:${hash}`
}
