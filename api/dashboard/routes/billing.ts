import { Readable } from 'node:stream'
import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs, monthOf } from '../../../shared/base/time.ts'
import type { TopUp as TopUpRow } from '../../../shared/generated/prisma/client.ts'
import type { Services } from '../../../shared/services.ts'
import { referenceOf, topUpCause } from '../../../shared/wallet/causes.ts'
import { isCursor, monthTotals, type StatementLine, statementLines } from '../../../shared/wallet/statement.ts'
import { endpoint } from '../../endpoint.ts'
import { walletJson } from '../../routes/account.ts'
import { pageOf, paging } from '../../routes/paging.ts'
import { statementCsv } from '../statement-csv.ts'
import type { Billing, LedgerLine, LedgerPage, MonthTotals, StartedTopUp, TopUp, TopUpsPage } from '../wire/billing.ts'
import { within } from './bounded.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
const minimumUsd = 5
const maximumUsd = 10_000
/** For adding up a month of many millions of charges. */
const summing = { ms: 6_000, param: 'month' }
const mostMonths = 12

const billing = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing`,
  summary: 'The wallet, and how credits are bought',
  answers: { 200: { description: 'The wallet and the bounds of a payment.' } },
  async handle({ services: { accounts, config }, organisationId }): Promise<Billing> {
    const { object: _, ...wallet } = walletJson(await accounts.view(organisationId))
    const payments = config.stripe && {
      minimum_usd: minimumUsd,
      maximum_usd: maximumUsd,
      ach_hold_days: config.stripe.achHoldMs / dayMs,
    }
    return { wallet, payments }
  },
})

const createTopUp = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/top-ups`,
  summary: 'Begin to buy credits',
  access: { role: 'owner' },
  body: z.strictObject({
    amount_usd: z.number().min(minimumUsd).max(maximumUsd).multipleOf(0.01).describe('In whole cents.'),
  }),
  answers: { 201: { description: 'The page of the payment provider where it is paid.' } },
  errors: ['email_not_verified', 'rate_limit_exceeded', 'upstream_error', 'upstream_invalid_response'],
  handle({ services, organisationId, person, actor, body }): Promise<StartedTopUp> {
    if (!person.emailVerified) throw new GatewayError('email_not_verified', 'Confirm your email address first.')
    const amountCents = Math.round(body.amount_usd * 100)
    return services.topUps.begin({ organisationId, actor, email: person.email, amountCents })
  },
})

const listTopUps = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/top-ups`,
  summary: 'Payments, newest first',
  query: z.strictObject(paging),
  answers: { 200: { description: 'A page of them.' } },
  handle({ services, organisationId, query }): Promise<TopUpsPage> {
    // What has no page to pay at was never begun.
    const where = { organisationId, checkoutSessionId: { not: null } }
    return pageOf(
      query,
      ({ limit, order, after }) =>
        services.db.topUp.findMany({
          where: { ...where, ...(after && { id: order === 'asc' ? { gt: after } : { lt: after } }) },
          orderBy: { id: order },
          take: limit,
        }),
      rows => presentTopUps(services, rows),
    )
  },
})

const readTopUp = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/top-ups/{id}`,
  summary: 'One payment',
  answers: { 200: { description: 'How it stands.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<TopUp> {
    const row = await services.db.topUp.findFirst({ where: { id: params.id!, organisationId } })
    if (!row) throw new GatewayError('not_found', 'There is no such payment.')
    return (await presentTopUps(services, [row]))[0]!
  },
})

async function presentTopUps({ db }: Services, rows: TopUpRow[]): Promise<TopUp[]> {
  const people = rows.flatMap(({ userId }) => userId ?? [])
  const causes = rows.map(({ id }) => topUpCause(id, 'payment'))
  const [users, deposits] = await Promise.all([
    db.user.findMany({ where: { id: { in: people } }, select: { id: true, email: true } }),
    db.ledgerEntry.findMany({ where: { cause: { in: causes } }, select: { cause: true, availableAt: true } }),
  ])
  const emails = new Map(users.map(({ id, email }) => [id, email]))
  const releases = new Map(deposits.map(({ cause, availableAt }) => [cause, availableAt]))
  return rows.map(row => ({
    id: row.id,
    status: row.status,
    amount_usd: usdFromNano(row.amountNano),
    returned_usd: usdFromNano(row.returnedNano),
    method: row.method as TopUp['method'],
    available_at: releases.get(topUpCause(row.id, 'payment'))?.toISOString() ?? null,
    created_at: row.createdAt.toISOString(),
    created_by: emails.get(row.userId ?? '') ?? null,
  }))
}

const month = z.string().regex(/^20\d\d-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-11')
const ledgerFilter = {
  kind: z.enum(['deposit', 'charge', 'excess', 'refund', 'adjustment']).optional(),
  detail: z.enum(['days', 'entries']).default('days').describe('`days`: charges are summed by day and key.'),
}

const ledger = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/ledger`,
  summary: 'The ledger of a month',
  query: z.strictObject({ ...paging, ...ledgerFilter, month: month.optional() }),
  answers: { 200: { description: 'A page of its lines.' } },
  handle({ services: { db, clock }, organisationId, query }): Promise<LedgerPage> {
    const { kind, detail, month = monthOf(clock.now()), after } = query
    if (after !== undefined && !isCursor(after, detail))
      throw new GatewayError('invalid_request', '`after` is the id of no line of this list.', { param: 'after' })
    return pageOf(
      query,
      page => within(db, summing, tx => statementLines(tx, { ...page, organisationId, month, detail, kind })),
      async lines => lines.map(presentLine),
    )
  },
})

function presentLine(line: StatementLine): LedgerLine {
  const { reference, event } = line.cause === null ? { reference: null, event: null } : referenceOf(line.cause)
  return {
    id: line.cursor,
    at: line.at.toISOString(),
    kind: line.kind,
    event,
    amount_usd: usdFromNano(line.amountNano),
    entries: line.entries,
    key: line.keyId === null ? null : { id: line.keyId, name: line.keyName ?? line.keyId },
    method: line.method,
    available_at: line.availableAt?.toISOString() ?? null,
    reference,
    note: line.note,
  }
}

const totals = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/totals`,
  summary: 'What a month brought and took',
  query: z.strictObject({ month: month.optional() }),
  answers: { 200: { description: 'The sums by kind.' } },
  async handle({ services: { db, clock }, organisationId, query }): Promise<MonthTotals> {
    const { month = monthOf(clock.now()) } = query
    const { deposit, charge, excess, refund, adjustment } = await within(db, summing, tx =>
      monthTotals(tx, organisationId, month),
    )
    return {
      month,
      deposits_usd: usdFromNano(deposit),
      charges_usd: usdFromNano(charge),
      excess_usd: usdFromNano(excess),
      refunds_usd: usdFromNano(refund),
      adjustments_usd: usdFromNano(adjustment),
    }
  },
})

const ledgerFile = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/ledger.csv`,
  summary: 'The ledger of some months as a file',
  query: z.strictObject({ ...ledgerFilter, from: month, to: month }),
  answers: { 200: { description: 'Its lines, oldest first.', contentType: 'text/csv' } },
  handle({ services: { db }, organisationId, query: { from, to, ...wanted }, ctx }) {
    const months = monthsOf(to) - monthsOf(from) + 1
    if (months < 1 || months > mostMonths)
      throw new GatewayError('invalid_request', `\`to\` is at most ${mostMonths - 1} months after \`from\`.`, {
        param: 'to',
      })
    const name = `ledger-${from === to ? from : `${from}-${to}`}.csv`
    ctx.set({ 'content-type': 'text/csv; charset=utf-8', 'content-disposition': `attachment; filename="${name}"` })
    ctx.body = Readable.from(statementCsv(db, { ...wanted, organisationId, from, to }))
  },
})

function monthsOf(month: string): number {
  return Number(month.slice(0, 4)) * 12 + Number(month.slice(5))
}

export const billingRoutes = [billing, createTopUp, listTopUps, readTopUp, ledger, totals, ledgerFile]
