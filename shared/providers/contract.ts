import type { Readable } from 'node:stream'
import type { Deployment, ModelRow, ProviderRow } from '../catalog/schema.ts'
import type { OnPreview } from '../kinds/image.ts'
import type { DirectKind, DirectKinds, InstantKind, QueuedKind, WorkKind, WorkKinds } from '../kinds/index.ts'
import type { Invoice } from '../kinds/media.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from './avatar-catalog.ts'
import type { RealtimeAdapter } from './realtime-contract.ts'
import type { StreamDecoder } from './stream-decoder.ts'

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
  dropped?: readonly string[] // the caller's fields that are not in it, by path without indexes
}

/** How one protocol serves one kind. An adapter only translates: no I/O, no clock but `created`, no retries. */
export type DirectAdapter<K extends DirectKind> = {
  /** True when the provider's dialect is our own: answers and events may be relayed as bytes. */
  native: boolean
  /** The upstream request. Throws a GatewayError 400 naming the field when the input cannot be expressed there. */
  request(call: Call<K>): UpstreamRequest
  /**
   * Of a call that takes several requests, all of them; `request` then gives the first. `answer` gets a list of their answers. Absent
   * where every call takes one.
   */
  requests?(call: Call<K>): UpstreamRequest[]
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
  /** True when the request surely never reached the provider. */
  readonly unsent: boolean
  /** The field of our own that a fault of the request is about, where it is known. */
  readonly param: string | null
  constructor(
    reason: FailureReason,
    message: string,
    options: { status?: number; retryAfterMs?: number; unsent?: boolean; param?: string; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.reason = reason
    this.status = options.status ?? null
    this.retryAfterMs = options.retryAfterMs ?? null
    this.unsent = options.unsent ?? false
    this.param = options.param ?? null
  }
}

const requestFaults: ReadonlySet<FailureReason> = new Set(['invalid_request', 'context_length', 'content_filter'])

/** True when the provider found fault with the request itself: nobody else is asked then (contract §2). */
export function isRequestFault(error: ProviderError): boolean {
  return requestFaults.has(error.reason)
}

/** A provider's handle of slow work, opaque to everybody but its adapter. Small, plain JSON, no secrets. */
export type Operation = { [name: string]: string | number | boolean | null }

/** A file the job refers to, as an adapter may hand it on. */
export type Source = {
  contentType: string
  bytes: number
  filename: string
  /** Measured, in seconds; null for images. */
  durationS: number | null
  /** An address that the provider can fetch for some hours. */
  url(): Promise<string>
  /** The address where this gateway can be reached from outside, else the bytes as a `data:` URI. For small files. */
  link(): Promise<string>
  base64(): Promise<string>
  /** The bytes as they are read from storage, each time from the start. */
  open(): Promise<Readable>
}

/** One job, or one request for media, on its way to a target. */
export type QueuedCall<K extends WorkKind> = {
  target: Target
  /** The job's own id: the idempotency key or external id where the provider takes one. */
  jobId: string
  input: WorkKinds[K]['input']
  /** The references by field, e.g. `start_image_url`, `input_references.0`. */
  sources: ReadonlyMap<string, Source>
  /** Where the provider may report the end; null when it cannot reach this gateway. */
  callbackUrl: string | null
}

export type ProviderRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Relative to the provider's base URL, with its query. */
  path: string
  headers?: Record<string, string>
  /** Sent as JSON. */
  json?: unknown
  /** A form whose files are read from storage while they are sent. */
  parts?: readonly FormPart[]
  /** A body that is one file. */
  file?: Source
  /** Statuses outside 2xx that are answers rather than failures, e.g. 404 of a look-up. */
  allow?: readonly number[]
  /** Aborted once nobody waits for the answer any more. */
  signal?: AbortSignal
  /** How long the first byte may take, where the work is done before it. */
  firstByteMs?: number
  /** How much of an answer is read; 4 MiB where it is not given. */
  mostBytes?: number
}
export type FormPart = { name: string } & ({ value: string } | { file: Source })

/** `json` is null when the body is none. */
export type ProviderAnswer = {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: what a provider sends is checked by its adapter, field by field
  json: any
}

/**
 * The line to one provider with one of its API keys. `send` throws a ProviderError: what `Protocol.failure` makes of a
 * status outside 2xx, or a fault of the connection. Nothing is retried.
 */
export type ProviderLine = {
  provider: ProviderRow
  /** Origin and path prefix, without a slash at the end. */
  baseUrl: string
  send(request: ProviderRequest): Promise<ProviderAnswer>
  /**
   * The same, for an answer that is read as it comes: its stream fails with a ProviderError. Destroy one that is not read to
   * its end.
   */
  stream(request: ProviderRequest): Promise<ProviderDownload>
  /**
   * Opens a file of the provider's own origin, `path` from its root with its query, in at most 10 minutes. Any status is an
   * answer. Destroy a stream that is not read to its end.
   */
  open(path: string, signal?: AbortSignal): Promise<ProviderDownload>
}
export type ProviderDownload = {
  status: number
  headers: Record<string, string | string[] | undefined>
  stream: Readable
}

/** What one look at slow work shows. `next`: this part is done and another has to be started from `operation`. */
export type Report<K extends WorkKind> =
  | { status: 'pending'; progress: number | null }
  | { status: 'next'; operation: Operation; progress: number }
  | { status: 'completed'; output: WorkKinds[K]['output']; invoice: Invoice }
  | { status: 'failed'; error: ProviderError }

/** How one protocol serves one kind of slow work. Stateless; no sleeping, no retrying, no clock. */
export type QueuedAdapter<K extends WorkKind> = {
  /** How often the provider wants to be asked: the first delay, and the longest one it grows to. */
  poll: { firstMs: number; mostMs: number }
  /**
   * Starts the work, or its next part `after` an operation that reported `next`. Throws a ProviderError; `invalid_response`
   * when an answer of status 2xx has no handle: the work may run, and nobody will start it again.
   */
  start(call: QueuedCall<K>, line: ProviderLine, after: Operation | null): Promise<Operation>
  /** Looks at the work once. Throws a ProviderError when the look itself failed, which says nothing of the work. */
  check(operation: Operation, line: ProviderLine): Promise<Report<K>>
  /** Asks the provider to stop; best effort. Absent where it has no such call. */
  cancel?(operation: Operation, line: ProviderLine): Promise<void>
  /**
   * Finds the work of a start whose answer never came by `jobId`; null = the provider does not have it and takes the same
   * id again without a second effect. Absent where the provider has no such key: then nothing is ever started twice.
   */
  find?(call: QueuedCall<K>, line: ProviderLine): Promise<Operation | null>
}

/** One request for media that somebody waits for; `signal` is aborted once nobody does. `onPreview` is for images. */
export type InstantCall<K extends InstantKind> = QueuedCall<K> & { signal: AbortSignal; onPreview?: OnPreview }

/** How one protocol serves one kind of media that is waited for. Throws 400 naming a field, and ProviderErrors. */
export type InstantAdapter<K extends InstantKind> = (
  | { make(call: InstantCall<K>, line: ProviderLine): Promise<WorkKinds[K]['output']> }
  | QueuedAdapter<K>
) & {
  /** How many pieces (`n`) one call gives at most; further ones take further calls. As many as are asked for where absent. */
  mostPieces?(target: Target): number
}

/** A request that came in at a job's callback address. */
export type Callback = {
  headers: Record<string, string | string[] | undefined>
  raw: Buffer
  nowMs: number
  /** `<PROVIDER>_WEBHOOK_SECRET`. */
  secret: string | null
  line: ProviderLine
  /** Remembers verification keys for some hours, by name. */
  remember(name: string, load: () => Promise<string>): Promise<string>
}

/** What a provider offers to choose from for talking avatars. */
export type AvatarCatalog = {
  avatars(query: CatalogQuery, line: ProviderLine): Promise<CatalogPage<Avatar>>
  voices(query: CatalogQuery, line: ProviderLine): Promise<CatalogPage<Voice>>
}

/** What became of one request of a provider's own batch: its whole answer, or why there is none. */
export type BatchAnswer = { id: string } & ({ json: unknown } | { error: ProviderError })

/** What one look at a provider's own batch shows. Once it is over, every request that was run has its answer. */
export type BatchReport = { over: boolean; completed: number; failed: number }

/** How one protocol runs a whole file of requests of one model at the provider's own pace and price. Stateless. */
export type BatchAdapter = {
  /** The most that one batch takes. */
  most: { requests: number; bytes: number }
  /** How the file of requests is put together around its entries. */
  file: { contentType: string; before: string; between: string; after: string }
  /** The text of one request, which its answer names by `id`. Throws a GatewayError 400 when it cannot be expressed there. */
  entry<K extends DirectKind>(kind: K, id: string, call: Call<K>): string
  /** Starts a batch of such a file. Throws a ProviderError as a job's `start` does. */
  start(file: Source, about: { kind: DirectKind; batchId: string }, line: ProviderLine): Promise<Operation>
  /** Finds the batch of a start whose answer never came; null = there is none. Absent where it cannot be asked. */
  find?(batchId: string, line: ProviderLine): Promise<Operation | null>
  /** Looks at the batch once. Throws `invalid_request` without a status when the provider refused the file as a whole. */
  check(operation: Operation, line: ProviderLine): Promise<BatchReport>
  /** The answers of a batch that is over, in any order, as they are read. */
  results(operation: Operation, line: ProviderLine): AsyncIterable<BatchAnswer>
  cancel(operation: Operation, line: ProviderLine): Promise<void>
}

/** One protocol: the kinds it serves and how it reports errors. */
export type Protocol = {
  direct: { [K in DirectKind]?: DirectAdapter<K> }
  queued?: { [K in QueuedKind]?: QueuedAdapter<K> }
  instant?: { [K in InstantKind]?: InstantAdapter<K> }
  /** How sessions of a deployment are held; null where it is served in no way that is known here. */
  realtime?(deployment: Deployment): RealtimeAdapter | null
  /** Of those whose row has the quirk `batches`. */
  batch?: BatchAdapter
  /** Whether a callback is the provider's own: it only wakes the next `check`. Absent: none is signed, and none asked for. */
  verify?(callback: Callback): Promise<boolean>
  /** True where `verify` can only say yes with `<PROVIDER>_WEBHOOK_SECRET`. */
  verifiesBySecret?: boolean
  /** Of providers that report to one address of the account: the job a report's JSON is about, as `jobId` was given to them. */
  callbackJobId?(json: unknown): string | null
  catalog?: AvatarCatalog
  /** Classifies an answer that is not 2xx. `body` is at most 64 kB of it. */
  failure(status: number, headers: Record<string, string | string[] | undefined>, body: string): ProviderError
}
