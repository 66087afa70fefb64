import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import { type Clock, monthOf } from '../base/time.ts'
import type { Budget } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import { lockAllKeys } from '../io/organisation-locks.ts'
import type { Policies } from './policies.ts'

/** Monthly budgets of organisations and of members, whose keys they sum (docs/decisions/budgets.md). */

type Stores = { db: Database; policies: Policies; clock: Clock }

/** What a budget is of: the organisation, or the keys that one of its members created. */
export const wholeOrganisation = 'organisation'
const maxPercents = 10

export const budgetSettings = z.strictObject({
  limit_usd: z.number().min(0).max(1_000_000_000).describe('The maximum spend per UTC month.'),
  blocks: z
    .boolean()
    .default(true)
    .describe('Whether requests that do not fit are refused, as by a key’s cap; otherwise there are only alerts.'),
  alert_percents: z
    .array(z.int().min(1).max(1_000))
    .max(maxPercents)
    .default([50, 80, 100])
    .describe('Alerts are raised when so many percent of the limit are spent.'),
})
type BudgetSettings = z.output<typeof budgetSettings>

/** A budget in the format of the routes and the command line; `scope` is `organisation` or the id of a member. */
export type BudgetRecord = BudgetSettings & {
  scope: string
  spent_month_usd: number
  created_at: string
  updated_at: string
}

function settingsOf({ limitNano, blocks, alertPercents }: Budget): BudgetSettings {
  return { limit_usd: usdFromNano(limitNano), blocks, alert_percents: alertPercents }
}

const scopeOf = ({ memberId }: Pick<Budget, 'memberId'>) => memberId || wholeOrganisation
const memberOf = (scope: string) => (scope === wholeOrganisation ? '' : scope)

/** Lists an organisation's budgets, its own first, with what was spent of each this month as far as it is booked. */
export async function listBudgets({ db, clock }: Stores, organisationId: string): Promise<BudgetRecord[]> {
  const rows = await db.budget.findMany({ where: { organisationId }, orderBy: { memberId: 'asc' } })
  if (rows.length === 0) return []
  const spent = await readSpent(db, organisationId, monthOf(clock.now()))
  return rows.map(row => ({
    scope: scopeOf(row),
    ...settingsOf(row),
    spent_month_usd: usdFromNano(spent(row.memberId)),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }))
}

/** What the keys of each member spent in a month; '' = all keys. */
async function readSpent(db: Connection, organisationId: string, month: string): Promise<(memberId: string) => Nano> {
  const rows = await db.$queryRaw<{ memberId: string | null; spentNano: Nano }[]>`
    SELECT k.created_by_id AS "memberId", sum(s.spent_nano)::bigint AS "spentNano"
    FROM api_keys k JOIN key_spend s ON s.key_id = k.id AND s.month = ${month}
    WHERE k.organisation_id = ${organisationId} GROUP BY k.created_by_id`
  const sum = (memberId: string) =>
    rows.filter(row => memberId === '' || row.memberId === memberId).reduce((total, row) => total + row.spentNano, 0n)
  return sum
}

/**
 * Sets the budget of a scope. When this returns, no process admits a request without it. Throws 404 for someone who is no member, 503.
 */
export async function setBudget(
  stores: Stores,
  organisationId: string,
  scope: string,
  settings: BudgetSettings,
  actor: Actor,
): Promise<BudgetRecord> {
  const { clock } = stores
  const memberId = memberOf(scope)
  const now = new Date(clock.now())
  const data = {
    limitNano: nanoFromUsd(settings.limit_usd),
    blocks: settings.blocks,
    alertPercents: [...new Set(settings.alert_percents)].sort((a, b) => a - b),
    updatedAt: now,
  }
  await changeBudget(stores, organisationId, memberId, async (tx, before) => {
    if (!before) await assertScope(tx, organisationId, memberId)
    // Its account in Redis counts from when it begins to block: then it needs a new one.
    const id = before?.blocks ? before.id : newId('bdg')
    const where = { organisationId_memberId: { organisationId, memberId } }
    const create = { ...data, id, organisationId, memberId, createdAt: now }
    const after = await tx.budget.upsert({ where, create, update: { ...data, id } })
    const changes = changesBetween(before ? settingsOf(before) : {}, settingsOf(after))
    if (Object.keys(changes).length > 0)
      await audit(tx, { organisationId, actor, action: 'budget.set', target: { id: scope, name: scope }, changes })
  })
  return (await listBudgets(stores, organisationId)).find(budget => budget.scope === scope)!
}

/** Deletes the budget of a scope. Throws 404 if there is none. */
export async function deleteBudget(stores: Stores, organisationId: string, scope: string, actor: Actor): Promise<void> {
  if (await removeBudget(stores, organisationId, scope, actor)) return
  throw new GatewayError('not_found', `There is no budget with the scope ${scope}.`)
}

/** Removes the budget of a scope. Returns false if there is none. */
export async function removeBudget(
  stores: Stores,
  organisationId: string,
  scope: string,
  actor: Actor,
): Promise<boolean> {
  let removed = false
  await changeBudget(stores, organisationId, memberOf(scope), async (tx, before) => {
    removed = before !== null
    if (!before) return
    await tx.budget.delete({ where: { id: before.id } })
    const changes = changesBetween(settingsOf(before), { limit_usd: null, blocks: null, alert_percents: null })
    await audit(tx, { organisationId, actor, action: 'budget.removed', target: { id: scope, name: scope }, changes })
  })
  return removed
}

/** Changes a budget and the versions of the keys that it bounds, as one change of these keys. */
async function changeBudget(
  { db, policies }: Stores,
  organisationId: string,
  memberId: string,
  change: (tx: Connection, before: Budget | null) => Promise<void>,
): Promise<void> {
  const where = {
    organisationId,
    environment: 'live' as const,
    revokedAt: null,
    ...(memberId !== '' && { createdById: memberId }),
  }
  const keys = await db.apiKey.findMany({ where, select: { hash: true } })
  const hashesOf = (rows: readonly { hash: string }[]) => rows.map(({ hash }) => hash)
  const commit = async (tx: Connection) => {
    if (!(await lockAllKeys(tx, organisationId)))
      throw new GatewayError('not_found', `There is no organisation ${organisationId}.`)
    const before = await tx.budget.findUnique({ where: { organisationId_memberId: { organisationId, memberId } } })
    await change(tx, before)
    return tx.apiKey.updateManyAndReturn({ where, data: { version: { increment: 1 } }, select: { hash: true } })
  }
  await policies.applyChanges({ organisationId, hashes: hashesOf(keys) }, () => db.$transaction(commit), hashesOf)
}

async function assertScope(tx: Connection, organisationId: string, memberId: string): Promise<void> {
  if (memberId === '') return
  if (await tx.membership.findFirst({ where: { organisationId, userId: memberId }, select: { id: true } })) return
  throw new GatewayError('not_found', `There is no member ${memberId}.`, { param: 'scope' })
}
