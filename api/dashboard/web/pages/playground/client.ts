import type { PlaygroundSecretAnswer } from '../../../wire/playground.ts'
import { call, errorOf } from '../../api.ts'

/** A secret is replaced when it has less than this left, so that a request that begins with it also ends with it. */
const sparedMs = 60_000

/** The public API under one key, called as any client calls it. */
export class Client {
  readonly #path: string
  #secret: Promise<PlaygroundSecretAnswer> | null = null

  /** `base`: where the organisation's routes begin. */
  constructor(base: string, keyHash: string) {
    this.#path = `${base}/keys/${keyHash}/playground-secret`
  }

  /** A secret that stands for the key and has some minutes left. Throws an ApiError. */
  async secret(): Promise<string> {
    const held = await this.#secret?.catch(() => null)
    if (held && Date.parse(held.expires_at) - Date.now() > sparedMs) return held.secret
    this.#secret = call<PlaygroundSecretAnswer>(this.#path, { method: 'POST' })
    return (await this.#secret).secret
  }

  /** Calls a route of the public API; an object is sent as JSON. Throws an ApiError where it is refused. */
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
    // A clock that is wrong, or a Redis that was emptied: the next request asks for another one.
    if (response.status === 401) this.#secret = null
    throw error
  }

  /** The JSON of a route of the public API. Throws an ApiError. */
  async json<T>(path: string, init?: Parameters<Client['request']>[1]): Promise<T> {
    return (await this.request(path, init)).json() as Promise<T>
  }
}
