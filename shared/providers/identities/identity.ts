import type { ProviderSettings } from '../../base/config.ts'
import type { Proxies } from '../../base/proxies.ts'
import type { Clock } from '../../base/time.ts'
import type { ProviderRow } from '../../catalog/schema.ts'
import type { OutgoingRequest, ResponseHeaders } from '../../io/http.ts'

/** A request that is to be authorized, complete but for the headers that do so. */
export type UnauthorizedRequest = Pick<OutgoingRequest, 'method' | 'headers' | 'body'> & { url: string }

/**
 * An identity of the gateway at a cloud, which authorizes requests by tokens or signatures instead of an API key. It does nothing
 * before its first request.
 */
export type Identity = {
  /**
   * The headers that authorize a request. Rejects with a ProviderError: `auth` where the identity is refused, `overloaded` where
   * nobody can be asked.
   */
  authorize(request: UnauthorizedRequest): Promise<Record<string, string>>
  /** Whether an answer refuses what `authorize` returned; absent: a 401 does. */
  isRefusal?(status: number, headers: ResponseHeaders): boolean
  /** The provider refused what `authorize` returned. */
  recordRefusal(): void
  /** The current token, which errors must not show; '' = none. */
  readonly secret: string
  /** Ends its timers. */
  close(): void
}

export type IdentityOptions = { provider: ProviderRow; settings: ProviderSettings; proxies: Proxies; clock: Clock }
