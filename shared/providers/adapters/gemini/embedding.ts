import { GatewayError } from '../../../base/errors.ts'
import type { Embeddings } from '../../../kinds/embedding.ts'
import type { Call, UpstreamRequest } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { base64Vector } from '../../toolkit/base64-vector.ts'
import { noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'
import { assertText } from '../../toolkit/token-inputs.ts'
import { readEmbedded } from './wire.ts'

const maxInputs = 100
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'input', 'dimensions', 'encoding_format', 'task_type', 'titles'],
])

/** Converts an OpenAI embeddings request. Throws a GatewayError 400 on `input` for tokens or too many texts. */
export function embeddingRequest({ body, target }: Call<'embedding'>): UpstreamRequest {
  const model = `models/${target.deployment.upstream_model}`
  const requests = embeddingTexts(body.input).map((text, index) => ({
    model,
    content: { role: 'user', parts: [{ text }] },
    ...(body.dimensions && { outputDimensionality: body.dimensions }),
    ...embeddingTask(body, index),
  }))
  const request = {
    method: 'POST' as const,
    path: `/v1beta/${model}:batchEmbedContents`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ requests }),
  }
  return withDropped(request, unsupportedEmbeddingFields(body))
}

/** What Gemini knows of a text beside its words: the task that its vector is for, and its title. */
export function embeddingTask({ task_type: taskType, titles }: Call<'embedding'>['body'], index: number) {
  const title: unknown = Array.isArray(titles) ? titles[index] : undefined
  return { ...(typeof taskType === 'string' && { taskType }), ...(typeof title === 'string' && title && { title }) }
}

/** The fields of a request that Gemini does not take. */
export function unsupportedEmbeddingFields(body: Call<'embedding'>['body']): string[] {
  return noticeableFieldsExcept(body, supportedFields)
}

/**
 * The vectors in the order of the inputs, with a usage where Gemini states one: newer models do (`usageMetadata`).
 * Throws a ProviderError `invalid_response`.
 */
export function embeddingAnswer(json: unknown, { body, target }: Call<'embedding'>): Embeddings {
  const { vectors, tokens } = readEmbedded(json)
  const expected = embeddingTexts(body.input).length
  if (vectors.length !== expected) {
    throw new ProviderError('invalid_response', `Gemini gave ${vectors.length} vectors for ${expected} inputs`)
  }
  const data = vectors.map((values, index) => {
    if (body.dimensions && values.length !== body.dimensions) {
      throw new ProviderError(
        'invalid_response',
        `Gemini gave ${values.length} dimensions instead of ${body.dimensions}`,
      )
    }
    const vector = body.dimensions ? toUnitLength(values) : values
    const embedding = body.encoding_format === 'base64' ? base64Vector(vector) : vector
    return { object: 'embedding' as const, index, embedding }
  })
  const usage = tokens === undefined ? null : { usage: { prompt_tokens: tokens, total_tokens: tokens } }
  return { object: 'list', model: target.model.id, data, ...usage }
}

/** The texts of a request. Throws a GatewayError 400 for tokens, and for too many. */
export function embeddingTexts(input: Call<'embedding'>['body']['input']): string[] {
  const inputs = typeof input === 'string' ? [input] : input
  assertText(inputs, 'input')
  if (inputs.length <= maxInputs) return inputs
  throw new GatewayError('invalid_request', `This model takes at most ${maxInputs} inputs per request.`, {
    param: 'input',
  })
}

/** Gemini does not normalise vectors of reduced dimension; OpenAI's always have unit length. */
function toUnitLength(values: number[]): number[] {
  const length = Math.hypot(...values)
  return length > 0 ? values.map(value => value / length) : values
}
