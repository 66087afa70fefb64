import { z } from 'zod'
import { outcomes } from '../../shared/wallet/usage-hours.ts'

const count = z.int().min(0)
const milliseconds = z.int().min(0).nullable()
const meanings: Record<(typeof outcomes)[number], string> = {
  ok: 'Requests that succeeded.',
  cancelled: 'Requests whose client disconnected.',
  rate_limited: 'Requests refused with 429.',
  refused: 'Requests refused with 401, 402 or 403.',
  invalid: 'Requests refused with another 4xx.',
  failed: 'Requests that ended with 5xx.',
}

const usageRow = z
  .strictObject({
    start: z.iso.datetime().nullable().describe('The start of the period; null with `granularity=total`.'),
    key: z
      .strictObject({ hash: z.string(), name: z.string() })
      .nullable()
      .optional()
      .describe('With `group_by=key`. Null if the key no longer exists.'),
    model: z
      .string()
      .nullable()
      .optional()
      .describe('With `group_by=model`. Null for refused calls of no known model.'),
    provider: z.string().nullable().optional().describe('With `group_by=provider`. Null if no provider was called.'),
    type: z.string().nullable().optional().describe('With `group_by=type`: `chat`, `image` …'),
    member: z
      .strictObject({ id: z.string(), name: z.string() })
      .nullable()
      .optional()
      .describe('With `group_by=member`: who created the key. Null if it was not a person, or the person has left.'),
    end_user: z.string().nullable().optional().describe('With `group_by=end_user`. Null if the request named none.'),
    tag: z
      .string()
      .nullable()
      .optional()
      .describe('With `group_by=tag`: the value of the tag `tag`. Null for requests without it.'),
    environment: z.string().nullable().optional().describe('With `group_by=environment`: `live` or `test`.'),
    outcome: z.string().nullable().optional().describe('With `group_by=outcome`: the name of one of the counts below.'),
    requests: count.describe('All answered requests.'),
    ...(Object.fromEntries(outcomes.map(name => [name, count.describe(meanings[name])])) as Record<
      (typeof outcomes)[number],
      z.ZodInt
    >),
    cost_usd: z.number().describe('USD charged, less refunds.'),
    cache_discount_usd: z
      .number()
      .describe(
        'USD that providers’ caches saved: what the same tokens cost without them, less `cost_usd`. Negative where writing to caches cost more than reading saved.',
      ),
    prompt_tokens: count,
    cached_tokens: count.describe('Those of `prompt_tokens` that providers read from their caches.'),
    completion_tokens: count,
    reasoning_tokens: count.describe('Those of `completion_tokens` spent on reasoning.'),
    latency_p50_ms: milliseconds.describe(
      'The median duration of successful requests, without queued work and sessions, accurate to 2 %: at least the shortest and at most the longest of them.',
    ),
    latency_p95_ms: milliseconds,
    first_byte_p50_ms: milliseconds.describe('The median time to the first token of those that were streamed.'),
    first_byte_p95_ms: milliseconds,
  })
  .meta({ id: 'UsageRow' })

export const usageList = z
  .strictObject({
    object: z.literal('list'),
    data: z.array(usageRow),
    has_more: z.boolean().describe('Whether there are more rows: continue with `offset`.'),
  })
  .meta({ id: 'UsageList' })
