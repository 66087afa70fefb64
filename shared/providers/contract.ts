import type { Readable } from 'node:stream'
import type { ServiceTier } from '../base/service-tier.ts'
import type { Usage } from '../base/usage.ts'
import type { Deployment, ModelRow, ProviderRow } from '../catalog/schema.ts'
import type { ResponseSink } from '../io/http.ts'
import type { OnPreview } from '../kinds/image.ts'
import type { DirectKind, DirectKinds, QueuedKind, SyncKind, WorkKind, WorkKinds } from '../kinds/index.ts'
import type { Invoice } from '../kinds/media.ts'
import type { OwnAccount } from './access.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from './avatar-catalog.ts'
import type { ProviderError } from './provider-error.ts'
import type { RealtimeAdapter } from './realtime-contract.ts'
import type { StreamDecoder } from './stream-decoder.ts'
import type { ReasoningSealer } from './toolkit/reasoning-envelope.ts'

/**
 * The destination of a call: one model at one provider. `tier`: the service tier that is asked for there; absent = the standard one.
 * `own`: the access by an organisation's own keys; absent = the operator's keys.
 */
export type Target = {
  model: ModelRow
  deployment: Deployment
  provider: ProviderRow
  tier?: ServiceTier
  own?: OwnAccount | undefined
}

/** A file the caller referred to by URL, fetched through the URL policy for providers that require the bytes. */
export type Media = { contentType: string; bytes: Buffer }

/** One validated request on its way to a target. */
export type Call<K extends DirectKind> = {
  target: Target
  body: DirectKinds[K]['request']
  /** The bytes of the received body; null when `body` was changed since. */
  raw: Buffer | null
  /** Output ceiling for this call when the gateway sets one (clamped by cap or funds); wins over the body's own. */
  maxTokens: number | null
  /** The files that `remoteMedia` listed, by URL. */
  media: ReadonlyMap<string, Media>
  /** How reasoning state is carried, and the API key of the call; absent: state is carried neither way. */
  reasoning?: {
    sealer: ReasoningSealer
    credentialId: string | null
    /** Whether state in the request is dropped, because the provider refused it. */
    refused?: boolean
  }
  /** Whether the gateway marks what the provider is to cache, where the caller has marked nothing. */
  marksCache?: boolean
  /** For `messages`: what the client sent beside the body, which its native dialect forwards. */
  forwarded?: Forwarded
  /** Whether native dialects send members of the body's top level that the gateway does not know. */
  passesUnknown?: boolean
}

/**
 * The client's headers of a native dialect, by name, and the query of its path with the question mark; '' = none.
 * `dropped`: the names of headers that are not sent.
 */
export type Forwarded = { headers: Readonly<Record<string, string>>; query: string; dropped?: readonly string[] }

/**
 * How a model is made to answer in JSON: by its native format, by one tool that it has to call, or by its prompt
 * (`profile/emulated-format.ts`).
 */
export type StructuredBy = 'native' | 'tool' | 'prompt'

/**
 * An HTTP request relative to the provider's base URL. The driver, never an adapter, adds the header with the secret.
 */
export type UpstreamRequest = {
  method: 'POST' | 'GET'
  path: string
  headers: Record<string, string>
  body: string | Buffer
  dropped?: readonly string[] // request fields that were omitted, by path without indexes
  adjusted?: readonly string[] // request fields that were changed to what the target accepts
  structuredBy?: StructuredBy | null // how the format of the answer is asked for, where the target has no such format
  cacheMarked?: boolean // whether the gateway added cache marks
  reasoningSent?: boolean // whether the request has reasoning state, which the provider may refuse
  reasoningDropped?: boolean // whether reasoning state was omitted, because another account or model made it
  // Our name of a field that the provider's error names, where the request is in another format than the adapter's.
  fieldOf?: (param: string) => string
  // The whole answer, where the body alone is not it: of a stream in its place, or with counts of the headers. Undefined: the body is it.
  collect?: (text: string, headers: Readonly<Record<string, string | string[] | undefined>>) => unknown
}

/** How one protocol serves one kind. An adapter only translates: no I/O, no clock but `created`, no retries. */
export type DirectAdapter<K extends DirectKind> = {
  /** True when the provider's dialect is our own: responses and events may be relayed as bytes. */
  native: boolean
  /** The upstream request. Throws a GatewayError 400 naming the field when the input cannot be expressed there. */
  request(call: Call<K>): UpstreamRequest
  /**
   * All upstream requests of a call that takes several; `request` then returns the first, and `answer` receives a list
   * of their responses. Absent where every call takes one request.
   */
  requests?(call: Call<K>): UpstreamRequest[]
  /** URLs in the body, as often as it names them, whose bytes must be fetched before `request`, for providers that take no URLs. */
  remoteMedia?(body: DirectKinds[K]['request'], target: Target): string[]
  /** The complete response from parsed JSON. Throws a ProviderError `invalid_response` when it is malformed. */
  answer(json: unknown, call: Call<K>): DirectKinds[K]['answer']
  stream?(call: Call<K>): StreamDecoder<DirectKinds[K]['chunk']>
  /** The usage of a complete response in our shape, where the kind's own shape does not hold all that is billed. */
  usage?(json: unknown, call: Call<K>): Usage | undefined
  /** The request that counts the tokens of a prompt without answering it. */
  countTokens?(call: Call<K>): UpstreamRequest
  /** The tokens in the response to it; `input_tokens` by default. */
  countedTokens?(json: unknown): unknown
}

/** A provider's handle of long-running work, opaque to everything but its adapter. Small, plain JSON, no secrets. */
export type Operation = { [name: string]: string | number | boolean | null }

/** A file of a job, in the forms an adapter may send it in. */
export type Source = {
  contentType: string
  bytes: number
  filename: string
  /** Measured, in seconds; null for images. */
  durationS: number | null
  /** A URL that the provider can fetch for some hours. */
  url(): Promise<string>
  /** A URL if this gateway is reachable from outside, otherwise the bytes as a `data:` URI. For small files. */
  link(): Promise<string>
  base64(): Promise<string>
  /** Reads the bytes from storage, from the start on each call. */
  open(): Promise<Readable>
  /**
   * The same sound as FLAC, for a model whose provider does not take its format; absent where files are not converted. Throws
   * `unsupported_capability` if that is impossible.
   */
  toFlac?(model: ModelRow): Promise<Source>
}

/** One job, or one request for media, on its way to a target. */
export type QueuedCall<K extends WorkKind> = {
  target: Target
  /** The job's own id, sent as the idempotency key or external id where the provider takes one. */
  jobId: string
  /** Counts the starts of the job; one whose outcome is unknown is repeated with the same number. */
  attempt: number
  input: WorkKinds[K]['input']
  /** The references by field, e.g. `start_image_url`, `input_references.0`. */
  sources: ReadonlyMap<string, Source>
  /** Where the provider may report completion; null when it cannot reach this gateway. */
  callbackUrl: string | null
}

export type ProviderRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Relative to the provider's base URL, including the query. */
  path: string
  headers?: Record<string, string>
  /** Sent as JSON. */
  json?: unknown
  /** A form; its files are read from storage while it is sent. */
  parts?: readonly FormPart[]
  /** A body that is a single file. */
  file?: Source
  /** Statuses outside 2xx that are results rather than failures, e.g. 404 of a lookup. */
  allow?: readonly number[]
  /** Aborted once the result is no longer needed. */
  signal?: AbortSignal
  /** First-byte timeout, for calls that do the work before responding. */
  firstByteMs?: number
  /** Maximum response size; 4 MiB by default. */
  maxBytes?: number
}
export type FormPart = { name: string } & ({ value: string } | { file: Source })

/** `json` is null when the body is not JSON. */
export type ProviderAnswer = {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: what a provider sends is checked by its adapter, field by field
  json: any
}

/**
 * The connection to one provider with one of its API keys. `send` throws a ProviderError: the result of
 * `Protocol.failure` for a status outside 2xx, or a connection error. Nothing is retried.
 */
export type ProviderConnection = {
  provider: ProviderRow
  /** Origin and path prefix, without a trailing slash. */
  baseUrl: string
  /** The proxy of its requests; null = none. */
  proxy: string | null
  send(request: ProviderRequest): Promise<ProviderAnswer>
  /**
   * Like `send`, with a streamed response; the stream fails with a ProviderError. The caller destroys a stream that it
   * does not read to the end.
   */
  stream(request: ProviderRequest): Promise<ProviderDownload>
  /**
   * Opens a file at the provider's own origin within 10 minutes; `path` starts at the root and includes the query.
   * Accepts any status. The caller destroys a stream that it does not read to the end.
   */
  open(path: string, signal?: AbortSignal): Promise<ProviderDownload>
}
export type ProviderDownload = {
  status: number
  headers: Record<string, string | string[] | undefined>
  stream: Readable
}

/**
 * The result of one poll of long-running work. `next`: this part is complete and the next one must be started from
 * `operation`.
 */
export type PollReport<K extends WorkKind> =
  | { status: 'pending'; progress: number | null }
  | { status: 'next'; operation: Operation; progress: number }
  | { status: 'completed'; output: WorkKinds[K]['output']; invoice: Invoice }
  | { status: 'failed'; error: ProviderError }

/** How one protocol serves one kind of long-running work. Stateless; no sleeping, no retrying, no clock. */
export type QueuedAdapter<K extends WorkKind> = {
  /** Poll interval: the first delay, and the maximum it backs off to. */
  poll: { firstMs: number; maxMs: number }
  /**
   * Starts the work, or its next part `after` an operation that reported `next`. Throws a ProviderError;
   * `invalid_response` when a 2xx response has no handle: the work may run, so it is never started again.
   */
  start(call: QueuedCall<K>, connection: ProviderConnection, after: Operation | null): Promise<Operation>
  /** Polls the work once. Throws a ProviderError when the poll itself failed, which implies nothing about the work. */
  check(operation: Operation, connection: ProviderConnection): Promise<PollReport<K>>
  /** Requests cancellation; best effort. Absent where the provider has no such endpoint. */
  cancel?(operation: Operation, connection: ProviderConnection): Promise<void>
  /**
   * Finds by `jobId` the work of a start whose response was lost; null = the provider does not have it, and the same id
   * can be sent again without a duplicate effect. Absent where the provider has no such key: then a start is never
   * repeated.
   */
  find?(call: QueuedCall<K>, connection: ProviderConnection): Promise<Operation | null>
}

/**
 * One synchronous media request; `signal` is aborted once the result is no longer needed. `onPreview` is for images.
 */
export type SyncCall<K extends SyncKind> = QueuedCall<K> & { signal: AbortSignal; onPreview?: OnPreview }

/** How one protocol serves one kind of synchronous media. Throws 400 naming a field, and ProviderErrors. */
export type SyncAdapter<K extends SyncKind> = (
  | { make(call: SyncCall<K>, connection: ProviderConnection): Promise<WorkKinds[K]['output']> }
  | QueuedAdapter<K>
) & {
  /** Maximum number of pieces (`n`) per call; more pieces take more calls. Unlimited if absent. */
  maxPieces?(target: Target): number
}

/** A request received at a job's callback URL. */
export type ProviderCallback = {
  headers: Record<string, string | string[] | undefined>
  raw: Buffer
  nowMs: number
  /** `<PROVIDER>_WEBHOOK_SECRET`. */
  secret: string | null
  connection: ProviderConnection
  /** Caches verification keys for some hours, by name. */
  remember(name: string, load: () => Promise<string>): Promise<string>
}

/** A provider's avatars and voices for talking avatars. */
export type AvatarCatalog = {
  avatars(query: CatalogQuery, connection: ProviderConnection): Promise<CatalogPage<Avatar>>
  voices(query: CatalogQuery, connection: ProviderConnection): Promise<CatalogPage<Voice>>
}

/** The result of one request of a provider batch: its complete response, or why there is none. */
export type BatchAnswer = { id: string } & ({ json: unknown } | { error: ProviderError })

/** The result of one poll of a provider batch. Once it is `isOver`, every request that was run has a result. */
type BatchReport = { isOver: boolean; completed: number; failed: number }

/**
 * How one protocol runs a file of requests for one model as a provider batch, at the provider's pace and price.
 * Stateless.
 */
export type BatchAdapter = {
  /** The limits of one batch. */
  max: { requests: number; bytes: number }
  /** How the request file is assembled around its entries. */
  file: { contentType: string; before: string; between: string; after: string }
  /**
   * The text of one request; its result refers to it by `id`. Throws a GatewayError 400 when it cannot be expressed
   * there.
   */
  entry<K extends DirectKind>(kind: K, id: string, call: Call<K>): string
  /** Starts a batch from such a file. Throws a ProviderError as a job's `start` does. */
  start(file: Source, about: { kind: DirectKind; batchId: string }, connection: ProviderConnection): Promise<Operation>
  /**
   * Finds the batch of a start whose response was lost; null = there is none. Absent where the provider has no such
   * lookup.
   */
  find?(batchId: string, connection: ProviderConnection): Promise<Operation | null>
  /** Polls the batch once. Throws `invalid_request` without a status when the provider rejected the whole file. */
  check(operation: Operation, connection: ProviderConnection): Promise<BatchReport>
  /** Streams the results of a completed batch, in any order. */
  results(operation: Operation, connection: ProviderConnection): AsyncIterable<BatchAnswer>
  cancel(operation: Operation, connection: ProviderConnection): Promise<void>
}

/** One protocol: the kinds it serves and how it reports errors. */
export type Protocol = {
  direct: { [K in DirectKind]?: DirectAdapter<K> }
  queued?: { [K in QueuedKind]?: QueuedAdapter<K> }
  synchronous?: { [K in SyncKind]?: SyncAdapter<K> }
  /** The session adapter of a deployment; null where the protocol has none for it. */
  realtime?(deployment: Deployment): RealtimeAdapter | null
  /** For providers whose row has the quirk `batches`. */
  batch?: BatchAdapter
  /** The header of a response that states the service tier that it was served at, where its body does not. */
  tierHeader?: string
  /**
   * Verifies a callback's signature; a valid one only triggers the next `check`. Absent: the provider signs none, so
   * none is requested.
   */
  verify?(callback: ProviderCallback): Promise<boolean>
  /** True where `verify` requires `<PROVIDER>_WEBHOOK_SECRET`. */
  verifiesBySecret?: boolean
  /** For providers that report to one URL per account: the job of a report's JSON, as the `jobId` sent to them. */
  callbackJobId?(json: unknown): string | null
  catalog?: AvatarCatalog
  /**
   * For a protocol whose streams are not server-sent events: the sink of a response of `direct` kinds that hands them on as
   * such.
   */
  eventSink?(sink: ResponseSink): ResponseSink
  /**
   * A free GET request that fails without a valid API key. Absent: the provider has none; null: its keys
   * are checked at another part of its cloud.
   */
  credentialCheck?(provider: ProviderRow): { path: string; headers?: Record<string, string> } | null
  /** Classifies a response outside 2xx. `body` holds at most its first 64 kB. */
  failure(status: number, headers: Record<string, string | string[] | undefined>, body: string): ProviderError
}
