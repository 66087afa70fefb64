import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { singleTextsOf } from '../../toolkit/embeddings.ts'
import { valueAt } from '../../toolkit/json-fields.ts'
import { withDropped } from '../../toolkit/request-fields.ts'
import { embeddingAnswer, embeddingTask, unsupportedEmbeddingFields } from '../gemini/embedding.ts'
import { readEmbedded as readVectors } from '../gemini/wire.ts'
import { modelsPath } from './paths.ts'

/**
 * Embeddings at Vertex AI, one request for each text: `gemini-embedding-001` takes one text in a `predict`, newer models have
 * `embedContent`, which takes one as well (`tIsVertexEmbedContentModel` of `@google/genai`).
 */
export const embedding: DirectAdapter<'embedding'> = {
  native: false,
  request: call => requestsOf(call)[0]!,
  requests: requestsOf,
  answer(json, call) {
    const answers = Array.isArray(json) ? json : [json]
    const read = isPredicted(call) ? readPredicted : readEmbedded
    const found = answers.map(read)
    const promptTokenCount = found.reduce((sum, one) => sum + one.tokens, 0)
    const embeddings = found.map(({ values }) => ({ values }))
    const { vectors, tokens } = readVectors({ embeddings, usageMetadata: { promptTokenCount } })
    return embeddingAnswer(vectors, tokens, call)
  },
}

function requestsOf(call: Call<'embedding'>): UpstreamRequest[] {
  const { upstream_model: model } = call.target.deployment
  const { dimensions } = call.body
  // A text that is too long is refused, not cut.
  const settings = { autoTruncate: false, ...(dimensions && { outputDimensionality: dimensions }) }
  const bodyOf = (text: string, index: number) => {
    const { taskType, title } = embeddingTask(call.body, index)
    if (!isPredicted(call)) {
      const embedContentConfig = { ...settings, taskType, title }
      return { content: { role: 'user', parts: [{ text }] }, embedContentConfig }
    }
    return { instances: [{ content: text, task_type: taskType, title }], parameters: settings }
  }
  const method = isPredicted(call) ? 'predict' : 'embedContent'
  return singleTextsOf(call).map((text, index) =>
    withDropped(
      {
        method: 'POST' as const,
        path: `${modelsPath}${model}:${method}`,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(bodyOf(text, index)),
      },
      unsupportedEmbeddingFields(call.body),
    ),
  )
}

function isPredicted({ target }: Call<'embedding'>): boolean {
  return target.deployment.upstream_model === 'gemini-embedding-001'
}

type Found = { values: unknown; tokens: number }

function readPredicted(json: unknown): Found {
  const tokens = valueAt(json, 'predictions.0.embeddings.statistics.token_count')
  return { values: valueAt(json, 'predictions.0.embeddings.values'), tokens: countOf(tokens) }
}

function readEmbedded(json: unknown): Found {
  const tokens = valueAt(json, 'usageMetadata.promptTokenCount')
  return { values: valueAt(json, 'embedding.values'), tokens: countOf(tokens) }
}

function countOf(value: unknown): number {
  if (value === undefined) return Number.NaN // Not stated: the gateway counts.
  if (typeof value === 'number' && value >= 0) return value
  throw new ProviderError('invalid_response', 'Vertex AI gave a count of tokens that is none')
}
