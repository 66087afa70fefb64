export type Ranked = { deadlineMs: number; order: number; index: number }

/** Those who wait, as a heap: the earliest deadline first, then whoever came first. `index` is the heap's own. */
export class Turns<T extends Ranked> {
  #heap: T[] = []

  get size(): number {
    return this.#heap.length
  }

  add(turn: T): void {
    this.#heap.push(turn)
    this.#rise(turn, this.#heap.length - 1)
  }

  /** Takes whoever is next; undefined when nobody waits. */
  next(): T | undefined {
    const first = this.#heap[0]
    if (first) this.remove(first)
    return first
  }

  remove(turn: T): void {
    const { index } = turn
    const last = this.#heap.pop()!
    if (last === turn) return
    this.#sink(last, index)
    this.#rise(last, last.index)
  }

  /** Takes all of whom a condition holds, in no particular order. */
  takeWhere(condition: (turn: T) => boolean): T[] {
    const taken = this.#heap.filter(condition)
    for (const turn of taken) this.remove(turn)
    return taken
  }

  #rise(turn: T, from: number): void {
    let index = from
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(turn, this.#heap[parent]!)) break
      this.#put(this.#heap[parent]!, index)
      index = parent
    }
    this.#put(turn, index)
  }

  #sink(turn: T, from: number): void {
    let index = from
    for (;;) {
      let child = 2 * index + 1
      if (child >= this.#heap.length) break
      if (child + 1 < this.#heap.length && isBefore(this.#heap[child + 1]!, this.#heap[child]!)) child++
      if (!isBefore(this.#heap[child]!, turn)) break
      this.#put(this.#heap[child]!, index)
      index = child
    }
    this.#put(turn, index)
  }

  #put(turn: T, index: number): void {
    this.#heap[index] = turn
    turn.index = index
  }
}

function isBefore(one: Ranked, other: Ranked): boolean {
  return one.deadlineMs < other.deadlineMs || (one.deadlineMs === other.deadlineMs && one.order < other.order)
}
