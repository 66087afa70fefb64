import { isObject } from '../../../base/is-object.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { EmbeddingRequest, Embeddings } from '../../../kinds/embedding.ts'
import type { DirectAdapter } from '../../contract.ts'
import { base64Vector } from '../../toolkit/embeddings.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { assertTakesInput } from '../../toolkit/token-inputs.ts'
import { count, extrasOf, mapUnlessSame, reportsError } from './answer.ts'
import { reportedFailure } from './failure.ts'
import { beginRequest, post, renameEmbeddingFields } from './request.ts'

/** `POST /embeddings`. A server may ignore `encoding_format`: the response is converted to the requested encoding. */
export const embedding: DirectAdapter<'embedding'> = {
  native: true,
  request(call) {
    assertTakesInput(call.target.provider, call.body.input, 'input')
    const request = beginRequest('embedding', call)
    renameEmbeddingFields(request)
    return post('/embeddings', request)
  },
  answer(json, { body, target }) {
    if (!isObject(json)) throw invalidResponse('it is not an object')
    if (reportsError(json)) throw reportedFailure(json)
    const inputs = inputCount(body.input)
    if (!Array.isArray(json.data) || json.data.length !== inputs)
      throw invalidResponse(`it does not have ${inputs} vectors`)
    const asBase64 = body.encoding_format === 'base64'
    const vectors = mapUnlessSame(json.data, (item, position) => vectorFrom(item, position, asBase64))
    const isSorted = vectors.every(({ index }, position) => position === 0 || vectors[position - 1]!.index <= index)
    const data = isSorted ? vectors : vectors.toSorted((left, right) => left.index - right.index)
    const usage = usageFrom(json, target.provider)
    return {
      object: 'list',
      model: typeof json.model === 'string' ? json.model : body.model,
      data,
      ...(usage && { usage }),
    }
  },
}

/** One text or one token array is one input. */
function inputCount(input: EmbeddingRequest['input']): number {
  return typeof input === 'string' || typeof input[0] === 'number' ? 1 : input.length
}

type Vector = Embeddings['data'][number]

function vectorFrom(item: unknown, position: number, asBase64: boolean): Vector {
  if (!isObject(item)) throw invalidResponse(`vector ${position} is not an object`)
  const index = Number.isInteger(item.index) ? (item.index as number) : position
  const embedding = encoded(item, position, asBase64)
  const isSame = item.object === 'embedding' && item.index === index && item.embedding === embedding
  return isSame && Object.keys(item).length === 3 ? (item as Vector) : { object: 'embedding', index, embedding }
}

function encoded({ embedding }: Json, position: number, asBase64: boolean): number[] | string {
  if (typeof embedding === 'string') return asBase64 ? embedding : floatsFrom(embedding, position)
  if (!Array.isArray(embedding) || embedding.length === 0 || typeof embedding[0] !== 'number') {
    throw invalidResponse(`vector ${position} has no numbers`)
  }
  return asBase64 ? base64Vector(embedding) : embedding
}

function floatsFrom(base64: string, position: number): number[] {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length === 0 || bytes.length % 4 !== 0)
    throw invalidResponse(`vector ${position} is not base64 of float32 values`)
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4))
}

function usageFrom(json: Json, provider: ProviderRow): Embeddings['usage'] {
  if (!isObject(json.usage)) return undefined
  const tokenCount = count(json.usage.prompt_tokens) ?? count(json.usage.total_tokens)
  if (tokenCount === undefined) return undefined
  return { prompt_tokens: tokenCount, total_tokens: tokenCount, ...extrasOf(json, provider) }
}
