import type { Call, Protocol, UpstreamRequest } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { cohereForm, rerankAdapter } from '../../toolkit/rerank.ts'
import { chat } from '../openai/chat.ts'
import { failure } from '../openai/failure.ts'
import { embedding } from './embedding.ts'

/** Where Cohere speaks OpenAI's dialect (docs.cohere.com/docs/compatibility-api). */
const compatible = '/compatibility/v1'

function chatRequest(call: Call<'chat'>): UpstreamRequest {
  const request = chat.request(withItsFormat(call))
  return { ...request, path: compatible + request.path }
}

/** A JSON schema is a member of the format `json_object` there. */
function withItsFormat(call: Call<'chat'>): Call<'chat'> {
  const { response_format: format } = call.body
  if (format?.type !== 'json_schema') return call
  const { schema } = format.json_schema
  const response_format = { type: 'json_object' as const, ...(schema && { schema }) }
  return { ...call, raw: null, body: { ...call.body, response_format } }
}

/**
 * Cohere's own API (`cohere-ai`) for embeddings, which in OpenAI's dialect have neither types nor dimensions, and for rankings;
 * chat is in OpenAI's dialect.
 */
export const cohere: Protocol = {
  direct: {
    chat: fittedChat({ ...chat, request: chatRequest }),
    embedding,
  },
  synchronous: { rerank: rerankAdapter(() => cohereForm) },
  credentialCheck: () => ({ path: '/v1/models?page_size=1' }),
  failure,
}
