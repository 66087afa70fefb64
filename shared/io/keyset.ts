type Row = { createdAt: Date; id: string }
type Order = 'asc' | 'desc'

/** The condition of the rows that follow `last` in a list by creation and then by id: the next page of it. */
export function rowsAfter({ createdAt, id }: Row, order: Order = 'desc') {
  const past = order === 'desc' ? 'lt' : 'gt'
  return { OR: [{ createdAt: { [past]: createdAt } }, { createdAt, id: { [past]: id } }] }
}

/** A text as part of a condition on texts, where `%` and `_` would be patterns. */
export const literally = (text: string) => text.replace(/[%_\\]/g, String.raw`\$&`)

/** The condition of the rows whose text contains another one, in either case. */
export const containing = (text: string) => ({ contains: literally(text), mode: 'insensitive' }) as const

const pageSize = 1_000
const maxPages = 1_000

/** Yields the ids of a query in pages (keyset pagination): `read` returns the first rows with an id above `after`, by id. */
export async function* pagesOfIds(
  read: (page: { after: string; take: number }) => Promise<{ id: string }[]>,
): AsyncGenerator<string[]> {
  let after = ''
  for (let page = 0; page < maxPages; page++) {
    const rows = await read({ after, take: pageSize })
    if (rows.length > 0) yield rows.map(({ id }) => id)
    if (rows.length < pageSize) return
    after = rows.at(-1)!.id
  }
}
