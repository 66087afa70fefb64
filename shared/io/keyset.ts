type Row = { createdAt: Date; id: string }
type Order = 'asc' | 'desc'

/** The condition of the rows that follow `last` in a list by creation and then by id: the next page of it. */
export function rowsAfter({ createdAt, id }: Row, order: Order = 'desc') {
  const past = order === 'desc' ? 'lt' : 'gt'
  return { OR: [{ createdAt: { [past]: createdAt } }, { createdAt, id: { [past]: id } }] }
}
