import { isObject } from '../../../base/is-object.ts'
import type { ChatCompletion, FinishReason } from '../../../kinds/chat.ts'
import {
  type GeminiAnswer,
  type GeminiAnswerPart,
  type GeminiCandidate,
  geminiUsage,
} from '../../../kinds/generate-content.ts'
import { argumentsObject } from '../call-arguments.ts'
import { readDataUri } from '../data-uri.ts'
import { citationsOf } from '../over-chat/citations.ts'
import { signatureOf } from './reasoning-state.ts'

type Choice = ChatCompletion['choices'][number]

/** Translates a complete chat answer. `showsThoughts`: whether the request asked for the thoughts. */
export function toGeminiAnswer(answer: ChatCompletion, showsThoughts: boolean): GeminiAnswer {
  return {
    candidates: answer.choices.map(choice => candidateOf(choice, answer.id, showsThoughts)),
    ...(answer.usage && { usageMetadata: geminiUsage(answer.usage) }),
    modelVersion: answer.model,
    responseId: answer.id,
  }
}

function candidateOf(choice: Choice, answerId: string, showsThoughts: boolean): GeminiCandidate {
  const { message, index, finish_reason, logprobs } = choice
  const { content, refusal, images, tool_calls: calls, reasoning_content, reasoning_details } = message
  const text = (content ?? '') + (refusal ?? '')
  // Servers write null where there are none.
  const details = reasoning_details ?? []
  const thoughts = reasoning_content ?? details.map(detail => detail.text ?? '').join('')
  const signature = calls?.length ? signatureOf({ text: thoughts, details }) : undefined
  const parts: GeminiAnswerPart[] = [
    ...(showsThoughts && thoughts !== '' ? [{ text: thoughts, thought: true as const }] : []),
    ...(text === '' ? [] : [{ text }]),
    ...(images ?? []).flatMap(imagePart),
    ...(calls ?? []).map((call, position) => {
      const { name, arguments: args } = call.function
      return callPart({ id: call.id, name, args }, position === 0 ? signature : undefined, `${answerId}_${position}`)
    }),
  ]
  return {
    index,
    // Clients refuse a content without parts.
    content: { role: 'model', parts: parts.length > 0 ? parts : [{ text: '' }] },
    finishReason: finishReasonOf(finish_reason, refusal ?? ''),
    ...logprobsOf(logprobs),
    ...groundingOf(
      message.annotations,
      text,
      parts.findIndex(part => part.text === text && !part.thought),
    ),
  }
}

/** A part of an image in an answer; none for one that is behind a URL. */
export function imagePart({ image_url }: { image_url: { url: string } }): GeminiAnswerPart[] {
  const image = readDataUri(image_url.url)
  return image ? [{ inlineData: { mimeType: image.mediaType, data: image.data } }] : []
}

/** The part of a call. Arguments that are no JSON object are handed on as text, so that the client's own check refuses the call. */
export function callPart(
  call: { id: string; name: string; args: string },
  thoughtSignature: string | undefined,
  fallbackId: string,
): GeminiAnswerPart {
  const id = call.id || `call_${fallbackId.replace(/\W/g, '_')}`
  return {
    functionCall: { id, name: call.name, args: argumentsObject(call.args) },
    ...(thoughtSignature !== undefined && { thoughtSignature }),
  }
}

/** Google has no reason for calls; a refusal is what its filters are. */
export function finishReasonOf(reason: FinishReason, refusal: string): string {
  if (refusal !== '' || reason === 'content_filter') return 'SAFETY'
  if (reason === 'length') return 'MAX_TOKENS'
  return reason === 'error' ? 'OTHER' : 'STOP'
}

/** The citations of a text in Google's form. `partIndex`: where the text is. */
export function groundingOf(
  annotations: unknown,
  text: string,
  partIndex = 0,
): Pick<GeminiCandidate, 'groundingMetadata'> {
  const citations = text === '' ? [] : citationsOf(annotations)
  if (citations.length === 0) return {}
  const indexOf = new Map<string, number>()
  const groundingChunks: { web: { uri: string; title: string } }[] = []
  const groundingSupports = citations.map(({ start, end, url, title }) => {
    const index = indexOf.get(url) ?? groundingChunks.push({ web: { uri: url, title } }) - 1
    indexOf.set(url, index)
    const startIndex = Buffer.byteLength(text.slice(0, start))
    const cited = text.slice(start, end)
    const segment = { startIndex, endIndex: startIndex + Buffer.byteLength(cited), text: cited }
    return { segment: { ...(partIndex > 0 && { partIndex }), ...segment }, groundingChunkIndices: [index] }
  })
  return { groundingMetadata: { groundingChunks, groundingSupports } }
}

type Entry = { token: string; logprob: number; top_logprobs?: readonly { token: string; logprob: number }[] | null }
const tokenOf = ({ token, logprob }: Entry) => ({ token, logProbability: logprob })

/** Log probabilities in Google's form. */
export function logprobsOf(logprobs: unknown): Pick<GeminiCandidate, 'logprobsResult'> {
  const content = isObject(logprobs) ? logprobs.content : null
  if (!Array.isArray(content) || content.length === 0) return {}
  const entries = content as Entry[]
  return {
    logprobsResult: {
      chosenCandidates: entries.map(tokenOf),
      topCandidates: entries.map(({ top_logprobs }) => ({ candidates: (top_logprobs ?? []).map(tokenOf) })),
    },
  }
}
