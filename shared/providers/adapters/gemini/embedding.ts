import type { Embeddings } from '../../../kinds/embedding.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { base64Vector, inCalls, sumOfTokens, textsOf } from '../../toolkit/embeddings.ts'
import { noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'
import { readEmbedded } from './wire.ts'

/** "at most 100 requests can be in one batch". */
const maxTexts = 100
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'input', 'dimensions', 'encoding_format', 'task_type', 'titles'],
])

/** Embeddings by `batchEmbedContents`, once for each 100 texts. */
export const embedding: DirectAdapter<'embedding'> = {
  native: false,
  request: call => requestsOf(call)[0]!,
  requests: requestsOf,
  answer(json, call) {
    const answers = (Array.isArray(json) ? json : [json]).map(readEmbedded)
    return embeddingAnswer(
      answers.flatMap(({ vectors }) => vectors),
      sumOfTokens(answers.map(({ tokens }) => tokens)),
      call,
    )
  },
}

function requestsOf(call: Call<'embedding'>): UpstreamRequest[] {
  const { body, target } = call
  const model = `models/${target.deployment.upstream_model}`
  const dropped = unsupportedEmbeddingFields(body)
  const headers = { 'content-type': 'application/json' }
  return inCalls(textsOf(call), maxTexts).map((texts, batch) => {
    const requests = texts.map((text, index) => ({
      model,
      content: { role: 'user', parts: [{ text }] },
      ...(body.dimensions && { outputDimensionality: body.dimensions }),
      ...embeddingTask(body, batch * maxTexts + index),
    }))
    const path = `/v1beta/${model}:batchEmbedContents`
    return withDropped({ method: 'POST' as const, path, headers, body: JSON.stringify({ requests }) }, dropped)
  })
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
 * The vectors in the order of the inputs, with a usage where Google states one: newer models do (`usageMetadata`). Throws a ProviderError
 * `invalid_response`.
 */
export function embeddingAnswer(
  vectors: readonly number[][],
  tokens: number | undefined,
  call: Call<'embedding'>,
): Embeddings {
  const { body, target } = call
  const expected = textsOf(call).length
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

/** Gemini does not normalise vectors of reduced dimension; OpenAI's always have unit length. */
function toUnitLength(values: number[]): number[] {
  const length = Math.hypot(...values)
  return length > 0 ? values.map(value => value / length) : values
}
