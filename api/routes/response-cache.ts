import { z } from 'zod'
import { clearAnswers } from '../../shared/chat/response-cache.ts'
import { endpoint } from '../endpoint.ts'

export const clearResponseCache = endpoint({
  tag: 'Provisioning',
  access: 'provisioning',
  method: 'delete',
  path: '/api/v1/response-cache',
  operationId: 'clearResponseCache',
  summary: 'Clear the response cache',
  description: 'Removes all cached answers of the organisation, of live and of test keys.',
  answers: {
    200: {
      description: 'How many answers were removed.',
      schema: z
        .strictObject({ data: z.strictObject({ cleared: z.int().min(0) }) })
        .meta({ id: 'ClearedResponseCache' }),
    },
  },
  async handle({ services, organisationId, actor }) {
    return { data: { cleared: await clearAnswers(services, organisationId, actor) } }
  },
})
