import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { dayMs } from '../../shared/base/time.ts'
import { maxAgeDays } from '../../shared/feedback/feedback.ts'
import type { Feedback } from '../../shared/generated/prisma/client.ts'
import { endpoint } from '../endpoint.ts'
import { feedback } from '../schemas/account.ts'
import { findGeneration } from './account.ts'

const maxComment = 2_000

/** PostgreSQL stores no NUL. */
const storable = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .refine(text => !text.includes('\0'), 'contains a NUL character')

const newFeedback = z
  .strictObject({
    generation_id: storable(200).min(1).describe('The `x-generation-id` header, or the `id`, of a response.'),
    score: z.number().min(-1).max(1).describe('From -1 (bad) to 1 (good).'),
    comment: storable(maxComment).nullish().describe('Stored and shown in the dashboard; not interpreted.'),
  })
  .meta({ id: 'CreateFeedbackRequest' })

export const createFeedback = endpoint({
  method: 'post',
  path: '/v1/feedback',
  operationId: 'createFeedback',
  tag: 'Chat',
  summary: 'Score a response',
  description: `Records how good a response was. \`auto\` prefers models whose responses were scored higher. A later score of the same response by the same key replaces the earlier one. Responses can be scored for ${maxAgeDays} days by the keys of their organisation and environment.`,
  access: { scope: 'chat' },
  free: true,
  body: newFeedback,
  example: { generation_id: 'chatcmpl-0mib2v9zk4f8x2m1q7w5e3r9', score: 1, comment: 'Answered the question.' },
  answers: { 200: { description: 'The score as it is stored.', schema: feedback } },
  errors: ['not_found'],
  async handle({ services, apiKey, body }) {
    const { policy } = apiKey
    const since = new Date(services.clock.now() - maxAgeDays * dayMs)
    const generation = await findGeneration(services, policy, { id: body.generation_id, since })
    if (!generation) {
      const message = `No such response of the last ${maxAgeDays} days.`
      throw new GatewayError('not_found', message, { param: 'generation_id' })
    }
    const { score, comment = null } = body
    return presentFeedback(await services.feedback.record(policy, generation, { score, comment }))
  },
})

/** Presents a score, for every route that shows one. */
function presentFeedback(row: Feedback) {
  return {
    object: 'feedback' as const,
    generation_id: row.generationId,
    model: row.model,
    provider: row.provider,
    score: row.score,
    comment: row.comment,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }
}
