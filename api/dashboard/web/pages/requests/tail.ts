import type { InfiniteData } from '@tanstack/react-query'
import type { RequestRow, RequestsPage } from '../../../wire/requests.ts'

type Listed = InfiniteData<RequestsPage, string>
type Read = (page: { limit: number; after?: string; order?: 'asc' }) => Promise<RequestsPage>

const pageSize = 100
/**
 * Requests are logged when they end, and listed by when they began: this many of the latest are read again, for those that took longer
 * than others, and for jobs that ended meanwhile.
 */
const overlap = 50
const maxRows = 500

/** Reads what is newer than the rows of a list, newest first; gives the change to make to it. */
export async function readChange(listed: Listed, read: Read): Promise<(listed: Listed) => Listed> {
  const rows = listed.pages.flatMap(({ data }) => data)
  const anchor = rows[overlap]
  if (anchor) {
    const { data, has_more: hasMore } = await read({ limit: pageSize, after: anchor.id, order: 'asc' })
    if (!hasMore) return now => merge(now, data)
  }
  // Few rows, or more new ones than a page has: the list starts again, without a gap.
  const first = await read({ limit: pageSize })
  return () => ({ pages: [first], pageParams: [''] })
}

/** A list with newer rows and the newer states of its rows. It keeps the latest; "Show more" reads the others again. */
function merge({ pages }: Listed, newer: readonly RequestRow[]): Listed {
  const byId = new Map([...pages.flatMap(({ data }) => data), ...newer].map(row => [row.id, row]))
  const rows = [...byId.values()].sort((a, b) => compare(b.created_at, a.created_at) || compare(b.id, a.id))
  const data = rows.slice(0, maxRows)
  const hasMore = rows.length > maxRows || pages.at(-1)!.has_more
  return { pages: [{ data, has_more: hasMore, last_id: data.at(-1)?.id ?? null }], pageParams: [''] }
}

function compare(a: string, b: string): number {
  return Number(a > b) - Number(a < b)
}
