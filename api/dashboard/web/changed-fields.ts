/** The fields in which a form differs from what it began with. Only they are sent, so that concurrent changes of others are kept. */
export function changedFields<Fields extends object>(fields: Fields, begun: Fields): Partial<Fields> {
  const before = new Map(Object.entries(begun))
  const changed = Object.entries(fields).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before.get(name)),
  )
  return Object.fromEntries(changed) as Partial<Fields>
}
