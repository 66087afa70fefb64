import { isObject } from '../../../base/is-object.ts'
import type { Embeddings } from '../../../kinds/embedding.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { encodedVector, inCalls, sumOfTokens, textsOf } from '../../toolkit/embeddings.ts'
import { invalidResponse, valueAt } from '../../toolkit/json-fields.ts'
import { noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'

/** `V2EmbedRequest` of `cohere-ai`: "Maximum number of texts per call is `96`". */
const maxTexts = 96
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'input', 'dimensions', 'encoding_format', 'input_type', 'truncate'],
])

/** Voyage's names of the types that a text can have (`EmbedRequest` of `voyageai`). */
const voyageTypes: ReadonlyMap<unknown, string> = new Map([
  ['query', 'search_query'],
  ['document', 'search_document'],
])

/** The type of the texts of a request, which Cohere's models need: without one they are documents that are searched. */
export function textType(body: Call<'embedding'>['body']): unknown {
  const type = 'input_type' in body ? body.input_type : null
  return voyageTypes.get(type) ?? type ?? 'search_document'
}

/** `POST /v2/embed`, once for each 96 texts. */
export const embedding: DirectAdapter<'embedding'> = {
  native: false,
  request: call => requestsOf(call)[0]!,
  requests: requestsOf,
  answer(json, call) {
    const answers = Array.isArray(json) ? json : [json]
    const vectors = answers.flatMap(vectorsIn)
    const expected = textsOf(call).length
    if (vectors.length !== expected) throw invalidResponse(`it has ${vectors.length} vectors for ${expected} inputs`)
    const asBase64 = call.body.encoding_format === 'base64'
    const data = vectors.map((vector, index) => {
      return { object: 'embedding' as const, index, embedding: encodedVector(vector, asBase64) }
    })
    const tokens = sumOfTokens(answers.map(one => valueAt(one, 'meta.billed_units.input_tokens')))
    const usage = tokens !== undefined && { usage: { prompt_tokens: tokens, total_tokens: tokens } }
    return { object: 'list', model: call.target.model.id, data, ...usage } satisfies Embeddings
  },
}

function requestsOf(call: Call<'embedding'>): UpstreamRequest[] {
  const { body, target } = call
  const { truncate } = body as { truncate?: unknown }
  const dropped = noticeableFieldsExcept(body, supportedFields)
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  return inCalls(textsOf(call), maxTexts).map(texts => {
    const json = {
      model: target.deployment.upstream_model,
      texts,
      input_type: textType(body),
      embedding_types: ['float'],
      ...(body.dimensions && { output_dimension: body.dimensions }),
      ...(truncate !== undefined && { truncate }),
    }
    return withDropped({ method: 'POST' as const, path: '/v2/embed', headers, body: JSON.stringify(json) }, dropped)
  })
}

function vectorsIn(json: unknown): unknown[] {
  const vectors = isObject(json) && isObject(json.embeddings) ? json.embeddings.float : undefined
  if (!Array.isArray(vectors)) throw invalidResponse('it has no vectors')
  return vectors
}
