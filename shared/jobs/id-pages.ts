const pageSize = 1_000
const mostPages = 1_000

/** The ids of a query, in pages: `read` gives the first rows of those whose id comes after `after`, in the order of their ids. */
export async function* pagesOfIds(
  read: (page: { after: string; take: number }) => Promise<{ id: string }[]>,
): AsyncGenerator<string[]> {
  let after = ''
  for (let page = 0; page < mostPages; page++) {
    const rows = await read({ after, take: pageSize })
    if (rows.length > 0) yield rows.map(({ id }) => id)
    if (rows.length < pageSize) return
    after = rows.at(-1)!.id
  }
}
