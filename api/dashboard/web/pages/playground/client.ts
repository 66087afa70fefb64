import type { PlaygroundSecretAnswer } from '../../../wire/playground.ts'
import { call, errorOf } from '../../api.ts'

/** A secret with less than this left is replaced, so that it does not expire during a request. */
const sparedMs = 60_000

/** A client of the public API with one API key. */
export class Client {
  readonly #path: string
  #secret: Promise<PlaygroundSecretAnswer> | null = null

  /** `base`: the base path of the organisation's routes. `keyName`: the key's id, or its hash. */
  constructor(base: string, keyName: string) {
    this.#path = `${base}/keys/${keyName}/playground-secret`
  }

  /** Returns a temporary secret for the key that is valid for some minutes. Throws an ApiError. */
  async secret(): Promise<string> {
    const held = await this.#secret?.catch(() => null)
    if (held && Date.parse(held.expires_at) - Date.now() > sparedMs) return held.secret
    this.#secret = call<PlaygroundSecretAnswer>(this.#path, { method: 'POST' })
    return (await this.#secret).secret
  }

  /** Calls a route of the public API; an object is sent as JSON. Throws an ApiError for an error response. */
  async request(
    path: string,
    { body, ...init }: Omit<RequestInit, 'body'> & { body?: object } = {},
  ): Promise<Response> {
    const headers = { authorization: `Bearer ${await this.secret()}` }
    const response = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST',
      ...init,
      headers:
        body === undefined || body instanceof FormData ? headers : { ...headers, 'content-type': 'application/json' },
      ...(body !== undefined && { body: body instanceof FormData ? body : JSON.stringify(body) }),
    })
    if (response.ok) return response
    const error = await errorOf(response)
    // The clock is wrong or Redis was emptied: the next request fetches a new secret.
    if (response.status === 401) this.#secret = null
    throw error
  }

  /** Calls a route of the public API and returns its JSON. Throws an ApiError. */
  async json<T>(path: string, init?: Parameters<Client['request']>[1]): Promise<T> {
    return (await this.request(path, init)).json() as Promise<T>
  }
}
