/**
 * A collection that assigns integer keys and reuses them after removal. It is for items added and removed on every
 * request, where a `Set` costs too much: V8 links each outgrown table of a Set or Map to the next one, and once one of
 * them is in the old generation, all later items live until the next major collection.
 */
export class Slab<T extends object> {
  readonly #items: (T | null)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#items.length - this.#free.length
  }

  /** Adds an item; returns the key that removes it. */
  add(item: T): number {
    const key = this.#free.pop() ?? this.#items.length
    this.#items[key] = item
    return key
  }

  /** Removes the item with this key, which must exist. */
  remove(key: number): void {
    this.#items[key] = null
    this.#free.push(key)
  }

  /** A snapshot of the items, in no particular order. */
  values(): T[] {
    return this.#items.filter(item => item !== null)
  }
}
