import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { createdAtMs, mayBeginId } from '../../../shared/base/ids.ts'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import { dayMs } from '../../../shared/base/time.ts'
import { type Generation, Prisma } from '../../../shared/generated/prisma/client.ts'
import { containing, rowsAfter } from '../../../shared/io/keyset.ts'
import type { Platform } from '../../../shared/platform.ts'
import { paging } from '../../routes/paging.ts'
import { readSpan, spanFields } from './span.ts'
import { findKeyId } from './work.ts'

/** Default time range: of filter choices, and of searches without a time. */
export const usualDays = 30
/** Timeout: a search with few matches may scan millions of rows. */
export const searchBound = { ms: 5_000, param: 'from' }
const maxInt = 2 ** 31 - 1

const word = z.string().trim().min(1).max(200).optional()
/** The filters of a search in the request log. */
export const requestFilters = z.strictObject({
  q: word.describe('The prefix of a request, generation or provider id.'),
  status: word.describe('`ok`, `error`, an HTTP status or an error code.'),
  error_code: word.describe('The `code` of the error, such as `rate_limit_exceeded`.'),
  error_message: word.describe('A part of the message of the error, in either case.'),
  model: word,
  provider: word,
  type: word.describe('"chat", "image", "video" …'),
  environment: z.enum(['live', 'test']).optional(),
  key: word.describe('A key’s id or hash.'),
  from: z.iso.datetime({ offset: true }).optional().describe(`Else ${usualDays} days ago.`),
  to: z.iso.datetime({ offset: true }).optional(),
  span: spanFields.span,
  min_duration_ms: z.coerce.number().int().min(0).max(maxInt).optional(),
  min_cost_usd: z.coerce.number().min(0).max(1_000_000).optional(),
  min_input_tokens: z.coerce.number().int().min(0).max(maxInt).optional(),
  min_output_tokens: z.coerce.number().int().min(0).max(maxInt).optional(),
  end_user: word.describe('The caller’s name of its own user.'),
  session: word.describe('The caller’s name of the conversation.'),
  tag: word.describe('A tag or metadata entry, such as `project:acme`.'),
  batch: word.describe('The id of the batch whose lines are searched.'),
})
export type RequestFilters = z.output<typeof requestFilters>

export type RequestWhere = Omit<
  Prisma.GenerationWhereInput,
  'organisationId' | 'createdAt' | 'keyId' | 'AND' | 'OR'
> & {
  organisationId: string
  createdAt: { gte: Date; lte: Date }
  keyId?: string
  /** Of whole hours, one of which a row is in. */
  OR?: { createdAt: { gte: Date; lt: Date } }[]
  AND: Prisma.GenerationWhereInput[]
}

/** The rows that a search finds, bounded in time. Throws 400, 404. */
export async function whereOf(
  services: Platform,
  organisationId: string,
  { q, status, model, provider, type, environment, key, ...more }: RequestFilters,
): Promise<RequestWhere> {
  // Time bounds let Postgres prune partitions and seek in their indexes.
  const { from: gte, to: lte } = searchSpan(services, timeOf(services, more), q)
  const { min_duration_ms: minMs, min_cost_usd: minUsd, min_input_tokens: minInput } = more
  const { min_output_tokens: minOutput, end_user: endUser, session, tag, batch } = more
  const { error_code: errorCode, error_message: message } = more
  return {
    organisationId,
    createdAt: { gte, lte },
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
    ...(type !== undefined && { kind: type }),
    ...(environment && { environment }),
    ...(minMs !== undefined && { durationMs: { gte: minMs } }),
    ...(minUsd !== undefined && { costNano: { gte: nanoFromUsd(minUsd) } }),
    ...(minInput !== undefined && { promptTokens: { gte: minInput } }),
    ...(minOutput !== undefined && { completionTokens: { gte: minOutput } }),
    ...(endUser !== undefined && { endUser }),
    ...(session !== undefined && { session }),
    ...(tag !== undefined && { metadata: taggedWith(tag) }),
    ...(batch !== undefined && { routing: { path: ['batch'], equals: batch } }),
    ...(key !== undefined && { keyId: await findKeyId(services, organisationId, key) }),
    AND: [
      q === undefined ? {} : whereId({ startsWith: q }, q),
      status === undefined ? {} : whereStatus(status),
      errorCode === undefined ? {} : whereError({ errorCode }),
      message === undefined ? {} : whereError({ errorMessage: containing(message) }),
    ],
  }
}

/** `name:value`, or without a value any that has the name. */
function taggedWith(tag: string): Prisma.JsonNullableFilter<'Generation'> {
  const colon = tag.indexOf(':')
  if (colon < 0) return { path: [tag], not: Prisma.AnyNull }
  return { path: [tag.slice(0, colon).trim()], equals: tag.slice(colon + 1).trim() }
}

/** The rows with an id: the gateway's, those of HTTP requests included, or else a provider's. The latter are found by their index. */
export function whereId(matches: string | { startsWith: string }, id: string): Prisma.GenerationWhereInput {
  const ofProvider = { upstreamId: matches }
  return mayBeginId(id) ? { OR: [{ id: matches }, { requestId: matches }, ofProvider] } : ofProvider
}

/** The time that a query names: its own bounds, or a span up to now. */
function timeOf({ clock }: Platform, { span, from, to }: Pick<RequestFilters, 'span' | 'from' | 'to'>) {
  if (from !== undefined || span === undefined) return { from, to }
  return { from: readSpan({ span }, clock.now()).from.toISOString(), to }
}

/** The time range to search. Our ids contain their day of creation, which is when the request began. */
export function searchSpan(
  { clock }: Platform,
  { from, to }: Pick<RequestFilters, 'from' | 'to'>,
  q: string | undefined,
) {
  const madeMs = q === undefined ? null : createdAtMs(q)
  const untilMs = Math.min(to === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(to), clock.now() + dayMs)
  const sinceMs = from === undefined ? (madeMs ?? untilMs - usualDays * dayMs) - dayMs : Date.parse(from)
  if (madeMs === null) return { from: dateOf(sinceMs), to: dateOf(untilMs) }
  return { from: dateOf(Math.max(sinceMs, madeMs - dayMs)), to: dateOf(Math.min(untilMs, madeMs + dayMs)) }
}

/** Postgres has no year 0, and nothing is older than 1970. */
const dateOf = (ms: number) => new Date(Math.max(ms, 0))

function whereStatus(status: string): Pick<Prisma.GenerationWhereInput, 'status' | 'errorCode'> {
  if (status === 'ok') return { status: { lt: 400 } }
  // A disconnected client is not a failure.
  if (status === 'error') return { status: { gte: 400, not: 499 } }
  if (status === 'refused') return { status: { in: [401, 402, 403] } }
  if (status === 'invalid') return { status: { gte: 400, lt: 500, notIn: [401, 402, 403, 429, 499] } }
  if (status === 'failed') return { status: { gte: 500 } }
  return /^\d{3}$/.test(status) ? { status: Number(status) } : whereError({ errorCode: status })
}

/** The status makes it a search in the index of errors. */
function whereError(error: Pick<Prisma.GenerationWhereInput, 'errorCode' | 'errorMessage'>) {
  return { ...error, status: { gte: 400 } }
}

/** The query of a list: filters, an order and a place in it. */
export const requestSearch = requestFilters.extend({
  limit: paging.limit,
  after: paging.after,
  order: paging.order.describe('`desc`: the newest or largest first. `asc` with `after` lists what is newer.'),
  sort: z.enum(['time', 'cost', 'duration', 'input_tokens', 'output_tokens']).default('time'),
})
type Ordering = Pick<z.output<typeof requestSearch>, 'sort' | 'order'>

/** What a place in a list is known by. */
export const placeColumns = {
  id: true,
  createdAt: true,
  costNano: true,
  durationMs: true,
  promptTokens: true,
  completionTokens: true,
}
type Place = Pick<Generation, keyof typeof placeColumns>

/** The columns of the orders that are not of time. */
export const figureColumns = {
  cost: 'costNano',
  duration: 'durationMs',
  input_tokens: 'promptTokens',
  output_tokens: 'completionTokens',
} as const

/** An order without ties. */
export function orderBy({ sort, order }: Ordering): Prisma.GenerationOrderByWithRelationInput[] {
  const byTime = [{ createdAt: order }, { id: order }]
  return sort === 'time' ? byTime : [{ [figureColumns[sort]]: order }, ...byTime]
}

/** The row that a cursor names. Throws 404. */
export async function readPlace({ db }: Platform, organisationId: string, id: string): Promise<Place> {
  const row = await db.generation.findFirst({ where: { id, organisationId }, select: placeColumns })
  if (row) return row
  throw new GatewayError('not_found', 'No such request to list after.', { param: 'after' })
}

/** The rows of a search that follow a place. */
export function beyond(where: RequestWhere, { sort, order }: Ordering, last: Place): RequestWhere {
  const { createdAt } = last
  const later = rowsAfter(last, order)
  if (sort !== 'time') {
    const column = figureColumns[sort]
    const past = order === 'desc' ? 'lt' : 'gt'
    const after = [{ [column]: { [past]: last[column] } }, { [column]: last[column], ...later }]
    return { ...where, AND: [...where.AND, { OR: after }] }
  }
  const { gte, lte } = where.createdAt
  // The time bound is what Postgres seeks by.
  const rest =
    order === 'desc' ? { gte, lte: lte < createdAt ? lte : createdAt } : { gte: gte > createdAt ? gte : createdAt, lte }
  return { ...where, createdAt: rest, AND: [...where.AND, later] }
}
