/**
 * Items under keys that it gives out; a removed item's key is given out again. It is for what comes and goes with every request,
 * where a `Set` would cost more than it does: V8 links each outgrown table of a Set or Map to the next one, and once one of them
 * is in the old generation, all items after it live until the next major collection.
 */
export class Slab<T extends object> {
  readonly #items: (T | null)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#items.length - this.#free.length
  }

  /** Adds an item and gives the key to remove it by. */
  add(item: T): number {
    const key = this.#free.pop() ?? this.#items.length
    this.#items[key] = item
    return key
  }

  /** Removes the item under a key, which must be there. */
  remove(key: number): void {
    this.#items[key] = null
    this.#free.push(key)
  }

  /** The items of this moment, in no particular order. */
  values(): T[] {
    return this.#items.filter(item => item !== null)
  }
}
