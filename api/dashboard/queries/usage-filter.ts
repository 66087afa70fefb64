import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { Platform } from '../../../shared/platform.ts'
import { type Outcome, outcomes } from '../../../shared/wallet/usage-hours.ts'
import { type Dimension, isOfLog, type UsageFilter, type UsageSource } from '../../../shared/wallet/usage-source.ts'
import type { UsageEnvironment } from '../wire/usage.ts'
import { type Span, spanFields } from './span.ts'
import { findKeyId } from './work.ts'

const word = z.string().trim().min(1).max(200).optional()

/** The statuses that a search in the request log can name and the sums of usage know, by their outcomes. */
export const statusOutcomes = {
  ok: ['ok'],
  error: ['rate_limited', 'refused', 'invalid', 'failed'],
  refused: ['refused'],
  invalid: ['invalid'],
  failed: ['failed'],
  429: ['rate_limited'],
  499: ['cancelled'],
} as const satisfies Record<string, readonly Outcome[]>

/** The query fields of every route that sums usage. */
export const usageFields = {
  ...spanFields,
  environment: z
    .enum(['live', 'test', 'all'])
    .optional()
    .describe('Default: `live`, or `test` while there are no live requests.'),
  key: word.describe('A key’s id or hash.'),
  member: word.describe('The id of a person: the usage of keys that they created.'),
  model: word,
  provider: word,
  type: word.describe('"chat", "image", "video" …'),
  outcome: z.enum(outcomes).optional(),
  status: z
    .enum(['ok', 'error', 'refused', 'invalid', 'failed', '429', '499'])
    .optional()
    .describe('Several outcomes, as the request log is filtered by status.'),
  tag: word.describe('The name of the tag that `tag` groups by.'),
}
type UsageFields = z.output<z.ZodObject<typeof usageFields>>

/** The filter that a query describes. Throws 404 for a key of others. */
export async function readUsageFilter(
  services: Platform,
  organisationId: string,
  { environment, key, member: memberId, outcome, status, ...wanted }: UsageFields,
  { from, to }: Span,
): Promise<{ filter: UsageFilter; environment: UsageEnvironment }> {
  const [chosen, keyId] = await Promise.all([
    environment ?? usualEnvironment(services, organisationId, from),
    key === undefined ? undefined : findKeyId(services, organisationId, key),
  ])
  const own = chosen === 'all' ? undefined : chosen
  const { model, provider, type, tag } = wanted
  const among = outcome ? [outcome] : status && statusOutcomes[status]
  const filter = {
    organisationId,
    from,
    to,
    environment: own,
    keyId,
    memberId,
    model,
    provider,
    type,
    tag,
    outcomes: among,
  }
  return { filter, environment: chosen }
}

/** The environment to show by default: test if only that was used since a time. */
async function usualEnvironment({ db }: Platform, organisationId: string, since: Date): Promise<'live' | 'test'> {
  const day = { gte: new Date(since.toISOString().slice(0, 10)) }
  const isUsed = (environment: 'live' | 'test') =>
    db.usageDay.findFirst({ where: { organisationId, environment, day }, select: { day: true } })
  if (await isUsed('live')) return 'live'
  return (await isUsed('test')) ? 'test' : 'live'
}

/** The longest time over which the request log is summed. */
const maxLogMs = 31 * dayMs

/**
 * Where usage by these dimensions is summed from. Throws 400 if it is the request log and the time is too long, or if the tag
 * has no name.
 */
export function sourceOf(
  by: readonly Dimension[],
  { from, to }: { from: Date; to: Date },
  tag: string | undefined,
  usual: UsageSource = 'hours',
): UsageSource {
  if (by.includes('tag') && tag === undefined)
    throw new GatewayError('missing_field', 'Name the `tag` to group by.', { param: 'tag' })
  if (!by.some(isOfLog)) return usual
  if (to.getTime() - from.getTime() <= maxLogMs) return 'log'
  const message = 'Usage by end user or tag is available for at most 31 days at a time.'
  throw new GatewayError('invalid_request', message, { param: 'from' })
}

/** Timeout: organisations with thousands of keys have millions of hours. */
export const usageBound = { ms: 5_000, param: 'from' }
