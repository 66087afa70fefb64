import { budgetSettings, deleteBudget, listBudgets, setBudget } from '../../../shared/keys/budgets.ts'
import { endpoint } from '../../endpoint.ts'
import type { BudgetsAnswer } from '../wire/members.ts'

const path = '/dashboard/api/organisations/{organisation}/budgets'
const shared = {
  tag: 'Dashboard',
  access: { permission: 'manage' },
  answers: { 200: { description: 'All budgets.' } },
} as const

const list = endpoint({
  ...shared,
  access: { permission: 'view_money' },
  method: 'get',
  path,
  summary: 'List the budgets of the organisation and its members',
  async handle({ services, organisationId }): Promise<BudgetsAnswer> {
    return { data: await listBudgets(services, organisationId) }
  },
})

const set = endpoint({
  ...shared,
  method: 'put',
  path: `${path}/{scope}`,
  summary: 'Set a budget',
  body: budgetSettings,
  errors: ['not_found'],
  async handle({ services, organisationId, actor, params, body }): Promise<BudgetsAnswer> {
    await setBudget(services, organisationId, params.scope!, body, actor)
    return { data: await listBudgets(services, organisationId) }
  },
})

const remove = endpoint({
  ...shared,
  method: 'delete',
  path: `${path}/{scope}`,
  summary: 'Delete a budget',
  errors: ['not_found'],
  async handle({ services, organisationId, actor, params }): Promise<BudgetsAnswer> {
    await deleteBudget(services, organisationId, params.scope!, actor)
    return { data: await listBudgets(services, organisationId) }
  },
})

export const budgetRoutes = [list, set, remove]
