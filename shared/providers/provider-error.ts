import type { ModelFault } from './toolkit/model-faults.ts'

/**
 * Why an upstream call failed. Request faults are the caller's and are never retried on another target; the others are
 * the provider's (retried on another target before the first byte).
 */
export type FailureReason =
  | 'invalid_request' // 400-class about the input; the message is passed on
  | 'context_length' // the input is longer than the model takes
  | 'content_filter' // refused by the provider's content policy
  | 'model_fault' // the model wrote a call or JSON that its server could not use
  | 'auth' // our credentials: 401, 403
  | 'quota' // our account at the provider has no money left
  | 'model_unavailable' // 404: the provider no longer has this model
  | 'rate_limited' // 429
  | 'overloaded' // 503, 529
  | 'server_error' // other 5xx, 408, 409, 425
  | 'timeout' // connect, first byte, idle or whole
  | 'connection' // refused, reset, DNS, TLS
  | 'invalid_response' // a response that cannot be parsed
  | 'truncated' // a stream that closed before its final event

/** An error response as the provider sent it, for clients that speak its dialect. */
export type ReceivedError = { status: number; body: string; headers: Readonly<Record<string, string>> }

export class ProviderError extends Error {
  override name = 'ProviderError'
  readonly reason: FailureReason
  /** The provider's HTTP status, if it responded. */
  readonly status: number | null
  readonly retryAfterMs: number | null
  /** True when the request certainly never reached the provider. */
  readonly unsent: boolean
  /** The request field that a request fault concerns, if known. */
  readonly param: string | null
  /** The response itself, where it may be shown to a client of the same dialect. */
  readonly received: ReceivedError | null
  /** What the model wrote, where that is the reason. */
  readonly modelFault: ModelFault | null
  constructor(
    reason: FailureReason,
    message: string,
    options: {
      status?: number
      retryAfterMs?: number
      unsent?: boolean
      param?: string
      received?: ReceivedError
      modelFault?: ModelFault
      cause?: unknown
    } = {},
  ) {
    super(message, { cause: options.cause })
    this.reason = reason
    this.status = options.status ?? null
    this.retryAfterMs = options.retryAfterMs ?? null
    this.unsent = options.unsent ?? false
    this.param = options.param ?? null
    this.received = options.received ?? null
    this.modelFault = options.modelFault ?? null
  }

  /** The same error without a text in what it shows: the API key of the call, which a provider may have quoted. */
  without(secret: string): ProviderError {
    const { message, received, modelFault } = this
    if (secret.length < minSecretLength || !JSON.stringify([message, received, modelFault]).includes(secret))
      return this
    const clean = (text: string) => text.replaceAll(secret, '[redacted]')
    const generation = modelFault?.generation == null ? null : clean(modelFault.generation)
    const { status, retryAfterMs, unsent, param, cause } = this
    return new ProviderError(this.reason, clean(message), {
      ...(status !== null && { status }),
      ...(retryAfterMs !== null && { retryAfterMs }),
      ...(param !== null && { param }),
      ...(received && { received: { ...received, body: clean(received.body) } }),
      ...(modelFault && { modelFault: { ...modelFault, generation } }),
      unsent,
      cause,
    })
  }
}

/** Shorter texts are no keys, and occur by chance. */
const minSecretLength = 6

const requestFaults: ReadonlySet<FailureReason> = new Set(['invalid_request', 'context_length', 'content_filter'])

/** True when the provider rejected the request itself: no other target is tried then. */
export function isRequestFault(error: ProviderError): boolean {
  return requestFaults.has(error.reason)
}
