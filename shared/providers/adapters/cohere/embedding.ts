import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import type { Embeddings } from '../../../kinds/embedding.ts'
import type { Call, DirectAdapter } from '../../contract.ts'
import { base64Vector } from '../../toolkit/base64-vector.ts'
import { invalidResponse } from '../../toolkit/json-fields.ts'
import { noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'
import { assertText } from '../../toolkit/token-inputs.ts'

/** `V2EmbedRequest` of `cohere-ai`: "Maximum number of texts per call is `96`". */
const maxTexts = 96
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'input', 'dimensions', 'encoding_format', 'input_type', 'truncate'],
])

/** `POST /v2/embed`, whose texts must be of a type: without `input_type` they are documents that are searched. */
export const embedding: DirectAdapter<'embedding'> = {
  native: false,
  request(call) {
    const { body, target } = call
    const { input_type: inputType = 'search_document', truncate } = body as { input_type?: unknown; truncate?: unknown }
    const json = {
      model: target.deployment.upstream_model,
      texts: textsOf(call),
      input_type: inputType,
      embedding_types: ['float'],
      ...(body.dimensions && { output_dimension: body.dimensions }),
      ...(truncate !== undefined && { truncate }),
    }
    const headers = { 'content-type': 'application/json', accept: 'application/json' }
    const request = { method: 'POST' as const, path: '/v2/embed', headers, body: JSON.stringify(json) }
    return withDropped(request, noticeableFieldsExcept(body, supportedFields))
  },
  answer(json, call) {
    if (!isObject(json) || !isObject(json.embeddings) || !Array.isArray(json.embeddings.float))
      throw invalidResponse('it has no vectors')
    const vectors: unknown[] = json.embeddings.float
    const expected = textsOf(call).length
    if (vectors.length !== expected) throw invalidResponse(`it has ${vectors.length} vectors for ${expected} inputs`)
    const asBase64 = call.body.encoding_format === 'base64'
    const data = vectors.map((vector, index) => ({
      object: 'embedding' as const,
      index,
      embedding: encoded(vector, asBase64),
    }))
    return { object: 'list', model: call.target.model.id, data, ...usageIn(json) } satisfies Embeddings
  },
}

function textsOf({ body: { input } }: Call<'embedding'>): string[] {
  const inputs = typeof input === 'string' ? [input] : input
  assertText(inputs, 'input')
  if (inputs.length <= maxTexts) return inputs
  throw new GatewayError('invalid_request', `This model takes at most ${maxTexts} inputs per request.`, {
    param: 'input',
  })
}

function encoded(vector: unknown, asBase64: boolean): number[] | string {
  if (!Array.isArray(vector) || vector.length === 0 || typeof vector[0] !== 'number')
    throw invalidResponse('a vector has no numbers')
  return asBase64 ? base64Vector(vector) : vector
}

function usageIn({ meta }: Record<string, unknown>): Pick<Embeddings, 'usage'> {
  const tokens = isObject(meta) && isObject(meta.billed_units) ? meta.billed_units.input_tokens : undefined
  if (!Number.isSafeInteger(tokens) || (tokens as number) < 0) return {}
  return { usage: { prompt_tokens: tokens as number, total_tokens: tokens as number } }
}
