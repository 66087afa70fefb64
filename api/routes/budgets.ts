import { z } from 'zod'
import { budgetSettings, deleteBudget, listBudgets, setBudget } from '../../shared/keys/budgets.ts'
import { endpoint } from '../endpoint.ts'
import { budget } from '../schemas/account.ts'

const shared = { tag: 'Provisioning', access: 'provisioning' } as const
const path = '/api/v1/budgets/{scope}'

const list = endpoint({
  ...shared,
  method: 'get',
  path: '/api/v1/budgets',
  operationId: 'listBudgets',
  summary: 'List budgets',
  description: 'The budgets of the organisation and of its members.',
  answers: {
    200: { description: 'All budgets.', schema: z.strictObject({ data: z.array(budget) }).meta({ id: 'BudgetList' }) },
  },
  async handle({ services, organisationId }) {
    return { data: await listBudgets(services, organisationId) }
  },
})

const set = endpoint({
  ...shared,
  method: 'put',
  path,
  operationId: 'setBudget',
  summary: 'Set a budget',
  description:
    'Bounds what live keys spend per UTC month: all keys of the organisation, if the scope is `organisation`, or those that a member created, if it is that person’s id.',
  body: budgetSettings,
  example: { limit_usd: 500, blocks: true, alert_percents: [80, 100] },
  answers: {
    200: { description: 'The budget.', schema: z.strictObject({ data: budget }).meta({ id: 'BudgetResponse' }) },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, actor, params, body }) {
    return { data: await setBudget(services, organisationId, params.scope!, body, actor) }
  },
})

const remove = endpoint({
  ...shared,
  method: 'delete',
  path,
  operationId: 'deleteBudget',
  summary: 'Delete a budget',
  answers: {
    200: {
      description: 'The budget no longer bounds anything.',
      schema: z
        .strictObject({ data: z.strictObject({ scope: z.string(), deleted: z.literal(true) }) })
        .meta({ id: 'DeletedBudget' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, actor, params }) {
    const scope = params.scope!
    await deleteBudget(services, organisationId, scope, actor)
    return { data: { scope, deleted: true } }
  },
})

export const budgetRoutes = [list, set, remove]
