import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { Generation, Prisma } from '../../../shared/generated/prisma/client.ts'
import { rowsAfter } from '../../../shared/io/keyset.ts'
import type { Platform } from '../../../shared/platform.ts'
import { paging } from '../../routes/paging.ts'
import { type RequestWhere, requestFilters } from './request-search.ts'

/** The query of a list: filters, an order and a place in it. */
export const requestSearch = requestFilters.extend({
  limit: paging.limit,
  after: paging.after,
  order: paging.order.describe('`desc`: the newest or largest first. `asc` with `after` lists what is newer.'),
  sort: z.enum(['time', 'cost', 'duration', 'input_tokens', 'output_tokens']).default('time'),
})
export type Ordering = Pick<z.output<typeof requestSearch>, 'sort' | 'order'>

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
