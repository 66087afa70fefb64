import type { Deployment, ModelRow, ProviderRow } from '../catalog/schema.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'

/** Whom a call goes to: one model at one provider. */
export type Target = { model: ModelRow; deployment: Deployment; provider: ProviderRow }

/** A file the caller referred to by URL, fetched through the safe-url door for providers that want the bytes. */
export type Media = { contentType: string; bytes: Buffer }

/** One validated request on its way to a target. */
export type Call<K extends DirectKind> = {
  target: Target
  body: DirectKinds[K]['request']
  /** The body's bytes as they came in, when nothing in `body` was changed since. */
  raw: Buffer | null
  /** Output ceiling for this call when the gateway sets one (clamped by cap or funds); wins over the body's own. */
  maxTokens: number | null
  /** What `remoteMedia` asked for, by URL. */
  media: ReadonlyMap<string, Media>
}

/** An HTTP request relative to the provider's base URL. The secret's header is added by the driver, never by an adapter. */
export type UpstreamRequest = {
  method: 'POST' | 'GET'
  path: string
  headers: Record<string, string>
  body: string | Buffer
}

/** One server-sent event: `event` is its name ('' when it has none), `data` its data lines joined by \n. */
export type SseEvent = { event: string; data: string }

/**
 * Turns a provider's events into our chunks. `push` gives the chunks of one event and throws a ProviderError when the
 * event reports an error or makes no sense. `done` tells whether the provider has said the answer is complete: a stream
 * that closes before that was cut off. Of a dialect with a last event, `over` tells that it came: nothing more is waited
 * for.
 */
export type StreamDecoder<C> = { push(event: SseEvent): C[]; readonly done: boolean; readonly over?: boolean }

/** How one protocol serves one kind. An adapter only translates: no I/O, no clock but `created`, no retries. */
export type DirectAdapter<K extends DirectKind> = {
  /** True when the provider's dialect is our own: answers and events may be relayed as bytes. */
  native: boolean
  /** The upstream request. Throws a GatewayError 400 naming the field when the input cannot be expressed there. */
  request(call: Call<K>): UpstreamRequest
  /** URLs in the body whose bytes must be fetched before `request`, for providers that take no URLs. */
  remoteMedia?(body: DirectKinds[K]['request']): string[]
  /** The whole answer from parsed JSON. Throws a ProviderError `invalid_response` when it makes no sense. */
  answer(json: unknown, call: Call<K>): DirectKinds[K]['answer']
  stream?(call: Call<K>): StreamDecoder<DirectKinds[K]['chunk']>
}

/**
 * Why an upstream call failed. `request` faults are the caller's and are never tried elsewhere; the others are the
 * provider's (retried elsewhere before the first byte).
 */
export type FailureReason =
  | 'invalid_request' // 400-class about the input; message is passed on
  | 'context_length' // the input is longer than the model takes
  | 'content_filter' // refused by the provider's content policy
  | 'auth' // our credentials: 401, 403
  | 'quota' // our account at the provider has no money left
  | 'model_unavailable' // 404: the provider no longer has this model
  | 'rate_limited' // 429
  | 'overloaded' // 503, 529
  | 'server_error' // other 5xx, 408, 409, 425
  | 'timeout' // connect, first byte, idle or whole
  | 'connection' // refused, reset, DNS, TLS
  | 'invalid_response' // an answer that cannot be understood
  | 'truncated' // a stream that ended before its end

export class ProviderError extends Error {
  override name = 'ProviderError'
  readonly reason: FailureReason
  /** The provider's HTTP status, when there was one. */
  readonly status: number | null
  readonly retryAfterMs: number | null
  constructor(
    reason: FailureReason,
    message: string,
    options: { status?: number; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.reason = reason
    this.status = options.status ?? null
    this.retryAfterMs = options.retryAfterMs ?? null
  }
}

/** One protocol: the kinds it serves and how it reports errors. */
export type Protocol = {
  direct: { [K in DirectKind]?: DirectAdapter<K> }
  /** Classifies an answer that is not 2xx. `body` is at most 64 kB of it. */
  failure(status: number, headers: Record<string, string | string[] | undefined>, body: string): ProviderError
}
