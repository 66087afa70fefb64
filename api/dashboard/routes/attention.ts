import { z } from 'zod'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { Platform } from '../../../shared/platform.ts'
import { sumUsage } from '../../../shared/wallet/usage-query.ts'
import type { UsageFilter } from '../../../shared/wallet/usage-source.ts'
import { listFailingHours } from '../../../shared/wallet/usage-times.ts'
import { endpoint } from '../../endpoint.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan } from '../queries/span.ts'
import { readUsageFilter, usageBound, usageFields } from '../queries/usage-filter.ts'
import { readWorkKeys } from '../queries/work.ts'
import type { Attention, Notice } from '../wire/usage.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
const hourMs = 3_600_000
/** Of each kind. */
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
  summary: 'List what needs attention',
  query: z.strictObject(usageFields),
  answers: { 200: { description: 'Outages, caps, limits, failing webhooks and credits that run out.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<Attention> {
    const { filter } = await readUsageFilter(services, organisationId, query, readSpan(query, services.clock.now()))
    const lists = [
      await listOutages(services, filter),
      await creditsOf(services, organisationId),
      await listKeyNotices(services, organisationId),
      await listRateLimited(services, filter),
      await listFailingWebhooks(services, organisationId),
    ]
    return { notices: lists.flatMap(list => list.slice(0, maxNotices)) }
  },
})

/** The times in which many calls failed, by provider, newest first. Hours that follow each other are one outage. */
async function listOutages({ db }: Platform, filter: UsageFilter): Promise<Notice[]> {
  const hours = await runSearch(db, usageBound, tx => listFailingHours(tx, filter))
  const outages: { provider: string; fromMs: number; toMs: number; failed: number; requests: number }[] = []
  for (const { provider, hour, failed, requests } of hours) {
    const startMs = hour.getTime()
    const last = outages.findLast(outage => outage.provider === provider)
    if (last && last.toMs === startMs) {
      last.toMs += hourMs
      last.failed += Number(failed)
      last.requests += Number(requests)
    } else
      outages.push({
        provider,
        fromMs: startMs,
        toMs: startMs + hourMs,
        failed: Number(failed),
        requests: Number(requests),
      })
  }
  return outages
    .sort((a, b) => b.toMs - a.toMs)
    .map(({ fromMs, toMs, ...outage }) => ({
      kind: 'failing',
      from: new Date(fromMs).toISOString(),
      to: new Date(toMs).toISOString(),
      ...outage,
    }))
}

/** Keys near or at their monthly cap, and keys that expire soon. */
async function listKeyNotices({ db, clock, accounts }: Platform, organisationId: string): Promise<Notice[]> {
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
  const spent = await accounts.monthSpend(capped.map(({ id }) => ({ id, organisationId })))
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

/** Keys whose calls are often rate limited. */
async function listRateLimited(services: Platform, filter: UsageFilter): Promise<Notice[]> {
  const grouping = {
    step: null,
    source: 'hours',
    by: ['key'],
    order: 'cost',
    durations: false,
    limit: maxKeys,
  } as const
  const { rows } = await runSearch(services.db, usageBound, tx => sumUsage(tx, filter, grouping))
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
async function creditsOf({ db, clock, accounts }: Platform, organisationId: string): Promise<Notice[]> {
  const since = new Date(new Date(clock.now() - spendDays * dayMs).toISOString().slice(0, 10))
  const where = { organisationId, environment: 'live', day: { gte: since } } as const
  const { _sum: sum } = await db.usageDay.aggregate({ where, _sum: { costNano: true } })
  const perDayNano = Number(sum.costNano ?? 0n) / spendDays
  if (perDayNano <= 0) return []
  const { availableNano } = await accounts.view(organisationId)
  const days = Math.max(0, Number(availableNano) / perDayNano)
  return days > maxCreditDays ? [] : [{ kind: 'credits', days, per_day_usd: perDayNano / 1e9 }]
}

export const attentionRoutes = [attention]
