import type { GatewayError } from '../base/errors.ts'
import { messagesErrorEvent } from '../engine/messages-error.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import { messagesRelayFor } from './messages-relay.ts'
import { failedStream, type ResponseInfo, responsesRelayFor } from './responses-relay.ts'
import type { ChatRunInput } from './run-input.ts'
import { type AnswerRelay, type ChunkHead, errorEvent } from './stream-relay.ts'
import { relayFor } from './stream-relays.ts'

/** What the format of a streamed answer depends on; `model` is our own name. */
export type StreamInfo = {
  kind: DirectKind
  id: string
  created: number
  model: string
  /** Requested number of choices, and whether the usage comes in a separate chunk. */
  choices: number
  includeUsage: boolean
  requestId: string
  request: DirectKinds[DirectKind]['request']
  /** Fields of a response that replace those of the provider. */
  fields?: Partial<ResponsesObject>
}

/** What the format of an answer to a request depends on. */
export function streamInfo<K extends DirectKind>(
  { kind, features, includeUsage, requestId, body: request, storage }: ChatRunInput<K>,
  identity: Pick<StreamInfo, 'id' | 'created' | 'model'>,
): StreamInfo {
  const { choices } = features
  return { kind, ...identity, choices, includeUsage, requestId, request, ...(storage && { fields: storage.fields }) }
}

const comment = ': keep-alive\n\n'

/** What a stream sends while its provider is silent. */
export const keepAliveFrames: Record<DirectKind, string> = {
  chat: comment,
  completion: comment,
  embedding: comment,
  messages: 'event: ping\ndata: {"type": "ping"}\n\n',
  responses: comment,
}

/** Creates the relay of one streaming call, in the format of its kind. */
export function createRelay<K extends DirectKind>(
  streaming: { adapter: DirectAdapter<K>; call: Call<K>; requests: readonly unknown[] },
  info: StreamInfo,
): AnswerRelay {
  if (info.kind === 'messages')
    return messagesRelayFor(streaming as unknown as Parameters<typeof messagesRelayFor>[0], info)
  if (info.kind === 'responses')
    return responsesRelayFor(streaming as unknown as Parameters<typeof responsesRelayFor>[0], asResponse(info))
  return relayFor(streaming, headOf(info), info)
}

/** The event that ends a stream that failed before its relay wrote anything. */
export function failureEvent(info: StreamInfo, failure: GatewayError): string {
  if (info.kind === 'responses') return failedStream(asResponse(info), failure)
  return info.kind === 'messages' ? messagesErrorEvent(failure, info.requestId) : errorEvent(headOf(info), failure)
}

function asResponse({ id, model, created, request, fields }: StreamInfo): ResponseInfo {
  return { id, model, created, request: request as ResponsesRequest, ...(fields && { fields }) }
}

function headOf({ kind, id, created, model }: StreamInfo): ChunkHead {
  return { id, object: kind === 'completion' ? 'text_completion' : 'chat.completion.chunk', created, model }
}
