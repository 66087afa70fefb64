import { hasFunctions } from '../kinds/chat.ts'
import type { OpenAiKind } from '../kinds/index.ts'
import { requestFormats } from '../routing/request-formats.ts'
import { billChoices } from './bill.ts'
import type { ChatFormat, StreamInfo } from './chat-format.ts'
import { relayFor } from './choices-relay.ts'
import { inlineChatDocuments, measureChat } from './measure-request.ts'
import { type ChunkHead, errorEvent } from './stream-relay.ts'
import { countChat, countInputs } from './tokens.ts'

/** What the formats of OpenAI's older endpoints have in common. `object`: the type of the chunks of a stream. */
function commonFormat(object: 'chat.completion.chunk' | 'text_completion') {
  const headOf = ({ id, created, model }: StreamInfo<OpenAiKind>): ChunkHead => ({ id, object, created, model })
  return {
    keepAliveFrame: ': keep-alive\n\n',
    events: { areNamed: false, lineEnd: '\n' },
    passesRefusals: false,
    countsPromptFirst: false,
    createRelay: (streaming, info) => relayFor(streaming, headOf(info), info),
    inOwnTerms: failure => failure,
    failureEvent: (info, failure) => errorEvent(headOf(info), failure),
  } satisfies Partial<ChatFormat<OpenAiKind>>
}

/** Chat completions. */
export const chatFormat: ChatFormat<'chat'> = {
  ...requestFormats.chat,
  ...commonFormat('chat.completion.chunk'),
  idPrefix: 'chatcmpl',
  operation: 'chat',
  marksCache: true,
  countsOutput: true,
  batchObstacle: body => (hasFunctions(body) ? 'has functions, not tools' : null),
  measure: measureChat,
  inlineDocuments: inlineChatDocuments,
  countPrompt: countChat,
  billAnswer: billChoices,
}

/** Completions of a text. */
export const completionFormat: ChatFormat<'completion'> = {
  ...requestFormats.completion,
  ...commonFormat('text_completion'),
  idPrefix: 'cmpl',
  operation: 'text_completion',
  marksCache: false,
  countsOutput: true,
  countPrompt: ({ prompt }) => countInputs(prompt),
  billAnswer: billChoices,
}

/** Embeddings, which are never streamed. */
export const embeddingFormat: ChatFormat<'embedding'> = {
  ...requestFormats.embedding,
  ...commonFormat('chat.completion.chunk'),
  idPrefix: 'emb',
  operation: 'embeddings',
  marksCache: false,
  countsOutput: false,
  countPrompt: ({ input }) => countInputs(input),
  billAnswer: billChoices,
}
