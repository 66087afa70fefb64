import { z } from 'zod'
import { operatorActor } from '../../shared/io/audit.ts'
import {
  type BudgetRecord,
  budgetSettings,
  deleteBudget,
  listBudgets,
  setBudget,
  wholeOrganisation,
} from '../../shared/keys/budgets.ts'
import { findOrganisation, number, org } from './flags.ts'
import { type Command, command } from './parse.ts'

export const budgets: Command[] = [
  command({
    name: 'budget set',
    summary: 'Bounds what an organisation, or the keys of a member, may spend per UTC month.',
    help: '--org ID --limit-usd N [--member ID] [--blocks true|false] [--alert-percents 50,80,100]',
    flags: z.strictObject({
      org,
      limit_usd: number.pipe(budgetSettings.shape.limit_usd),
      member: z.string().optional(),
      blocks: z
        .enum(['true', 'false'])
        .default('true')
        .transform(text => text === 'true'),
      alert_percents: z
        .string()
        .default('50,80,100')
        .transform(text => text.split(',').filter(Boolean).map(Number))
        .pipe(z.array(z.int().min(1).max(1_000)).max(10)),
    }),
    async run(services, { org, member = wholeOrganisation, ...settings }) {
      await findOrganisation(services, org)
      const data = await setBudget(services, org, member, settings, operatorActor)
      return { data: { data }, text: describeBudget(data) }
    },
  }),
  command({
    name: 'budget list',
    summary: 'Lists the budgets of an organisation, with what was spent of them this month.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const data = await listBudgets(services, org)
      return { data: { data }, text: data.map(describeBudget).join('\n') || 'No budgets yet.' }
    },
  }),
  command({
    name: 'budget remove',
    summary: 'Removes the budget of an organisation, or of a member.',
    help: '--org ID [--member ID]',
    flags: z.strictObject({ org, member: z.string().optional() }),
    async run(services, { org, member = wholeOrganisation }) {
      await findOrganisation(services, org)
      await deleteBudget(services, org, member, operatorActor)
      return { data: { scope: member, deleted: true }, text: 'removed' }
    },
  }),
]

function describeBudget({ scope, limit_usd, blocks, spent_month_usd }: BudgetRecord): string {
  return `${scope}  ${spent_month_usd.toFixed(2)} of ${limit_usd.toFixed(2)} USD this month${blocks ? '' : ', alerts only'}`
}
