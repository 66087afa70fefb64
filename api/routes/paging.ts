import { z } from 'zod'

/** The query fields of every list (contract §1). */
export const paging = {
  limit: z.coerce.number().int().min(1).max(100).default(20).describe('The most rows of a page.'),
  after: z.string().max(100).optional().describe('The id after which the page starts.'),
  order: z.enum(['asc', 'desc']).default('desc').describe('By age: `desc` = newest first.'),
}

export type Page = { limit: number; order: 'asc' | 'desc'; after?: string }

/** One page of a list. `read` is asked for a row more than it shows: that one tells whether others follow. */
export async function pageOf<Row, Shown extends object>(
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
    has_more: rows.length > limit,
    first_id: first ? idOf(first) : null,
    last_id: last ? idOf(last) : null,
  }
}
