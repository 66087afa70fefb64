import { clearAnswers } from '../../../shared/chat/response-cache.ts'
import { endpoint } from '../../endpoint.ts'

export const clearCacheRoute = endpoint({
  tag: 'Dashboard',
  access: { permission: 'manage' },
  method: 'delete',
  path: '/dashboard/api/organisations/{organisation}/response-cache',
  summary: 'Clear the response cache',
  answers: { 200: { description: 'How many answers were removed.' } },
  async handle({ services, organisationId, actor }): Promise<{ cleared: number }> {
    return { cleared: await clearAnswers(services, organisationId, actor) }
  },
})
