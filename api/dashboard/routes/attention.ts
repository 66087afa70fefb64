import { z } from 'zod'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs, hourMs, utcDateOf } from '../../../shared/base/time.ts'
import type { Connection } from '../../../shared/io/db.ts'
import type { Platform } from '../../../shared/platform.ts'
import { sumUsage } from '../../../shared/wallet/usage-query.ts'
import type { UsageFilter } from '../../../shared/wallet/usage-source.ts'
import {
  type FailingHour,
  findFailureSpan,
  listCurrentFailures,
  listFailingHours,
} from '../../../shared/wallet/usage-times.ts'
import { endpoint } from '../../endpoint.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan } from '../queries/span.ts'
import { readUsageFilter, usageBound, usageFields } from '../queries/usage-filter.ts'
import { readWorkKeys } from '../queries/work.ts'
import type { Attention, Notice, OutageNotice } from '../wire/usage.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
/** Maximum notices of each kind. */
const maxNotices = 10
const maxKeys = 2_000
/** A key is shown from this share of its cap. */
const nearCap = 0.9
const expiryMs = 14 * dayMs
/** A key is shown if this share of its calls is rate limited, and at least so many. */
const limitedShare = 0.2
const minLimited = 20
const webhookMs = dayMs
const minFailedDeliveries = 3
/** The average spend of these days is what a day costs. */
const spendDays = 7
const maxCreditDays = 14

const attention = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/attention`,
  summary: 'List what needs attention now, and the outages that are over',
  query: z.strictObject(usageFields),
  answers: { 200: { description: 'Outages, caps, limits, failing webhooks and credits that run out.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<Attention> {
    const nowMs = services.clock.now()
    const { filter } = await readUsageFilter(services, organisationId, query, readSpan(query, nowMs))
    const lastHour = { ...filter, from: new Date(nowMs - hourMs), to: new Date(nowMs + 1) }
    const outages = await runSearch(services.db, usageBound, filter.organisationId, tx =>
      listOutages(tx, filter, lastHour),
    )
    const isOver = ({ to }: Outage) => to !== null
    const lists = [
      outages.filter(outage => !isOver(outage)).map(presentOutage),
      await creditsOf(services, organisationId),
      await listKeyNotices(services, organisationId),
      await listRateLimited(services, lastHour),
      await listFailingWebhooks(services, organisationId),
    ]
    return {
      notices: lists.flatMap(list => list.slice(0, maxNotices)),
      over: outages.filter(isOver).slice(0, maxNotices).map(presentOutage),
    }
  },
})

type Outage = { provider: string; from: Date; to: Date | null; failed: number; requests: number }

/** The times in which many calls failed, by provider, newest first; `to` is null while a provider fails. */
async function listOutages(tx: Connection, filter: UsageFilter, lastHour: UsageFilter): Promise<Outage[]> {
  const past = joinHours(await listFailingHours(tx, filter))
    .sort((a, b) => b.to.getTime() - a.to.getTime())
    .slice(0, 2 * maxNotices)
  const outages: Outage[] = []
  for (const outage of past) {
    const exact = await findFailureSpan(tx, filter, outage)
    if (exact) outages.push({ ...outage, from: exact.first, to: exact.last })
  }
  const current = await listCurrentFailures(tx, lastHour)
  return [
    ...current.map(({ provider, from, failed, requests }): Outage => {
      const begun = outages.find(one => one.provider === provider && one.to! >= from)
      return begun && begun.from < from
        ? { ...begun, to: null }
        : { provider, from, to: null, failed: Number(failed), requests: Number(requests) }
    }),
    ...outages.filter(one => !current.some(({ provider, from }) => one.provider === provider && one.to! >= from)),
  ]
}

/** Hours that follow each other are one outage. */
function joinHours(hours: readonly FailingHour[]): (Outage & { to: Date })[] {
  const outages: (Outage & { to: Date })[] = []
  for (const { provider, hour, failed, requests } of hours) {
    const end = new Date(hour.getTime() + hourMs)
    const last = outages.findLast(outage => outage.provider === provider)
    if (last && last.to.getTime() === hour.getTime()) {
      last.to = end
      last.failed += Number(failed)
      last.requests += Number(requests)
    } else outages.push({ provider, from: hour, to: end, failed: Number(failed), requests: Number(requests) })
  }
  return outages
}

function presentOutage({ from, to, ...outage }: Outage): OutageNotice {
  return { kind: 'failing', ...outage, from: from.toISOString(), to: to?.toISOString() ?? null }
}

/** Keys near or at their monthly cap, and keys that expire soon. */
async function listKeyNotices({ db, clock, wallets }: Platform, organisationId: string): Promise<Notice[]> {
  const nowMs = clock.now()
  const soon = { gt: new Date(nowMs), lt: new Date(nowMs + expiryMs) }
  const keys = await db.apiKey.findMany({
    where: {
      organisationId,
      revokedAt: null,
      disabled: false,
      OR: [{ monthlySpendCapNano: { not: null } }, { expiresAt: soon }],
    },
    select: { id: true, name: true, monthlySpendCapNano: true, expiresAt: true, lastUsedAt: true },
    orderBy: { lastUsedAt: { sort: 'desc', nulls: 'last' } },
    take: maxKeys,
  })
  const capped = keys.filter(({ monthlySpendCapNano }) => monthlySpendCapNano !== null)
  const spent = await wallets.monthSpend(capped.map(({ id }) => ({ id, organisationId })))
  const notices: Notice[] = []
  for (const { id, name, monthlySpendCapNano: cap, expiresAt } of keys) {
    const key = { id, name }
    const used = spent.get(id) ?? 0n
    if (cap !== null && used > 0n && Number(used) >= nearCap * Number(cap))
      notices.push({ kind: 'key_cap', key, spent_usd: usdFromNano(used), cap_usd: usdFromNano(cap) })
    if (expiresAt && expiresAt > soon.gt && expiresAt < soon.lt)
      notices.push({ kind: 'key_expiry', key, at: expiresAt.toISOString() })
  }
  return notices
}

/** Keys whose calls were often rate limited in the last hour. */
async function listRateLimited(services: Platform, filter: UsageFilter): Promise<Notice[]> {
  const grouping = {
    step: null,
    source: 'log',
    by: ['key'],
    order: 'cost',
    durations: false,
    limit: maxKeys,
  } as const
  const { rows } = await runSearch(services.db, usageBound, filter.organisationId, tx => sumUsage(tx, filter, grouping))
  const limited = rows
    .map(({ groups, requests, outcomes }) => ({ id: groups[0]!, requests, refused: outcomes.rate_limited }))
    .filter(({ requests, refused }) => refused >= minLimited && refused >= limitedShare * requests)
    .sort((a, b) => b.refused - a.refused)
    .slice(0, maxNotices)
  const keys = await readWorkKeys(
    services,
    limited.map(({ id }) => ({ keyId: id })),
  )
  return limited.map(({ id, requests, refused }) => ({
    kind: 'rate_limited',
    key: { id, name: keys.get(id)?.name ?? id },
    refused,
    requests,
  }))
}

/** Webhook URLs whose latest deliveries failed. */
async function listFailingWebhooks({ db, clock }: Platform, organisationId: string): Promise<Notice[]> {
  const rows = await db.$queryRaw<{ url: string; failed: bigint; since: Date }[]>`
    SELECT url, count(*) AS failed, min(created_at) AS since FROM webhook_deliveries d
    WHERE organisation_id = ${organisationId} AND created_at >= ${new Date(clock.now() - webhookMs)} AND status = 'failed'
      AND NOT EXISTS (
        SELECT 1 FROM webhook_deliveries later WHERE later.organisation_id = d.organisation_id AND later.url = d.url
          AND later.created_at > d.created_at AND later.status = 'delivered'
      )
    GROUP BY url HAVING count(*) >= ${minFailedDeliveries} ORDER BY failed DESC LIMIT ${maxNotices}`
  return rows.map(({ url, failed, since }) => ({
    kind: 'webhook',
    url,
    failed: Number(failed),
    since: since.toISOString(),
  }))
}

/** How long the credits last if the next days cost as much as the last ones. */
async function creditsOf({ db, clock, wallets }: Platform, organisationId: string): Promise<Notice[]> {
  const since = new Date(utcDateOf(clock.now() - spendDays * dayMs))
  const where = { organisationId, environment: 'live', day: { gte: since } } as const
  const { _sum: sum } = await db.usageDay.aggregate({ where, _sum: { costNano: true } })
  const perDayNano = Number(sum.costNano ?? 0n) / spendDays
  if (perDayNano <= 0) return []
  const { availableNano } = await wallets.view(organisationId)
  const days = Math.max(0, Number(availableNano) / perDayNano)
  return days > maxCreditDays ? [] : [{ kind: 'credits', days, per_day_usd: perDayNano / 1e9 }]
}

export const attentionRoutes = [attention]
