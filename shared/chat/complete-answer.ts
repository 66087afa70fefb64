import type { Bill } from '../engine/report.ts'
import type { DirectKind } from '../kinds/index.ts'
import { messageTexts } from '../kinds/messages.ts'
import { finishReasonOf, usageOfMessages } from '../kinds/messages-usage.ts'
import { finishReasonOfResponse, itemTexts, usageOfResponses } from '../kinds/responses-usage.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { dropUndecodableImages, hasImages } from './answer-images.ts'
import { type Billing, bill } from './bill.ts'

type ProviderAnswer<K extends DirectKind> = {
  kind: K
  adapter: DirectAdapter<K>
  call: Call<K>
  /** The provider's response body. */
  json: unknown
  /** The answer's id, unless the provider's dialect has its own. */
  id: string
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

/**
 * Converts a provider's complete answer to the client's format and bills it; unchanged choices and vectors are the same
 * lists as in `json`. Throws a ProviderError `invalid_response` for a malformed answer.
 */
export async function billAnswer<K extends DirectKind>(
  { kind, adapter, call, json, id }: ProviderAnswer<K>,
  terms: Omit<Billing, 'target'>,
): Promise<{ billed: Bill; shown: object; upstreamModel: string | null }> {
  const { target, body } = call
  if (kind === 'messages')
    return billMessage({ kind, adapter, call, json, id } as unknown as ProviderAnswer<'messages'>, terms)
  if (kind === 'responses')
    return billResponse({ kind, adapter, call, json, id } as unknown as ProviderAnswer<'responses'>, terms)
  // The adapter's result is a new object for this call, except below its first level.
  const answer = understood(() => adapter.answer(json, call)) as AnswerFields
  const lostImages = hasImages(answer) ? await dropUndecodableImages(answer) : 0
  // A modified list must not be copied from the received text.
  if (lostImages > 0) answer.choices = [...(answer.choices as unknown[])]
  const upstreamId = answer.id ?? null
  const billing = bill({ target, ...terms }, { kind, body, answer, lostImages, upstreamId })
  const billed = billing instanceof Promise ? await billing : billing
  const upstreamModel = answer.model || null
  if (!adapter.native && 'id' in answer) answer.id = id
  answer.model = target.model.id
  if (kind !== 'embedding') answer.system_fingerprint ??= null
  answer.provider = target.provider.name
  answer.usage = billed.shownUsage
  return { billed, shown: answer, upstreamModel }
}

/** What `read` returns. If it fails on an unexpected form, the answer is malformed. */
function understood<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new ProviderError('invalid_response', 'The provider’s answer is not understood.', { cause: error })
  }
}

/** The same for a Message: a native one is shown as it was received. */
async function billMessage(
  { kind, adapter, call, json, id }: ProviderAnswer<'messages'>,
  terms: Omit<Billing, 'target'>,
): Promise<{ billed: Bill; shown: object; upstreamModel: string | null }> {
  const { target, body } = call
  const message = understood(() => adapter.answer(json, call))
  // A translated answer states zero where its provider stated nothing.
  const usage = adapter.usage ? adapter.usage(json, call) : usageOfMessages(message.usage ?? {})
  const content = messageTexts(message.content).join('')
  const finish_reason = message.stop_reason && finishReasonOf(message.stop_reason)
  const answer = { usage, choices: [{ finish_reason, message: { content } }] }
  const upstreamId = adapter.native ? message.id : null
  const billed = await bill({ target, ...terms }, { kind, body, answer, lostImages: 0, upstreamId })
  const upstreamModel = message.model || null
  return { billed, shown: adapter.native ? message : { ...message, id, model: target.model.id }, upstreamModel }
}

/** The same for a response. */
async function billResponse(
  { kind, adapter, call, json, id }: ProviderAnswer<'responses'>,
  terms: Omit<Billing, 'target'>,
): Promise<{ billed: Bill; shown: object; upstreamModel: string | null }> {
  const { target, body } = call
  const response = understood(() => adapter.answer(json, call))
  const { incomplete_details, output = [] } = response
  const usage = adapter.usage ? adapter.usage(json, call) : usageOfResponses(response.usage)
  const content = output.flatMap(itemTexts).join('')
  const finish_reason = finishReasonOfResponse({ incomplete_details, output })
  const answer = { usage, choices: [{ finish_reason, message: { content } }] }
  const upstreamId = adapter.native ? response.id : null
  const billed = await bill({ target, ...terms }, { kind, body, answer, lostImages: 0, upstreamId })
  const upstreamModel = response.model || null
  return { billed, shown: adapter.native ? response : { ...response, id, model: target.model.id }, upstreamModel }
}
