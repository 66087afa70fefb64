import { inGeminiTerms } from '../engine/google-error.ts'
import { chatFinishReason, geminiUsage, recordParts } from '../kinds/generate-content.ts'
import { noteUnknownMembers } from '../kinds/request-members.ts'
import { requestFormats } from '../routing/request-formats.ts'
import { bill, isBilledAsStated, understood } from './bill.ts'
import type { BilledAnswer, Billing, ChatFormat, ProviderAnswer } from './chat-format.ts'
import { failedGenerateContent, generateContentRelayFor } from './generate-content-relay.ts'
import { inlineGenerateContent, measureGenerateContent } from './measure-request.ts'
import { countGenerateContent } from './tokens.ts'

/** Google's `generateContent`. */
export const generateContentFormat: ChatFormat<'generate_content'> = {
  ...requestFormats.generate_content,
  idPrefix: 'gen',
  operation: 'generate_content',
  keepAliveFrame: ': keep-alive\n\n',
  events: { areNamed: false, lineEnd: '\r\n' },
  streamOf: ({ alt }) =>
    alt === 'sse' ? null : { contentType: 'application/json; charset=utf-8', keepAliveFrame: '\n' },
  marksCache: true,
  passesRefusals: false,
  countsOutput: true,
  countsPromptFirst: false,
  noteUnknown: body => noteUnknownMembers('generate_content', body),
  measure: measureGenerateContent,
  inlineDocuments: inlineGenerateContent,
  countPrompt: countGenerateContent,
  billAnswer,
  createRelay: generateContentRelayFor,
  inOwnTerms: inGeminiTerms,
  failureEvent: failedGenerateContent,
}

/**
 * Bills a complete answer: a native one is shown as it was received, a translated one with our id and name of the model, either
 * with the usage that is billed.
 */
async function billAnswer(
  { adapter, call, json, id }: ProviderAnswer<'generate_content'>,
  terms: Omit<Billing, 'target'>,
): Promise<BilledAnswer> {
  const { target, body } = call
  const { answer, usage, texts, images, finish_reason } = understood(() => {
    const answer = adapter.answer(json, call)
    const texts: string[] = []
    const images: object[] = []
    const { hasCalls } = recordParts(answer, {
      text: text => texts.push(text),
      image: url => images.push({ image_url: { url } }),
    })
    return {
      answer,
      usage: adapter.usage!(json, call),
      texts,
      images,
      finish_reason: chatFinishReason(answer, hasCalls),
    }
  })
  const message = { content: texts.join(''), ...(images.length > 0 && { images }) }
  const upstreamId = adapter.native ? (answer.responseId ?? null) : null
  const finished = { format: generateContentFormat, body, lostImages: 0, upstreamId }
  const choices = [{ finish_reason, message }]
  const billing = { target, ...terms }
  const billed = await bill(billing, { ...finished, answer: { usage, choices } })
  const isBilled = isBilledAsStated(usage, answer.usageMetadata, billing, billed.usage)
  const stated = isBilled ? answer : { ...answer, usageMetadata: geminiUsage(billed.usage) }
  const shown = adapter.native ? stated : { ...stated, modelVersion: target.model.id, responseId: id }
  return { billed, shown, upstreamModel: answer.modelVersion ?? null }
}
