import { z } from 'zod'
import { csvLine } from '../../shared/base/csv.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import { usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import type { Platform } from '../../shared/platform.ts'
import { sumUsage, type UsageSum } from '../../shared/wallet/usage-query.ts'
import { type Dimension, dimensions } from '../../shared/wallet/usage-source.ts'
import { runSearch } from '../dashboard/queries/run-search.ts'
import { sourceOf } from '../dashboard/queries/usage-filter.ts'
import { endpoint } from '../endpoint.ts'
import { usageList } from '../schemas/usage.ts'

const groupable = dimensions
const maxGroups = 2
const maxRows = 10_000
const maxOffset = 1_000_000
const usualDays = 30
/** Timeout: organisations with thousands of keys have millions of hours. */
const bound = { ms: 5_000, param: 'from' }

const word = z.string().min(1).max(200).optional()
const groupBy = z
  .string()
  .max(100)
  .optional()
  .describe(`At most ${maxGroups} of ${groupable.map(name => `\`${name}\``).join(', ')}, separated by commas.`)

const query = z.strictObject({
  from: z.iso
    .datetime({ offset: true })
    .optional()
    .describe(`The beginning; the first period is the one that contains it. Default: ${usualDays} days ago.`),
  to: z.iso.datetime({ offset: true }).optional().describe('The end, exclusive. Default: now.'),
  granularity: z
    .enum(['hour', 'day', 'week', 'month', 'total'])
    .default('day')
    .describe('The length of a period, in UTC; `total`: the whole time.'),
  group_by: groupBy,
  environment: z.enum(['live', 'test']).optional().describe('Only requests of live or of test keys.'),
  key: word.describe('Only requests of the key with this `hash`.'),
  model: word.describe('Only requests to this model.'),
  provider: word.describe('Only requests that this provider served.'),
  type: word.describe('Only requests of this kind, such as `chat` or `image`.'),
  tag: word.describe('The name of the tag that `group_by=tag` groups by.'),
  limit: z.coerce.number().int().min(1).max(maxRows).default(1_000).describe('The maximum number of rows.'),
  offset: z.coerce.number().int().min(0).max(maxOffset).default(0).describe('The number of rows to skip.'),
  format: z.enum(['json', 'csv']).default('json').describe('`csv`: the same rows as a CSV file.'),
})

export const readUsage = endpoint({
  method: 'get',
  path: '/api/v1/usage',
  operationId: 'getUsage',
  tag: 'Provisioning',
  summary: 'Retrieve usage',
  description:
    'Sums requests, tokens and cost by period and by up to two properties, oldest first. A request, session or job counts in the period in which it began, a line of a batch at its provider when its result was read; refunds lower that period. The month of the ledger and of caps can be another one for sessions, such lines and late charges. Periods and groups without requests are omitted. Hours are kept as long as the request log. Sums by end user and tag take at most 31 days at a time.',
  access: 'provisioning',
  query,
  answers: {
    200: { description: 'The sums.', schema: usageList, also: ['text/csv'] },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, query: { granularity, group_by, limit, offset, format, ...wanted }, ctx }) {
    const by = dimensionsOf(group_by)
    const { from, to } = spanOf(services, wanted)
    const { environment, model, provider, type, tag } = wanted
    const keyId = wanted.key === undefined ? undefined : (await services.keys.get(organisationId, wanted.key)).id
    const filter = { organisationId, from, to, environment, keyId, model, provider, type, tag }
    const step = granularity === 'total' ? null : granularity
    const grouping = { step, source: sourceOf(by, filter, tag), by, order: 'time', limit: limit + 1, offset } as const
    const { rows: sums } = await runSearch(services.db, bound, organisationId, tx => sumUsage(tx, filter, grouping))
    const rows = await presentGroups(services, sums.slice(0, limit), by)
    if (format === 'json') return { object: 'list', data: rows, has_more: sums.length > limit }
    ctx.set({ 'content-type': 'text/csv; charset=utf-8', 'content-disposition': 'attachment; filename="usage.csv"' })
    ctx.body = usageCsv(rows, by)
  },
})

function dimensionsOf(text: string | undefined): Dimension[] {
  const names = text === undefined || text === '' ? [] : text.split(',').map(name => name.trim())
  const isKnown = (name: string): name is Dimension => (groupable as readonly string[]).includes(name)
  if (names.length <= maxGroups && new Set(names).size === names.length && names.every(isKnown)) return names
  const message = `\`group_by\` takes at most ${maxGroups} different ones of ${groupable.join(', ')}.`
  throw new GatewayError('invalid_request', message, { param: 'group_by' })
}

function spanOf({ clock }: Platform, { from, to }: { from?: string | undefined; to?: string | undefined }) {
  const untilMs = to === undefined ? clock.now() + 1 : Date.parse(to)
  const sinceMs = from === undefined ? untilMs - usualDays * dayMs : Date.parse(from)
  if (sinceMs >= 0 && untilMs > sinceMs) return { from: new Date(sinceMs), to: new Date(untilMs) }
  throw new GatewayError('invalid_request', '`to` must be after `from`.', { param: 'to' })
}

type Groups = Partial<Record<Dimension, string | { hash: string; name: string } | { id: string; name: string } | null>>

/** Presents sums with the names of their groups. */
async function presentGroups({ db }: Platform, sums: readonly UsageSum[], by: readonly Dimension[]) {
  const at = by.indexOf('key')
  const ids = at < 0 ? [] : [...new Set(sums.map(({ groups }) => groups[at]!))]
  const keys = await db.apiKey.findMany({ where: { id: { in: ids } }, select: { id: true, hash: true, name: true } })
  const keyOf = new Map(keys.map(({ id, ...key }) => [id, key]))
  const memberAt = by.indexOf('member')
  const makers = memberAt < 0 ? [] : [...new Set(sums.map(({ groups }) => groups[memberAt]!))]
  const people = await db.user.findMany({ where: { id: { in: makers } }, select: { id: true, name: true } })
  const memberOf = new Map(people.map(person => [person.id, person]))
  return sums.map(sum => {
    const groups: Groups = {}
    for (const [i, name] of by.entries()) {
      const value = sum.groups[i]!
      if (name === 'key') groups.key = keyOf.get(value) ?? null
      else groups[name] = (name === 'member' ? memberOf.get(value) : value) || null
    }
    return { start: sum.start?.toISOString() ?? null, ...groups, ...presentSums(sum) }
  })
}

/** Presents the figures of a sum. */
export function presentSums(sum: UsageSum) {
  return {
    requests: sum.requests,
    ...sum.outcomes,
    cost_usd: usdFromNano(sum.costNano),
    cache_discount_usd: usdFromNano(sum.cacheDiscountNano),
    prompt_tokens: sum.promptTokens,
    cached_tokens: sum.cachedTokens,
    completion_tokens: sum.completionTokens,
    reasoning_tokens: sum.reasoningTokens,
    latency_p50_ms: sum.latency.p50Ms,
    latency_p95_ms: sum.latency.p95Ms,
    first_byte_p50_ms: sum.firstToken.p50Ms,
    first_byte_p95_ms: sum.firstToken.p95Ms,
  }
}

/** Rows of sums as a CSV file, with a column for each group. */
export function usageCsv(
  rows: readonly ({ start: string | null } & Groups & object)[],
  by: readonly Dimension[],
): string {
  const [first] = rows
  const figures = first ? Object.keys(first).filter(name => name !== 'start' && !by.includes(name as Dimension)) : []
  const names = ['start', ...by, ...figures]
  const cellOf = (value: unknown) =>
    typeof value === 'object' && value !== null ? (value as { name: string }).name : (value as string | number | null)
  const lines = rows.map(row => csvLine(names.map(name => cellOf((row as Record<string, unknown>)[name] ?? null))))
  return [csvLine(names), ...lines].join('')
}
