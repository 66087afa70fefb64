import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import type { Embeddings } from '../../../kinds/embedding.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { base64Vector } from '../../toolkit/base64-vector.ts'
import { invalidResponse, objectIn } from '../../toolkit/json-fields.ts'
import { noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'
import { assertText } from '../../toolkit/token-inputs.ts'
import { modelPath } from './chat.ts'

/** How the models of one vendor are invoked. */
type Form = {
  /** The most inputs of a request to the gateway. */
  maxInputs: number
  supportedFields: ReadonlySet<string>
  bodies(texts: string[], call: Call<'embedding'>): object[]
  read(json: Record<string, unknown>): { vectors: unknown[]; tokens?: unknown }
  collect?: UpstreamRequest['collect']
}

const commonFields = [...ownFields, 'model', 'input', 'dimensions', 'encoding_format']

/** One text per call (docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html). */
const titan: Form = {
  maxInputs: 256,
  supportedFields: new Set(commonFields),
  bodies: (texts, { body }) =>
    texts.map(inputText => ({ inputText, ...(body.dimensions && { dimensions: body.dimensions }) })),
  read: ({ embedding, inputTextTokenCount }) => ({ vectors: [embedding], tokens: inputTextTokenCount }),
}

/** "texts – … Maximum: 96" (docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed-v4.html). */
const cohere: Form = {
  maxInputs: 96,
  supportedFields: new Set([...commonFields, 'input_type']),
  bodies: (texts, { body }) => [
    {
      texts,
      input_type: 'input_type' in body ? body.input_type : 'search_document',
      embedding_types: ['float'],
      ...(body.dimensions && { output_dimension: body.dimensions }),
    },
  ],
  read: ({ embeddings, inputTokens }) => {
    const vectors = Array.isArray(embeddings) ? embeddings : isObject(embeddings) ? embeddings.float : undefined
    return { vectors: Array.isArray(vectors) ? vectors : [], tokens: inputTokens }
  },
  /** The tokens of a request are in a header only (langchain4j/langchain4j#5057, vercel/ai#15973). */
  collect(text, headers) {
    const tokens = String(headers['x-amzn-bedrock-input-token-count'] ?? '')
    return { ...objectIn(JSON.parse(text), 'answer'), ...(/^\d{1,9}$/.test(tokens) && { inputTokens: Number(tokens) }) }
  },
}

/** `POST /model/{modelId}/invoke` with the body of the model's vendor. */
export const embedding: DirectAdapter<'embedding'> = {
  native: false,
  request: call => requestsOf(call)[0]!,
  requests: requestsOf,
  answer(json, call) {
    const { read } = formOf(call)
    const answers = (Array.isArray(json) ? json : [json]).map(one => read(objectIn(one, 'answer')))
    const vectors = answers.flatMap(answer => answer.vectors)
    const expected = textsOf(call).length
    if (vectors.length !== expected) throw invalidResponse(`it has ${vectors.length} vectors for ${expected} inputs`)
    const asBase64 = call.body.encoding_format === 'base64'
    const tokens = answers.map(answer => answer.tokens)
    const isCounted = tokens.every(count => Number.isSafeInteger(count))
    const sum = isCounted ? tokens.reduce((total: number, count) => total + (count as number), 0) : 0
    const usage = isCounted ? { usage: { prompt_tokens: sum, total_tokens: sum } } : null
    const data = vectors.map((vector, index) => ({
      object: 'embedding' as const,
      index,
      embedding: encoded(vector, asBase64),
    }))
    return { object: 'list', model: call.target.model.id, data, ...usage } satisfies Embeddings
  },
}

function requestsOf(call: Call<'embedding'>): UpstreamRequest[] {
  const { bodies, supportedFields, collect } = formOf(call)
  const dropped = noticeableFieldsExcept(call.body, supportedFields)
  return bodies(textsOf(call), call).map(body =>
    withDropped(
      {
        method: 'POST' as const,
        path: modelPath(call.target.deployment.upstream_model, 'invoke'),
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify(body),
        ...(collect && { collect }),
      },
      dropped,
    ),
  )
}

function formOf({ target }: Call<'embedding'>): Form {
  return target.model.owned_by === 'cohere' ? cohere : titan
}

function textsOf(call: Call<'embedding'>): string[] {
  const { input } = call.body
  const inputs = typeof input === 'string' ? [input] : input
  assertText(inputs, 'input')
  const { maxInputs } = formOf(call)
  if (inputs.length <= maxInputs) return inputs
  throw new GatewayError('invalid_request', `This model takes at most ${maxInputs} inputs per request.`, {
    param: 'input',
  })
}

/** A vector as numbers, or as little-endian 32-bit floats in base64. */
function encoded(vector: unknown, asBase64: boolean): number[] | string {
  if (!Array.isArray(vector) || vector.length === 0 || typeof vector[0] !== 'number')
    throw invalidResponse('a vector has no numbers')
  return asBase64 ? base64Vector(vector) : vector
}
