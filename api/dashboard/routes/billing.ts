import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs, monthOf } from '../../../shared/base/time.ts'
import type { TopUp as TopUpRow } from '../../../shared/generated/prisma/client.ts'
import type { Platform } from '../../../shared/platform.ts'
import { referenceOf, topUpCause } from '../../../shared/wallet/causes.ts'
import {
  daysOfMonth,
  getStatementTotals,
  isCursor,
  listStatementLines,
  type Period,
  type StatementLine,
  type Subtotal,
} from '../../../shared/wallet/statement.ts'
import { endpoint } from '../../endpoint.ts'
import { presentWallet } from '../../routes/account.ts'
import { paging, readPage } from '../../routes/paging.ts'
import { runSearch } from '../queries/run-search.ts'
import { exportName, exportReader, sendFile } from '../row-export.ts'
import { statementCsv } from '../statement-csv.ts'
import { statementPdf } from '../statement-pdf.ts'
import type {
  Billing,
  LedgerLine,
  LedgerPage,
  StartedTopUp,
  StatementTotals,
  SubtotalLine,
  TopUp,
  TopUpsPage,
} from '../wire/billing.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'view_money' } } as const
/** Of one payment. */
export const minimumUsd = 5
export const maximumUsd = 10_000
/** Timeout for adding up a period of many millions of charges. */
const summing = { ms: 6_000, param: 'from' }
const maxDays = 366

const billing = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing`,
  summary: 'Retrieve the wallet and payment methods',
  answers: { 200: { description: 'The wallet and the limits of a payment.' } },
  async handle({ services: { wallets, config }, organisationId }): Promise<Billing> {
    const { object: _, ...wallet } = presentWallet(await wallets.view(organisationId))
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
  summary: 'Create a top-up',
  access: { permission: 'pay' },
  body: z.strictObject({
    amount_usd: z.number().min(minimumUsd).max(maximumUsd).multipleOf(0.01).describe('In whole cents.'),
  }),
  answers: { 201: { description: 'The checkout page of the payment provider.' } },
  errors: ['email_not_verified', 'rate_limit_exceeded', 'upstream_error', 'upstream_invalid_response'],
  handle({ services, organisationId, person, actor, body }): Promise<StartedTopUp> {
    if (!person.emailVerified) throw new GatewayError('email_not_verified', 'Confirm your email address first.')
    const amountCents = Math.round(body.amount_usd * 100)
    return services.topUps.createCheckout({ organisationId, actor, email: person.email, amountCents })
  },
})

const listTopUps = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/top-ups`,
  summary: 'List top-ups, newest first',
  query: z.strictObject(paging),
  answers: { 200: { description: 'A page of top-ups.' } },
  handle({ services, organisationId, query }): Promise<TopUpsPage> {
    // One of a person without a checkout page never started.
    const where = { organisationId, OR: [{ checkoutSessionId: { not: null } }, { automatic: true }] }
    return readPage(
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
  summary: 'Retrieve a top-up',
  answers: { 200: { description: 'The top-up.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<TopUp> {
    const row = await services.db.topUp.findFirst({ where: { id: params.id!, organisationId } })
    if (!row) throw new GatewayError('not_found', 'No such payment.')
    return (await presentTopUps(services, [row]))[0]!
  },
})

async function presentTopUps({ db }: Platform, rows: TopUpRow[]): Promise<TopUp[]> {
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
    automatic: row.automatic,
    failure: row.failureCode,
  }))
}

const month = z.string().regex(/^20\d\d-(0[1-9]|1[0-2])$/, 'must be a month such as 2026-11')
const monthOrDay = z.union(
  [month, z.iso.date().startsWith('20')],
  'must be a UTC day or month such as 2026-11-30 or 2026-11',
)
const periodFields = {
  month: month.optional().describe('Short for the days of a month. Default: the current one.'),
  from: monthOrDay.optional(),
  to: monthOrDay.optional().describe('Included.'),
}
const ledgerFilter = {
  kind: z.enum(['deposit', 'charge', 'excess', 'refund', 'adjustment']).optional(),
  detail: z.enum(['days', 'entries']).default('days').describe('`days`: charges are grouped by day and key.'),
}

type PeriodQuery = { month?: string | undefined; from?: string | undefined; to?: string | undefined }

/** The days that a query asks for. Throws 400. */
function periodOf({ month, from, to }: PeriodQuery, nowMs: number): Period {
  if (from === undefined && to === undefined) return daysOfMonth(month ?? monthOf(nowMs))
  if (month !== undefined || from === undefined || to === undefined)
    throw new GatewayError('invalid_request', 'Give `from` and `to`, or `month` alone.', {
      param: from ? 'to' : 'from',
    })
  const isMonth = (text: string) => text.length === 7
  const period = {
    from: isMonth(from) ? daysOfMonth(from).from : from,
    to: isMonth(to) ? daysOfMonth(to).to : to,
  }
  const days = (Date.parse(period.to) - Date.parse(period.from)) / dayMs + 1
  if (days >= 1 && days <= maxDays) return period
  throw new GatewayError('invalid_request', `\`to\` must be ${maxDays - 1} days after \`from\` at most.`, {
    param: 'to',
  })
}

const ledger = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/ledger`,
  summary: 'List ledger entries of a period',
  query: z.strictObject({ ...paging, ...ledgerFilter, ...periodFields }),
  answers: { 200: { description: 'A page of entries.' } },
  handle({ services: { db, clock }, organisationId, query }): Promise<LedgerPage> {
    const { kind, detail, after } = query
    const period = periodOf(query, clock.now())
    if (after !== undefined && !isCursor(after, detail))
      throw new GatewayError('invalid_request', '`after` is not the id of an entry of this list.', { param: 'after' })
    return readPage(
      query,
      page =>
        runSearch(db, summing, organisationId, tx =>
          listStatementLines(tx, { ...page, ...period, organisationId, detail, kind, balances: true }),
        ),
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
    late_from: line.lateFrom,
    balance_usd: line.balanceNano === null ? null : usdFromNano(line.balanceNano),
  }
}

const totals = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/totals`,
  summary: 'Retrieve the balances, totals and subtotals of a period',
  query: z.strictObject(periodFields),
  answers: { 200: { description: 'The balances, and the sums by kind, day, key and member.' } },
  async handle({ services: { db, clock }, organisationId, query }): Promise<StatementTotals> {
    const period = periodOf(query, clock.now())
    const sums = await runSearch(db, summing, organisationId, tx => getStatementTotals(tx, organisationId, period))
    return {
      ...period,
      currency: 'usd',
      opening_usd: usdFromNano(sums.opening),
      deposits_usd: usdFromNano(sums.deposit),
      charges_usd: usdFromNano(sums.charge),
      excess_usd: usdFromNano(sums.excess),
      refunds_usd: usdFromNano(sums.refund),
      adjustments_usd: usdFromNano(sums.adjustment),
      closing_usd: usdFromNano(sums.closing),
      late_usd: usdFromNano(sums.late),
      closes_at: sums.closesAt.toISOString(),
      closed: sums.closed,
      days: sums.days.map(presentSubtotal),
      keys: sums.keys.map(presentSubtotal),
      members: sums.members.map(presentSubtotal),
    }
  },
})

function presentSubtotal({ id, name, isRest, amountNano, entries }: Subtotal): SubtotalLine {
  return { id, name, is_rest: isRest, amount_usd: usdFromNano(amountNano), entries }
}

const ledgerFile = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/ledger.csv`,
  summary: 'Export the ledger as CSV',
  query: z.strictObject({ ...ledgerFilter, ...periodFields }),
  answers: { 200: { description: 'The entries between both balances, oldest first.', contentType: 'text/csv' } },
  async handle({ services: { db, clock }, organisationId, query: { kind, detail, ...query }, ctx }) {
    const period = periodOf(query, clock.now())
    const name = await exportName(db, organisationId, kind ?? 'statement', period.from, 'to', period.to)
    const lines = statementCsv(db, { ...period, organisationId, kind, detail }, exportReader(ctx))
    await sendFile(ctx, `${name}.csv`, 'csv', lines)
  },
})

const statementFile = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/billing/statement.pdf`,
  summary: 'Export the statement as PDF',
  query: z.strictObject({ detail: ledgerFilter.detail, ...periodFields }),
  answers: { 200: { description: 'The statement.', contentType: 'application/pdf' } },
  errors: ['service_unavailable'],
  async handle({ services: { db, clock, config }, organisationId, query: { detail, ...query }, ctx }) {
    const nowMs = clock.now()
    const period = periodOf(query, nowMs)
    const name = await exportName(db, organisationId, 'statement', period.from, 'to', period.to)
    const wanted = { ...period, organisationId, detail }
    const draw = async () => [await statementPdf(db, wanted, config.statement, new Date(nowMs))]
    const [file] = await exportReader(ctx)(draw)
    if (!file) return
    ctx.set({ 'content-type': 'application/pdf', 'content-disposition': `attachment; filename="${name}.pdf"` })
    ctx.body = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  },
})

export const billingRoutes = [billing, createTopUp, listTopUps, readTopUp, ledger, totals, ledgerFile, statementFile]
