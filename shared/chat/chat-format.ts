import type { GatewayError } from '../base/errors.ts'
import type { IdPrefix } from '../base/ids.ts'
import type { ShownUsage, Usage } from '../base/usage.ts'
import type { RunServices } from '../engine/base-run.ts'
import type { Bill } from '../engine/report.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { SlotOwner } from '../io/fair-slots.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { ResponsesObject, ResponsesOutputItem } from '../kinds/responses-answer.ts'
import type { Call, DirectAdapter, Forwarded, Target } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'
import type { RequestFormat } from '../routing/request-formats.ts'
import type { RemoteFiles } from './remote-files.ts'
import type { ChatRunInput } from './run-input.ts'
import type { AnswerRelay } from './stream-relay.ts'
import type { PromptUsage } from './tokens.ts'

/** What the format of a streamed answer depends on; `model` is our own name. */
export type StreamInfo<K extends DirectKind> = {
  id: string
  created: number
  model: string
  /** Requested number of choices, and whether the usage comes in a separate chunk. */
  choices: number
  includeUsage: boolean
  requestId: string
  request: DirectKinds[K]['request']
  /** Whether a call is billed as its answer states: see `isBilledAsStated`. */
  isBilled(stated: Usage | null | undefined, written: unknown, billed?: ShownUsage): boolean
  /** Fields of a response that replace those of the provider. */
  fields?: Partial<ResponsesObject>
  /** The item of a response before those of the provider. */
  leading?: ResponsesOutputItem
}

/** A complete answer of a provider. */
export type ProviderAnswer<K extends DirectKind> = {
  adapter: DirectAdapter<K>
  call: Call<K>
  /** The provider's response body. */
  json: unknown
  /** The answer's id, unless the provider's dialect has its own. */
  id: string
}

/**
 * Target and margin of a call, and the features that bound its usage; without them, it is bounded by what no request
 * uses. `free` for test keys.
 */
export type Billing = {
  target: Target
  features?: Features
  marginPpm: bigint
  free: boolean
  /** The service tier that the headers of the answer state. */
  statedTier?: Usage['service_tier'] | undefined
}

/** The bill of a complete answer, the answer as its client sees it, and the provider's name of the model. */
export type BilledAnswer = { billed: Bill; shown: object; upstreamModel: string | null }

/**
 * One dialect of the API: everything in which a run, a delayed job or a line of a batch differs by the format of its request.
 * Each dialect has one object (`chat-formats.ts`). Which adapter serves a kind is in `shared/providers/upstreams.ts`; what only
 * some requests load are tables by kind beside their use: `structured-answers.ts`, `shared/guardrails/stream-texts.ts`.
 */
export type ChatFormat<K extends DirectKind> = RequestFormat<K> & {
  /** Prefix of the ids of answers. */
  readonly idPrefix: IdPrefix
  /** The name of the operation in OpenTelemetry's conventions, for traces. */
  readonly operation: string
  /** What a stream sends while its provider is silent. */
  readonly keepAliveFrame: string
  /** How its streams are written: whether each event has its type as a name, and how lines end. */
  readonly events: { areNamed: boolean; lineEnd: '\n' | '\r\n' }
  /** The stream that a request asks for if it is none of server-sent events; null or absent otherwise. */
  streamOf?(body: DirectKinds[K]['request']): { contentType: string; keepAliveFrame: string } | null
  /** Whether the gateway may mark what providers are to cache; otherwise the client does. */
  readonly marksCache: boolean
  /** Whether clients act on the exact wording of a provider's own refusal, which is passed on unchanged. */
  readonly passesRefusals: boolean
  /** Whether an answer has output tokens. */
  readonly countsOutput: boolean
  /** Whether a stream begins with the provider's count of the prompt, which holds even if the stream breaks off. */
  readonly countsPromptFirst: boolean

  /**
   * What precedes the run of some requests: returns the request as it is run then, null for most. `run` runs another request
   * for it, which is reserved, charged and logged by itself.
   */
  prepare?(
    services: RunServices,
    input: ChatRunInput<K>,
    client: ResponseWriter,
    run: (services: RunServices, input: ChatRunInput<K>, client: ResponseWriter) => Promise<unknown>,
  ): Promise<ChatRunInput<K>> | null
  /** Notes the members of a request, and the headers of its client, that the gateway does not know. */
  noteUnknown?(body: DirectKinds[K]['request'], forwarded?: Forwarded): void
  /** Refuses what needs stored responses, where none are. `at` precedes the names of fields. Throws a GatewayError. */
  refuseStored?(body: DirectKinds[K]['request'], at: string): void
  /** What in a request keeps a provider's own batch API from running it; null if nothing does. */
  batchObstacle?(body: DirectKinds[K]['request']): string | null

  /** Measures the audio and the documents inside a request, so that its `features` reflect their cost. `owner`: the organisation. */
  measure?(body: DirectKinds[K]['request'], features: Features, owner: SlotOwner): Promise<void>
  /** Fetches the documents behind URLs, and returns the request with them inlined: the provider receives what was measured. */
  inlineDocuments?(remoteFiles: RemoteFiles, body: DirectKinds[K]['request']): Promise<DirectKinds[K]['request']>
  /** Counts the prompt tokens of a request, for providers that report no usage. */
  countPrompt(body: DirectKinds[K]['request']): Promise<PromptUsage>

  /**
   * Converts a provider's complete answer to the client's format and bills it; unchanged choices and vectors are the same
   * lists as in `json`. Throws a ProviderError `invalid_response` for a malformed answer.
   */
  billAnswer(answer: ProviderAnswer<K>, terms: Omit<Billing, 'target'>): Promise<BilledAnswer>
  /** Creates the relay of one streaming call; `requests`: those of the call. */
  createRelay(
    streaming: { adapter: DirectAdapter<K>; call: Call<K>; requests: readonly unknown[] },
    info: StreamInfo<K>,
  ): AnswerRelay

  /** The error with the name that its field has in this dialect. */
  inOwnTerms(failure: GatewayError): GatewayError
  /** The event that ends a stream that failed before its relay wrote anything. */
  failureEvent(info: StreamInfo<K>, failure: GatewayError): string
}
