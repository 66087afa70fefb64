import { EventError } from './event-error.ts'
import { bytesOf, type Item } from './items.ts'
import type { SessionMemory } from './session-memory.ts'

const maxItems = 200
const maxBytes = 16 * 1024 * 1024

/** The items of a session in order, within the memory limits; the oldest are evicted first. */
export class Conversation {
  readonly #memory: SessionMemory
  #items: Item[] = []
  /** The bytes of the items when the last one was added. */
  #bytes = 0

  constructor(memory: SessionMemory) {
    this.#memory = memory
  }

  get items(): readonly Item[] {
    return this.#items
  }

  /** An item by its id. `purpose`: the purpose, for the error message. Throws if it does not exist. */
  find(id: string, purpose: string): Item {
    const item = this.#items.find(item => item.id === id)
    if (item) return item
    const message = `Error ${purpose} item: the item with id '${id}' does not exist.`
    throw new EventError(`item_${purpose.replace(/e?ing$/, 'e')}_invalid_item_id`, message, 'item_id')
  }

  /** The id of the preceding item; null if there is none. */
  previousId({ id }: Item): string | null {
    return this.#items[this.#items.findIndex(item => item.id === id) - 1]?.id ?? null
  }

  /**
   * Inserts an item after another one (`root` = first), or at the end. Returns the evicted items. Throws when its id
   * exists, or the other item does not.
   */
  add(item: Item, previousId: string | null = null): Item[] {
    if (this.#items.some(({ id }) => id === item.id)) {
      const message = `Error creating item: an item with id '${item.id}' already exists.`
      throw new EventError('item_create_duplicate_item_id', message, 'item.id')
    }
    this.#items.splice(this.#placeAfter(previousId), 0, item)
    const evicted: Item[] = []
    this.#hold(this.#items.reduce((sum, item) => sum + bytesOf(item), 0))
    while (this.#items.length > 1 && this.#isTooLarge) {
      const oldest = this.#items.shift()!
      this.#hold(this.#bytes - bytesOf(oldest))
      evicted.push(oldest)
    }
    return evicted
  }

  delete(id: string): void {
    this.find(id, 'deleting')
    this.#items = this.#items.filter(item => item.id !== id)
  }

  get #isTooLarge(): boolean {
    return this.#items.length > maxItems || this.#bytes > maxBytes || this.#memory.isFull
  }

  #hold(bytes: number): void {
    this.#memory.hold(bytes - this.#bytes)
    this.#bytes = bytes
  }

  #placeAfter(previousId: string | null): number {
    if (previousId === null) return this.#items.length
    if (previousId === 'root') return 0
    const place = this.#items.findIndex(({ id }) => id === previousId)
    if (place >= 0) return place + 1
    const message = `Error creating item: the previous item with id '${previousId}' does not exist.`
    throw new EventError('item_create_invalid_previous_item_id', message, 'previous_item_id')
  }
}
