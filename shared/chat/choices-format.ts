import { hasFunctions } from '../kinds/chat.ts'
import type { OpenAiKind } from '../kinds/index.ts'
import { requestFormats } from '../routing/request-formats.ts'
import { bill, understood } from './bill.ts'
import type { BilledAnswer, Billing, ChatFormat, ProviderAnswer, StreamInfo } from './chat-format.ts'
import { relayFor } from './choices-relay.ts'
import { dropUndecodableImages, hasImages } from './delivered-output.ts'
import { inlineChatDocuments, measureChat } from './measure-request.ts'
import { type ChunkHead, errorEvent } from './stream-relay.ts'
import { countChat, countInputs } from './tokens.ts'

/** What the formats of OpenAI's older endpoints have in common. `object`: the type of the chunks of a stream. */
function commonFormat(object: 'chat.completion.chunk' | 'text_completion') {
  const headOf = ({ id, created, model }: StreamInfo<OpenAiKind>): ChunkHead => ({ id, object, created, model })
  return {
    keepAliveFrame: ': keep-alive\n\n',
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
  billAnswer: (answer, terms) => billChoices(chatFormat, answer, terms),
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
  billAnswer: (answer, terms) => billChoices(completionFormat, answer, terms),
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
  billAnswer: (answer, terms) => billChoices(embeddingFormat, answer, terms),
}

type AnswerFields = {
  id?: string
  model: string
  system_fingerprint?: unknown
  usage?: unknown
  provider?: string
  choices?: unknown
  data?: unknown
}

/** Bills a complete answer with choices or vectors, and shows it with our id, our name of the model and our usage. */
async function billChoices<K extends OpenAiKind>(
  format: ChatFormat<K>,
  { adapter, call, json, id }: ProviderAnswer<K>,
  terms: Omit<Billing, 'target'>,
): Promise<BilledAnswer> {
  const { target, body } = call
  // The adapter's result is a new object for this call, except below its first level.
  const answer: AnswerFields = understood(() => adapter.answer(json, call))
  const lostImages = hasImages(answer) ? await dropUndecodableImages(answer) : 0
  // A modified list must not be copied from the received text.
  if (lostImages > 0) answer.choices = [...(answer.choices as unknown[])]
  const upstreamId = answer.id ?? null
  const billing = bill({ target, ...terms }, { format, body, answer, lostImages, upstreamId })
  const billed = billing instanceof Promise ? await billing : billing
  const upstreamModel = answer.model || null
  if (!adapter.native && 'id' in answer) answer.id = id
  answer.model = target.model.id
  if (format.countsOutput) answer.system_fingerprint ??= null
  answer.provider = target.provider.name
  answer.usage = billed.shownUsage
  return { billed, shown: answer, upstreamModel }
}
