import { z } from 'zod'
import { isRawNumber } from '../../../base/exact-numbers.ts'
import { isObject } from '../../../base/is-object.ts'
import { ProviderError } from '../../provider-error.ts'
import { failure } from './failure.ts'

/** The parts of Gemini's responses and stream events that are read; the rest is ignored. */

const part = z.object({
  text: z.string().optional(),
  thought: z.boolean().optional(),
  thoughtSignature: z.string().optional(),
  inlineData: z.object({ mimeType: z.string(), data: z.string() }).optional(),
  functionCall: z
    .object({
      id: z.string().optional(),
      // Only the first part of a call that is streamed in parts has it (`FunctionCall.willContinue` of @google/genai).
      name: z.string().optional(),
      args: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
})
export type AnswerPart = z.infer<typeof part>

const tokenLogprob = z.object({ token: z.string(), logProbability: z.number() })
const logprobsResult = z.object({
  chosenCandidates: z.array(tokenLogprob).optional(),
  topCandidates: z.array(z.object({ candidates: z.array(tokenLogprob).optional() })).optional(),
})
export type LogprobsResult = z.infer<typeof logprobsResult>

const candidate = z.object({
  index: z.int().min(0).optional(),
  content: z.object({ parts: z.array(part).optional() }).optional(),
  finishReason: z.string().optional(),
  /** Why, in words for the person who asked. */
  finishMessage: z.string().optional(),
  logprobsResult: logprobsResult.optional(),
})
export type Candidate = z.infer<typeof candidate>

/** What is no number makes the usage unusable, so that the gateway counts; the answer itself stands. */
const count = z.number().optional().catch(Number.NaN)
const details = z.array(z.object({ modality: z.string(), tokenCount: count })).optional()
const usageMetadata = z.object({
  promptTokenCount: count,
  cachedContentTokenCount: count,
  toolUsePromptTokenCount: count,
  candidatesTokenCount: count,
  thoughtsTokenCount: count,
  totalTokenCount: count,
  promptTokensDetails: details,
  cacheTokensDetails: details,
  candidatesTokensDetails: details,
})
export type UsageMetadata = z.infer<typeof usageMetadata>

const generated = z.object({
  candidates: z.array(candidate).optional(),
  promptFeedback: z.object({ blockReason: z.string().optional() }).optional(),
  usageMetadata: usageMetadata.optional(),
  responseId: z.string().optional(),
})
export type Generated = z.infer<typeof generated>

const report = z.object({ error: z.object({ code: z.int() }) })

const embedded = z.object({
  embeddings: z.array(z.object({ values: z.array(z.number()).min(1) })),
  usageMetadata: usageMetadata.optional(),
})

/** Parses a complete response or one event. Throws the error it reports, or `invalid_response` when it is malformed. */
export function readGenerated(json: unknown): Generated {
  const reported = (json as { error?: unknown } | null)?.error === undefined ? null : report.safeParse(json)
  if (reported?.success) throw failure(reported.data.error.code, {}, JSON.stringify(json))
  return understood(generated, json)
}

/** The vectors of a `batchEmbedContents` answer, in the order of the request, and its tokens if they are stated. */
export function readEmbedded(json: unknown): { vectors: number[][]; tokens: number | undefined } {
  const { embeddings, usageMetadata } = understood(embedded, json)
  const tokens = usageMetadata?.promptTokenCount
  const isCount = tokens !== undefined && tokens > 0 && Number.isFinite(tokens)
  return { vectors: embeddings.map(embedding => embedding.values), tokens: isCount ? Math.ceil(tokens) : undefined }
}

/** Optional members may also be null (anomalyco/opencode#44490), which is rare enough to be read a second time. */
function understood<T>(schema: z.ZodType<T>, json: unknown): T {
  const given = schema.safeParse(json)
  const result = given.success ? given : schema.safeParse(withoutNulls(json))
  if (result.success) return result.data
  const path = result.error.issues[0]?.path.join('.') ?? ''
  throw new ProviderError('invalid_response', `Gemini's answer is not understood at "${path}"`)
}

/** Recursion is bounded by the parser of the answer. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isObject(value) || isRawNumber(value)) return value
  const given = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(given.map(([name, member]) => [name, withoutNulls(member)]))
}
