import { newId } from '../../../base/ids.ts'
import { unixNow } from '../../../base/time.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk, ChatCompletion, FinishReason, ToolCall } from '../../../kinds/chat.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import type { Call } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { encodeToolCallId } from '../../toolkit/tool-call-id.ts'
import { type AnswerPart, type Generated, type LogprobsResult, readGenerated, type UsageMetadata } from './wire.ts'

type Image = { type: 'image_url'; image_url: { url: string } }
type Pieces = {
  text: string
  reasoning: string
  details: ReasoningDetail[]
  toolCalls: ToolCall[]
  images: Image[]
}

/** OpenRouter's name of the format. */
const format = 'google-gemini-v1'
/** Thoughts are one detail, the signature of the text another. */
const thoughtIndex = 0
const signatureIndex = 1

const filtered = new Set([
  ...['SAFETY', 'RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII'],
  ...['IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'MODEL_ARMOR'],
])

/** Finish reasons of what the model wrote and Gemini could not read, or of one call too many. */
const unusable = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
])

/** Finish reasons of an answer in which a picture was expected (pollinations#4241, gemimg#5, lobehub#9018). */
const withoutImage = new Set(['NO_IMAGE', 'IMAGE_OTHER'])

/** Converts a complete `generateContent` response to a chat completion. Throws a ProviderError `invalid_response`. */
export function chatAnswer(json: unknown, call: Call<'chat'>): ChatCompletion {
  const generated = readGenerated(json)
  const choices = isBlocked(generated) ? blockedChoices(call) : wholeChoices(generated)
  const usage = usageOf(generated.usageMetadata)
  return { ...head(generated, call), object: 'chat.completion', choices, ...(usage && { usage }) }
}

function wholeChoices(generated: Generated): ChatCompletion['choices'] {
  const candidates = generated.candidates ?? []
  if (candidates.length === 0) throw new ProviderError('invalid_response', 'Gemini answered without a candidate')
  return candidates.map((candidate, position) => {
    const { text, reasoning, details, toolCalls, images } = piecesOf(candidate.content?.parts)
    if (candidate.finishReason === undefined) {
      throw new ProviderError('invalid_response', 'Gemini answered with an unfinished candidate')
    }
    const produced = text !== '' || toolCalls.length > 0 || images.length > 0
    return {
      index: candidate.index ?? position,
      message: {
        role: 'assistant',
        content: text || (toolCalls.length > 0 || images.length > 0 ? null : ''),
        ...(reasoning && { reasoning_content: reasoning }),
        ...(details.length > 0 && { reasoning_details: details }),
        ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
        ...(images.length > 0 && { images }),
      },
      ...(candidate.logprobsResult && { logprobs: logprobsOf(candidate.logprobsResult) }),
      finish_reason: finishReason(candidate.finishReason, { produced, called: toolCalls.length > 0 }),
    }
  })
}

/** A blocked prompt has no candidates. */
export function isBlocked({ candidates, promptFeedback }: Generated): boolean {
  return !candidates?.length && promptFeedback?.blockReason !== undefined
}

function blockedChoices({ body }: Call<'chat'>): ChatCompletion['choices'] {
  return Array.from({ length: body.n ?? 1 }, (_, index) => ({
    index,
    message: { role: 'assistant', content: '' },
    finish_reason: 'content_filter',
  }))
}

/** Id, time and model of a response; the id is Gemini's own if it has one. */
export function head(generated: Generated, call: Call<'chat'>): Pick<ChatChunk, 'id' | 'created' | 'model'> {
  const id = generated.responseId || newId('chatcmpl')
  return { id, created: unixNow(), model: call.target.model.id }
}

/** Converts a candidate's parts. */
export function piecesOf(parts: AnswerPart[] = []): Pieces {
  const pieces: Pieces = { text: '', reasoning: '', details: [], toolCalls: [], images: [] }
  for (const { text, thought, thoughtSignature, functionCall, inlineData } of parts) {
    if (text) pieces[thought ? 'reasoning' : 'text'] += text
    // The signature of a call is in its id. That of a text may come with an empty one.
    if (text !== undefined && !thought && thoughtSignature)
      pieces.details.push({ type: 'reasoning.encrypted', data: thoughtSignature, format, index: signatureIndex })
    if (functionCall) {
      const { id, name, args } = functionCall
      if (name === undefined) throw new ProviderError('invalid_response', 'Gemini answered with a call without a name')
      pieces.toolCalls.push({
        id: encodeToolCallId(id, thoughtSignature),
        type: 'function',
        function: { name, arguments: JSON.stringify(args ?? {}) },
      })
    }
    // An image in the thoughts is a draft.
    if (!thought && inlineData?.mimeType.startsWith('image/')) {
      pieces.images.push({
        type: 'image_url',
        image_url: { url: `data:${inlineData.mimeType};base64,${inlineData.data}` },
      })
    }
  }
  const { reasoning: thoughts, details } = pieces
  if (thoughts) details.unshift({ type: 'reasoning.text', text: thoughts, format, index: thoughtIndex })
  return pieces
}

/**
 * OpenAI's equivalent of Gemini's finish reason. Throws a ProviderError `model_fault` for what the model wrote and cannot be used: text alone
 * would be taken for a whole answer, and an agent would stop at “Let me edit the file:” (NousResearch/hermes-agent#83886,
 * google-gemini/gemini-cli#12965). Calls that came before go on: their results lead to the next answer. Other reasons (OTHER, …) end a
 * response like STOP if it has output, and otherwise throw as well.
 */
export function finishReason(reason: string, output: { produced: boolean; called: boolean }): FinishReason {
  if (reason === 'MAX_TOKENS' || reason === 'CONTINUATION') return 'length'
  if (filtered.has(reason) || (withoutImage.has(reason) && !output.produced)) return 'content_filter'
  if (output.called) return 'tool_calls'
  if (unusable.has(reason)) {
    const message = `The model wrote something that cannot be used (${reason}).`
    const code = reason === 'MALFORMED_RESPONSE' ? 'output_parse_failed' : 'tool_use_failed'
    throw new ProviderError('model_fault', message, { modelFault: { code, generation: null } })
  }
  if (reason !== 'STOP' && !output.produced)
    throw new ProviderError('invalid_response', `Gemini gave nothing and finished with ${reason}`)
  return 'stop'
}

/**
 * Gemini counts thoughts separately, OpenAI as part of the completion. Undefined when nothing was counted: Vertex AI sometimes states the
 * traffic type alone (neuron-core/neuron-ai#443).
 */
export function usageOf(metadata: UsageMetadata | undefined): Usage | undefined {
  if (!metadata || counters.every(name => metadata[name] === undefined)) return undefined
  const prompt_tokens = (metadata.promptTokenCount ?? 0) + (metadata.toolUsePromptTokenCount ?? 0)
  const completion_tokens = completionTokens(metadata, prompt_tokens)
  const { promptTokensDetails, cacheTokensDetails, candidatesTokensDetails } = metadata
  const promptDetails = positive(prompt_tokens, {
    cached_tokens: metadata.cachedContentTokenCount,
    audio_tokens: tokensOf('AUDIO', promptTokensDetails),
    cached_audio_tokens: tokensOf('AUDIO', cacheTokensDetails),
    image_tokens: tokensOf('IMAGE', promptTokensDetails),
  })
  const completionDetails = positive(completion_tokens, {
    reasoning_tokens: metadata.thoughtsTokenCount,
    audio_tokens: tokensOf('AUDIO', candidatesTokensDetails),
    image_tokens: tokensOf('IMAGE', candidatesTokensDetails),
  })
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    ...(promptDetails && { prompt_tokens_details: promptDetails }),
    ...(completionDetails && { completion_tokens_details: completionDetails }),
  }
}

const counters = ['promptTokenCount', 'candidatesTokenCount', 'thoughtsTokenCount', 'totalTokenCount'] as const

/** The tokens of an answer; of one whose own count is absent (vercel/ai#17612), what the total has beside the prompt. */
function completionTokens(metadata: UsageMetadata, promptTokens: number): number {
  const { candidatesTokenCount: visible, thoughtsTokenCount: thoughts = 0, totalTokenCount: total = 0 } = metadata
  return visible === undefined ? Math.max(thoughts, total - promptTokens) : visible + thoughts
}

function tokensOf(modality: string, details: UsageMetadata['promptTokensDetails']): number {
  return (details ?? []).reduce((sum, detail) => sum + (detail.modality === modality ? (detail.tokenCount ?? 0) : 0), 0)
}

/** The counts above zero, each capped at the whole; undefined when there are none. */
function positive(whole: number, counts: Record<string, number | undefined>): Record<string, number> | undefined {
  let positiveCounts: Record<string, number> | undefined
  for (const name of Object.keys(counts)) {
    const count = Math.min(whole, counts[name] ?? 0)
    if (count > 0) positiveCounts = { ...positiveCounts, [name]: count }
  }
  return positiveCounts
}

type TokenLogprob = { token: string; logProbability: number }

/** Log probabilities in OpenAI's format. */
export function logprobsOf({ chosenCandidates, topCandidates }: LogprobsResult) {
  const entry = ({ token, logProbability }: TokenLogprob) => ({
    token,
    logprob: logProbability,
    bytes: [...Buffer.from(token)],
  })
  const content = (chosenCandidates ?? []).map((chosen, position) => ({
    ...entry(chosen),
    top_logprobs: (topCandidates?.[position]?.candidates ?? []).map(entry),
  }))
  return { content, refusal: null }
}
