import { moderationFields, moderationRequest } from '../../shared/kinds/moderation.ts'
import { rerankFields, rerankRequest } from '../../shared/kinds/rerank.ts'
import { deliverModeration, deliverRanking } from '../../shared/media/rankings.ts'
import { omittedFieldsExcept } from '../../shared/providers/toolkit/request-fields.ts'
import { endpointWithoutKoa } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { moderationAnswer, rankingAnswer } from '../schemas/media.ts'
import { modelErrors } from './model-errors.ts'
import { timeoutHeader } from './request-headers.ts'
import { runMediaRequest } from './run-media-request.ts'

export const createRanking = endpointWithoutKoa({
  method: 'post',
  path: '/v1/rerank',
  aliases: ['/v2/rerank'],
  operationId: 'createRanking',
  tag: 'Rerank',
  summary: 'Rank documents',
  description:
    'Ranks documents by their relevance to a query, in the shape of Cohere and Jina. Billed per search unit or per token, depending on the model. Other fields are left out and named in `x-gateway-dropped`.',
  access: { scope: '*' },
  headers: [timeoutHeader],
  body: rerankRequest,
  example: {
    model: 'rerank-v3.5',
    query: 'When does the library open?',
    documents: ['The library opens at nine.', 'Cats sleep a lot.'],
    top_n: 1,
  },
  answers: { 200: { description: 'The results, best first.', schema: rankingAnswer, headers: generationHeaders } },
  errors: [...modelErrors],
  handle(request) {
    const { body } = request
    const dropped = omittedFieldsExcept(body, rerankFields)
    return runMediaRequest(request, {
      kind: 'rerank',
      body,
      dropped,
      deliver: delivery => deliverRanking(delivery, body),
    })
  },
})

export const createModeration = endpointWithoutKoa({
  method: 'post',
  path: '/v1/moderations',
  operationId: 'createModeration',
  tag: 'Moderations',
  summary: 'Create a moderation',
  description:
    'Says whether texts and images are harmful, and how, in OpenAI’s shape. Free of charge; it counts against the key’s requests per minute.',
  access: { scope: '*' },
  headers: [timeoutHeader],
  body: moderationRequest,
  example: { model: 'omni-moderation-latest', input: 'I want to bake a cake.' },
  answers: { 200: { description: 'A result for each input.', schema: moderationAnswer, headers: generationHeaders } },
  errors: [...modelErrors],
  handle(request) {
    const { body } = request
    const dropped = omittedFieldsExcept(body, moderationFields)
    return runMediaRequest(request, { kind: 'moderation', body, dropped, deliver: deliverModeration })
  },
})
