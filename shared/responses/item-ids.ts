import { isStorableText } from '../base/storable-text.ts'

/** Ids of an item that a stored response is found by: the latest ones of longer conversations. */
const maxIdsPerResponse = 2_000

/** The `id` field of an item, if it is usable as the item's id in a list; else null. */
export function ownId(item: object): string | null {
  const { id } = item as { id?: unknown }
  return typeof id === 'string' && id !== '' && id.length <= 100 && isStorableText(id) ? id : null
}

/** The ids of a response's items in lists, in their order: one without an id, or with that of another, has one by its position. */
export function listedIds(responseId: string, items: readonly object[]): string[] {
  const suffix = responseId.slice(responseId.indexOf('_') + 1)
  const used = new Set<string>()
  return items.map((item, index) => {
    const own = ownId(item)
    const id = own === null || used.has(own) ? `item_${suffix}_${index}` : own
    used.add(id)
    return id
  })
}

/** The ids by which the items of a response are found. */
export function foundIds(responseId: string, items: readonly object[]): string[] {
  return listedIds(responseId, items).slice(-maxIdsPerResponse)
}
