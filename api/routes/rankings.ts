import { moderationFields, moderationRequest } from '../../shared/kinds/moderation.ts'
import { rerankFields, rerankRequest } from '../../shared/kinds/rerank.ts'
import { deliverModeration, deliverRanking } from '../../shared/media/rankings.ts'
import { runMedia } from '../../shared/media/run.ts'
import { omittedFieldsExcept } from '../../shared/providers/toolkit/request-fields.ts'
import { endpointWithoutKoa } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { moderationAnswer, rankingAnswer } from '../schemas/media.ts'
import { modelErrors } from './model-errors.ts'
import { labelsOf, timeoutHeader, timeoutsOf } from './request-headers.ts'

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
  async handle({ services, apiKey, requestId, body, headers, client, logFields }) {
    const dropped = omittedFieldsExcept(body, rerankFields)
    const input = {
      kind: 'rerank' as const,
      key: apiKey,
      requestId,
      body,
      dropped,
      labels: labelsOf(headers),
      timeouts: timeoutsOf(headers, body, services),
    }
    const report = await runMedia(
      services,
      { ...input, stream: false, events: false, deliver: delivery => deliverRanking(delivery, body) },
      client,
    )
    Object.assign(logFields, report)
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
  async handle({ services, apiKey, requestId, body, headers, client, logFields }) {
    const dropped = omittedFieldsExcept(body, moderationFields)
    const input = {
      kind: 'moderation' as const,
      key: apiKey,
      requestId,
      body,
      dropped,
      labels: labelsOf(headers),
      timeouts: timeoutsOf(headers, body, services),
    }
    const report = await runMedia(
      services,
      { ...input, stream: false, events: false, deliver: deliverModeration },
      client,
    )
    Object.assign(logFields, report)
  },
})
