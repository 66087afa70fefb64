import { z } from 'zod'

/** Responses in the format of Google's Gemini API. */

const count = z.int().min(0)

export const googleError = z
  .strictObject({
    error: z.strictObject({
      code: z.int().describe('The HTTP status.'),
      message: z.string().describe('A human-readable description of the error, and how to resolve it.'),
      status: z.string().describe('Google’s name of the status, such as `INVALID_ARGUMENT`.'),
      details: z
        .array(z.looseObject({ '@type': z.string() }))
        .describe(
          'An `ErrorInfo`, whose `metadata.code` is the stable identifier of the error, the field in a `BadRequest`, and the time to wait in a `RetryInfo`.',
        ),
    }),
  })
  .meta({ id: 'GoogleErrorResponse', description: 'Every error of these routes has this shape.' })

const part = z.looseObject({
  text: z.string().optional(),
  thought: z.boolean().optional(),
  thoughtSignature: z.string().optional(),
  functionCall: z.looseObject({ id: z.string().optional(), name: z.string() }).optional(),
})

export const generatedContent = z
  .looseObject({
    candidates: z
      .array(
        z.looseObject({
          content: z.looseObject({ role: z.string().optional(), parts: z.array(part).optional() }).optional(),
          finishReason: z.string().optional(),
          index: count.optional(),
        }),
      )
      .optional(),
    promptFeedback: z.looseObject({ blockReason: z.string().optional() }).optional(),
    usageMetadata: z
      .looseObject({
        promptTokenCount: count.optional(),
        candidatesTokenCount: count.optional(),
        thoughtsTokenCount: count.optional(),
        cachedContentTokenCount: count.optional(),
        totalTokenCount: count.optional(),
      })
      .optional(),
    modelVersion: z.string(),
    responseId: z.string().optional(),
  })
  .meta({ id: 'GenerateContentResponse' })

export const generatedEvent = z
  .union([generatedContent, googleError])
  .meta({ id: 'GenerateContentStreamEvent', description: 'The next part of an answer, or the error that ends it.' })

export const geminiTokenCount = z.strictObject({ totalTokens: count }).meta({ id: 'GeminiTokenCount' })

const embedding = z.strictObject({ values: z.array(z.number()) }).meta({ id: 'GeminiEmbedding' })
const embeddingUsage = z.strictObject({ promptTokenCount: count }).optional()
export const embeddedContent = z
  .strictObject({ embedding, usageMetadata: embeddingUsage })
  .meta({ id: 'EmbedContentResponse' })
export const embeddedContents = z
  .strictObject({ embeddings: z.array(embedding), usageMetadata: embeddingUsage })
  .meta({ id: 'BatchEmbedContentsResponse' })

export const geminiModel = z
  .strictObject({
    name: z.string().describe('`models/` and the id.'),
    baseModelId: z.string(),
    version: z.string(),
    displayName: z.string(),
    description: z.string(),
    inputTokenLimit: z.int().optional(),
    outputTokenLimit: z.int().optional(),
    supportedGenerationMethods: z.array(z.string()),
    thinking: z.boolean().optional(),
  })
  .meta({ id: 'GeminiModel' })

export const geminiModelList = z
  .strictObject({
    models: z.array(geminiModel),
    nextPageToken: z.string().optional().describe('The `pageToken` of the next page; absent on the last one.'),
  })
  .meta({ id: 'GeminiModelList' })
