import { bytesOf, type Item } from './realtime-items.ts'
import { Refused } from './realtime-refused.ts'

const mostItems = 200
const mostBytes = 16 * 1024 * 1024

/** The items of a session, in their order: as many as there is room for, of which the oldest go first. */
export class Conversation {
  #items: Item[] = []

  get items(): readonly Item[] {
    return this.#items
  }

  /** An item by its id. `doing`: what for, as the refusal says it. Throws when it is not there. */
  find(id: string, doing: string): Item {
    const item = this.#items.find(item => item.id === id)
    if (item) return item
    const message = `Error ${doing} item: the item with id '${id}' does not exist.`
    throw new Refused(`item_${doing.replace(/e?ing$/, 'e')}_invalid_item_id`, message, 'item_id')
  }

  /** The id of the item before one; null where there is none. */
  before({ id }: Item): string | null {
    return this.#items[this.#items.findIndex(item => item.id === id) - 1]?.id ?? null
  }

  /**
   * Puts an item behind another one (`root` = before all), or at the end. Returns those that had to go for it. Throws when
   * there is one of its name, or none to put it behind.
   */
  add(item: Item, previousId: string | null = null): Item[] {
    if (this.#items.some(({ id }) => id === item.id)) {
      const message = `Error creating item: an item with id '${item.id}' already exists.`
      throw new Refused('item_create_duplicate_item_id', message, 'item.id')
    }
    this.#items.splice(this.#placeAfter(previousId), 0, item)
    const gone: Item[] = []
    let bytes = this.#items.reduce((sum, item) => sum + bytesOf(item), 0)
    while (this.#items.length > 1 && (this.#items.length > mostItems || bytes > mostBytes)) {
      const oldest = this.#items.shift()!
      bytes -= bytesOf(oldest)
      gone.push(oldest)
    }
    return gone
  }

  delete(id: string): void {
    this.find(id, 'deleting')
    this.#items = this.#items.filter(item => item.id !== id)
  }

  #placeAfter(previousId: string | null): number {
    if (previousId === null) return this.#items.length
    if (previousId === 'root') return 0
    const place = this.#items.findIndex(({ id }) => id === previousId)
    if (place >= 0) return place + 1
    const message = `Error creating item: the previous item with id '${previousId}' does not exist.`
    throw new Refused('item_create_invalid_previous_item_id', message, 'previous_item_id')
  }
}
