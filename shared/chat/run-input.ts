import type { RunServices } from '../engine/base-run.ts'
import type { CallerTimeouts } from '../engine/caller-timeouts.ts'
import type { BulkContext } from '../engine/failover.ts'
import type { Report, RequestLabels } from '../engine/report.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { Guardrails } from '../keys/guardrails.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { ResponsesObject, ResponsesOutputItem } from '../kinds/responses-answer.ts'
import type { Forwarded } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'
import type { StructuredCheck } from './structured-answers.ts'

/** Stores the response of a run, before its client receives the end of it. */
export type ResponseStorage = {
  /** Fields of the response that the client sees in place of the provider's. */
  readonly fields: Partial<ResponsesObject>
  /** Stores a response that has ended, and returns it as the client is to see it. Never rejects. */
  store(response: ResponsesObject): Promise<ResponsesObject>
}

/** One validated request for an answer. */
export type ChatRunInput<K extends DirectKind> = {
  kind: K
  key: ResolvedKey
  body: DirectKinds[K]['request']
  /** The bytes of the body, which may be sent on; null: there are none, or they are not needed any more. */
  raw: Buffer | null
  /** Called once the bytes of the body are not sent again; absent where others than this run have them. */
  releaseRaw?: (() => void) | undefined
  features: Features
  requestId: string
  /** The caller's name of the conversation; its requests go to the same target. */
  session: string | null
  /** Whether nothing but the gateway has named that conversation, which may have this request only. */
  begins?: boolean
  /** Whether the gateway may mark what providers are to cache; absent: it does not. */
  marksCache?: boolean
  /** What the request is attributed to in the request log. */
  labels?: RequestLabels | null
  /** Absent: those of the gateway alone. */
  timeouts?: CallerTimeouts | null
  /** What a header asks for of an answer in JSON; absent: nothing. */
  structuredCheck?: StructuredCheck | null
  stream: boolean
  includeUsage: boolean
  /** For `messages`: what the client sent beside the body. */
  forwarded?: Forwarded
  /** For `responses` that are stored, or that continue a stored one. */
  storage?: ResponseStorage
  /** For `responses` whose complete answer is shown in another form. */
  present?(response: ResponsesObject): object
  /** For `responses`: the item before those of the answer. */
  leading?: ResponsesOutputItem
  /** Context of delayed work; null for interactive requests. */
  bulk: BulkContext | null
  /** The guardrails that its texts have been checked for; absent: they have not. */
  guardrails?: Guardrails
}

/** The key's confirmed policy has other guardrails than those that the request was checked for. */
export class GuardrailsChanged extends Error {}

/** Runs a request whose texts are checked, or need not be. */
export type Serve<K extends DirectKind> = (
  services: RunServices,
  input: ChatRunInput<K>,
  client: ResponseWriter,
) => Promise<Report>
