import { z } from 'zod'

/** The query fields of every list. */
export const paging = {
  limit: z.coerce.number().int().min(1).max(100).default(20).describe('The maximum number of objects per page.'),
  after: z.string().max(100).optional().describe('A cursor: the id of the last object of the previous page.'),
  order: z.enum(['asc', 'desc']).default('desc').describe('Sort order by creation time: `desc` = newest first.'),
}

export type Page = { limit: number; order: 'asc' | 'desc'; after?: string }

/**
 * Reads one page of a list. `read` fetches one extra row, which tells whether a next page exists. `present` may end the
 * page earlier.
 */
export async function readPage<Row, Shown extends object>(
  { limit, order, after }: { limit: number; order: 'asc' | 'desc'; after?: string | undefined },
  read: (page: Page) => Promise<Row[]>,
  present: (rows: Row[]) => Promise<Shown[]>,
  idOf: (shown: Shown) => string = shown => (shown as { id?: unknown }).id as string,
) {
  const rows = await read({ limit: limit + 1, order, ...(after !== undefined && { after }) })
  const data = await present(rows.slice(0, limit))
  const [first] = data
  const last = data.at(-1)
  return {
    object: 'list',
    data,
    has_more: rows.length > data.length,
    first_id: first ? idOf(first) : null,
    last_id: last ? idOf(last) : null,
  }
}
