import { z } from 'zod'
import type { ShownUsage } from '../base/usage.ts'
import { chatRequest, type FinishReason } from './chat.ts'

/**
 * `generateContent` of Google's Gemini API. The schema checks what the gateway reads; unknown fields pass, because clients
 * use fields that are newer than any list of them. Names are those in camel case (`generate-content-names.ts`).
 * Source: @google/genai, `GenerateContentParameters`; https://ai.google.dev/api/generate-content.
 */

const record = z.record(z.string(), z.unknown())

const blob = z
  .looseObject({ mimeType: z.string(), data: z.string().describe('The bytes in base64.') })
  .meta({ id: 'GeminiBlob' })
const fileData = z
  .looseObject({ mimeType: z.string().optional(), fileUri: z.string().min(1).describe('A public https URL.') })
  .meta({ id: 'GeminiFileData' })

const functionCall = z
  .looseObject({ id: z.string().optional(), name: z.string().min(1), args: record.optional() })
  .meta({ id: 'GeminiFunctionCall' })
const functionResponse = z
  .looseObject({
    id: z.string().optional(),
    name: z.string(),
    response: record.optional(),
    parts: z
      .array(z.looseObject({ inlineData: blob.optional(), fileData: fileData.optional() }))
      .optional()
      .describe('Images and documents of the result.'),
  })
  .meta({ id: 'GeminiFunctionResponse' })

const part = z
  .looseObject({
    text: z.string().optional(),
    thought: z.boolean().optional().describe('Whether `text` is a summary of thoughts.'),
    thoughtSignature: z
      .string()
      .optional()
      .describe('The state of the reasoning. Hand it back with its part: the model then continues its reasoning.'),
    inlineData: blob.optional(),
    fileData: fileData.optional(),
    functionCall: functionCall.optional(),
    functionResponse: functionResponse.optional(),
    executableCode: z.looseObject({ code: z.string(), language: z.string().optional() }).optional(),
    codeExecutionResult: z.looseObject({ outcome: z.string().optional(), output: z.string().optional() }).optional(),
  })
  .meta({ id: 'GeminiPart' })
export type GeminiPart = z.infer<typeof part>

const parts = z.array(part).max(16_384)
const content = z
  .looseObject({
    role: z.enum(['user', 'model', 'function', 'tool']).optional().describe('`user` or `model`.'),
    parts: parts.optional(),
  })
  .meta({ id: 'GeminiContent' })
export type GeminiContent = z.infer<typeof content>

/** Its role has no meaning: @google/generative-ai 0.24.1, formatSystemInstruction, sends `system`. */
const systemInstruction = z
  .looseObject({ role: z.string().optional().describe('Of no effect.'), parts: parts.optional() })
  .meta({ id: 'GeminiSystemInstruction' })

const declaration = z
  .looseObject({
    name: z.string().min(1),
    description: z.string().optional(),
    parameters: record.optional().describe('A schema in Google’s form, whose types are in capitals.'),
    parametersJsonSchema: z.unknown().optional().describe('The same as a JSON Schema.'),
  })
  .meta({ id: 'GeminiFunctionDeclaration' })

const tool = z
  .looseObject({
    functionDeclarations: z.array(declaration).max(1024).optional(),
    googleSearch: record.optional(),
    codeExecution: record.optional(),
    urlContext: record.optional(),
  })
  .meta({ id: 'GeminiTool' })
export type GeminiTool = z.infer<typeof tool>

const generationConfig = z
  .looseObject({
    temperature: z.number().optional(),
    topP: z.number().optional(),
    topK: z.number().optional(),
    candidateCount: z.int().min(1).max(128).optional(),
    maxOutputTokens: z
      .int()
      .min(0)
      .max(10_000_000)
      .optional()
      .describe('The most tokens that the answer may have, thoughts included.'),
    stopSequences: z.array(z.string()).max(64).optional(),
    presencePenalty: z.number().optional(),
    frequencyPenalty: z.number().optional(),
    seed: z.int().optional(),
    responseLogprobs: z.boolean().optional(),
    logprobs: z.int().min(0).max(20).optional(),
    responseMimeType: z.string().optional().describe('`text/plain` or `application/json`.'),
    responseSchema: record.optional().describe('A schema in Google’s form.'),
    responseJsonSchema: z.unknown().optional().describe('A JSON Schema.'),
    responseModalities: z.array(z.string()).max(16).optional(),
    thinkingConfig: z
      .looseObject({
        includeThoughts: z.boolean().optional(),
        thinkingBudget: z.int().optional(),
        thinkingLevel: z.string().optional(),
      })
      .optional(),
    speechConfig: z.unknown().optional(),
  })
  .meta({ id: 'GeminiGenerationConfig' })
export type GenerationConfig = z.infer<typeof generationConfig>

const model = { model: chatRequest.shape.model.describe('Set from the path.').meta({ 'x-internal': true }) }

const shared = {
  ...model,
  contents: z.array(content).min(1).max(100_000).describe('The conversation so far, oldest first.'),
  systemInstruction: systemInstruction.optional().describe('The system prompt.'),
  tools: z.array(tool).max(1024).optional().describe('What the model may call.'),
  toolConfig: z
    .looseObject({
      functionCallingConfig: z
        .looseObject({
          mode: z.string().optional().describe('`AUTO`, `ANY`, `NONE` or `VALIDATED`.'),
          allowedFunctionNames: z.array(z.string()).max(1024).optional(),
        })
        .optional(),
    })
    .optional()
    .describe('Which functions are called.'),
  generationConfig: generationConfig.optional().describe('Sampling, limits, the form of the answer, and thinking.'),
  safetySettings: z.array(record).max(64).optional().describe('For Gemini’s own models only.'),
  cachedContent: z.string().optional().meta({ 'x-internal': true }),
  mode: chatRequest.shape.mode,
  models: chatRequest.shape.models,
  provider: chatRequest.shape.provider,
}

/** `POST /v1beta/models/{model}:generateContent`: Google's shape plus the routing fields; the path has the model. */
export const generateContentRequest = z.looseObject({
  ...shared,
  stream: z.boolean().optional().meta({ 'x-internal': true }),
  /** The form of a stream: server-sent events, or one JSON array. */
  alt: z.enum(['sse', 'json']).optional().meta({ 'x-internal': true }),
})
export type GenerateContentRequest = z.infer<typeof generateContentRequest>

/** `POST /v1beta/models/{model}:countTokens`: contents, or a whole request. */
export const countGeminiTokensRequest = z.looseObject({
  ...shared,
  contents: shared.contents.optional(),
  generateContentRequest: z
    .looseObject({ ...shared, model: z.string().optional() })
    .optional()
    .describe('A whole request, in place of `contents`.'),
})

const embedded = {
  content: content.describe('The text, in one or several parts.'),
  taskType: z.string().max(100).optional().describe('What the vectors are for, where the model distinguishes that.'),
  title: z.string().max(10_000).optional().describe('The title of a document.'),
  outputDimensionality: z.int().min(1).max(65_536).optional().describe('The length of the vectors.'),
}

/** `POST /v1beta/models/{model}:embedContent`. */
export const embedContentRequest = z.looseObject({ ...model, ...embedded })
export type EmbedContentRequest = z.infer<typeof embedContentRequest>

/** `POST /v1beta/models/{model}:batchEmbedContents`. */
export const batchEmbedContentsRequest = z.looseObject({
  ...model,
  requests: z
    .array(z.looseObject({ model: z.string().optional(), ...embedded }))
    .min(1)
    .max(2048)
    .describe('One for each text.'),
})
export type BatchEmbedContentsRequest = z.infer<typeof batchEmbedContentsRequest>

/** The counts of an answer; absent where they are zero. */
type GeminiUsage = {
  promptTokenCount: number
  candidatesTokenCount: number
  totalTokenCount: number
  thoughtsTokenCount?: number
  cachedContentTokenCount?: number
}

/** `partialArgs`: of a call that Vertex AI streams in parts; only the first has the name. */
type CallPart = { id?: string; name?: string; args?: object; partialArgs?: unknown }

/** A part of an answer. */
export type GeminiAnswerPart = {
  text?: string
  thought?: true
  thoughtSignature?: string
  inlineData?: { mimeType: string; data: string }
  functionCall?: CallPart
}

/** What an answer rests on; places are in bytes of a part. Google's own have the queries, which it bills. */
type GeminiGrounding = {
  webSearchQueries?: unknown
  groundingChunks?: { web: { uri: string; title: string } }[]
  groundingSupports?: {
    segment: { partIndex?: number; startIndex: number; endIndex: number; text: string }
    groundingChunkIndices: number[]
  }[]
}

export type GeminiCandidate = {
  index: number
  content?: { role: 'model'; parts?: GeminiAnswerPart[] }
  finishReason?: string
  logprobsResult?: object
  groundingMetadata?: GeminiGrounding
}

/** An answer, or an event of a streamed one. Those of Google's own API may have more. */
export type GeminiAnswer = {
  candidates?: GeminiCandidate[]
  promptFeedback?: unknown
  usageMetadata?: GeminiUsage
  modelVersion?: string
  responseId?: string
}

/** The usage as Google counts it: thoughts are not part of the candidates' tokens. */
export function geminiUsage({ prompt_tokens, completion_tokens = 0, ...details }: ShownUsage): GeminiUsage {
  const thoughts = Math.min(details.completion_tokens_details?.reasoning_tokens ?? 0, completion_tokens)
  const cached = Math.min(details.prompt_tokens_details?.cached_tokens ?? 0, prompt_tokens)
  return {
    promptTokenCount: prompt_tokens,
    candidatesTokenCount: completion_tokens - thoughts,
    totalTokenCount: prompt_tokens + completion_tokens,
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
    ...(cached > 0 && { cachedContentTokenCount: cached }),
  }
}

const finishReasons: ReadonlyMap<string | undefined, FinishReason> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['CONTINUATION', 'length'],
  ['MALFORMED_FUNCTION_CALL', 'error'],
  ['MALFORMED_RESPONSE', 'error'],
  ['UNEXPECTED_TOOL_CALL', 'error'],
  ['TOO_MANY_TOOL_CALLS', 'error'],
  ['OTHER', 'error'],
])

/** The finish reason of chat completions for an answer, as the request log has it: any unknown reason is of a filter. */
export function chatFinishReason({ candidates = [] }: GeminiAnswer, hasCalls: boolean): FinishReason {
  const reason = candidates.find(({ finishReason }) => finishReason !== undefined)?.finishReason
  const finish = finishReasons.get(reason) ?? 'content_filter'
  return finish === 'stop' && hasCalls ? 'tool_calls' : finish
}

/** Whether an answer, or an event of a streamed one, ends: it has a finish reason, or its prompt is blocked. */
export function endsAnswer({ candidates = [] }: GeminiAnswer): boolean {
  return candidates.length === 0 || candidates.some(({ finishReason }) => finishReason !== undefined)
}

/** The searches of the web in an answer: each query is billed (ai.google.dev/gemini-api/docs/google-search). */
export function googleSearchesIn({ candidates = [] }: GeminiAnswer): number {
  const queries = candidates.map(({ groundingMetadata }) => groundingMetadata?.webSearchQueries)
  return queries.reduce<number>((sum, one) => sum + (Array.isArray(one) ? one.length : 0), 0)
}

/** Passes the texts and images of an answer on, for counting: what the model wrote. */
export function recordParts(
  { candidates = [] }: GeminiAnswer,
  visit: { text(text: string): void; image(url: string): void },
): { hasParts: boolean; hasCalls: boolean } {
  let hasParts = false
  let hasCalls = false
  for (const { content } of candidates)
    for (const part of content?.parts ?? []) {
      hasParts = true
      const { text, functionCall, inlineData } = part
      if (text) visit.text(text)
      if (functionCall) {
        hasCalls = true
        visit.text(textOfCall(functionCall))
      }
      if (inlineData?.mimeType.startsWith('image/'))
        visit.image(`data:${inlineData.mimeType};base64,${inlineData.data}`)
    }
  return { hasParts, hasCalls }
}

/** A call, or a part of one whose arguments are streamed: its text, for counting. */
function textOfCall({ name = '', args, partialArgs }: CallPart): string {
  return name + JSON.stringify(partialArgs ?? args ?? {})
}

/** The texts of a content's parts, without thoughts. */
export function geminiTexts(content: Pick<GeminiContent, 'parts'> | undefined): string[] {
  return (content?.parts ?? []).flatMap(({ text, thought }) => (text && !thought ? [text] : []))
}

/** The functions that a request declares, with the indexes of tool and declaration. */
export function declaredFunctions(tools: readonly GeminiTool[] | undefined) {
  return (tools ?? []).flatMap(({ functionDeclarations = [] }, tool) =>
    functionDeclarations.map((declaration, index) => ({
      declaration,
      param: `tools.${tool}.functionDeclarations.${index}`,
    })),
  )
}
