import { isObject } from '../../../base/is-object.ts'
import type { Embeddings } from '../../../kinds/embedding.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { encodedVector, inCalls, singleTextsOf, sumOfTokens, textsOf } from '../../toolkit/embeddings.ts'
import { invalidResponse, objectIn } from '../../toolkit/json-fields.ts'
import { noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'
import { textType } from '../cohere/embedding.ts'
import { modelPath } from './chat.ts'

/** How the models of one vendor are invoked. */
type Form = {
  supportedFields: ReadonlySet<string>
  bodies(call: Call<'embedding'>): object[]
  read(json: Record<string, unknown>): { vectors: unknown[]; tokens?: unknown }
  collect?: UpstreamRequest['collect']
}

const commonFields = [...ownFields, 'model', 'input', 'dimensions', 'encoding_format']

/** One text per call (docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html). */
const titan: Form = {
  supportedFields: new Set(commonFields),
  bodies: call => {
    const { dimensions } = call.body
    return singleTextsOf(call).map(inputText => ({ inputText, ...(dimensions && { dimensions }) }))
  },
  read: ({ embedding, inputTextTokenCount }) => ({ vectors: [embedding], tokens: inputTextTokenCount }),
}

/** "texts – … Maximum: 96" (docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed-v4.html). */
const maxCohereTexts = 96
const cohere: Form = {
  supportedFields: new Set([...commonFields, 'input_type']),
  bodies: call => {
    const { body } = call
    const settings = {
      input_type: textType(body),
      embedding_types: ['float'],
      ...(body.dimensions && { output_dimension: body.dimensions }),
    }
    return inCalls(textsOf(call), maxCohereTexts).map(texts => ({ texts, ...settings }))
  },
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
    const tokens = sumOfTokens(answers.map(answer => answer.tokens))
    const usage = tokens !== undefined && { usage: { prompt_tokens: tokens, total_tokens: tokens } }
    const data = vectors.map((vector, index) => ({
      object: 'embedding' as const,
      index,
      embedding: encodedVector(vector, asBase64),
    }))
    return { object: 'list', model: call.target.model.id, data, ...usage } satisfies Embeddings
  },
}

function requestsOf(call: Call<'embedding'>): UpstreamRequest[] {
  const { bodies, supportedFields, collect } = formOf(call)
  const dropped = noticeableFieldsExcept(call.body, supportedFields)
  return bodies(call).map(body =>
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
