type Ranked = { deadlineMs: number; sequence: number; index: number }

/** The waiters of one owner as a binary heap: earliest deadline first, then arrival order. `index` belongs to the heap. */
class DeadlineHeap<T extends Ranked> {
  #heap: T[] = []

  get size(): number {
    return this.#heap.length
  }

  add(waiter: T): void {
    this.#heap.push(waiter)
    this.#siftUp(waiter, this.#heap.length - 1)
  }

  /** The next waiter; undefined when the heap is empty. */
  get first(): T | undefined {
    return this.#heap[0]
  }

  remove(waiter: T): void {
    const { index } = waiter
    const last = this.#heap.pop()!
    if (last === waiter) return
    this.#siftDown(last, index)
    this.#siftUp(last, last.index)
  }

  /** All waiters matching a predicate, in no particular order. */
  filter(predicate: (waiter: T) => boolean): T[] {
    return this.#heap.filter(predicate)
  }

  #siftUp(waiter: T, from: number): void {
    let index = from
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(waiter, this.#heap[parent]!)) break
      this.#put(this.#heap[parent]!, index)
      index = parent
    }
    this.#put(waiter, index)
  }

  #siftDown(waiter: T, from: number): void {
    let index = from
    for (;;) {
      let child = 2 * index + 1
      if (child >= this.#heap.length) break
      if (child + 1 < this.#heap.length && isBefore(this.#heap[child + 1]!, this.#heap[child]!)) child++
      if (!isBefore(this.#heap[child]!, waiter)) break
      this.#put(this.#heap[child]!, index)
      index = child
    }
    this.#put(waiter, index)
  }

  #put(waiter: T, index: number): void {
    this.#heap[index] = waiter
    waiter.index = index
  }
}

function isBefore(one: Ranked, other: Ranked): boolean {
  return one.deadlineMs < other.deadlineMs || (one.deadlineMs === other.deadlineMs && one.sequence < other.sequence)
}

type Owned = Ranked & { owner: string }

/** A queue with fair scheduling: serves the owner with the fewest calls in flight, so that no owner can starve another. */
export class FairQueue<T extends Owned> {
  readonly #heaps = new Map<string, DeadlineHeap<T>>()
  readonly #inFlight = new Map<string, number>()
  #size = 0

  get size(): number {
    return this.#size
  }

  add(waiter: T): void {
    const heap = this.#heaps.get(waiter.owner) ?? new DeadlineHeap<T>()
    this.#heaps.set(waiter.owner, heap)
    heap.add(waiter)
    this.#size++
  }

  /** Removes and returns the next waiter; undefined when the queue is empty. */
  next(): T | undefined {
    let best: DeadlineHeap<T> | undefined
    let min = Infinity
    for (const [owner, heap] of this.#heaps) {
      const inFlight = this.#inFlight.get(owner) ?? 0
      if (inFlight > min || (inFlight === min && !isBefore(heap.first!, best!.first!))) continue
      best = heap
      min = inFlight
    }
    const waiter = best?.first
    if (waiter) this.remove(waiter)
    return waiter
  }

  remove(waiter: T): void {
    const heap = this.#heaps.get(waiter.owner)!
    heap.remove(waiter)
    if (heap.size === 0) this.#heaps.delete(waiter.owner)
    this.#size--
  }

  /** Removes and returns all waiters matching a predicate, in no particular order. */
  takeWhere(predicate: (waiter: T) => boolean): T[] {
    const taken = [...this.#heaps.values()].flatMap(heap => heap.filter(predicate))
    for (const waiter of taken) this.remove(waiter)
    return taken
  }

  startCall(owner: string): void {
    this.#inFlight.set(owner, (this.#inFlight.get(owner) ?? 0) + 1)
  }

  endCall(owner: string): void {
    const left = this.#inFlight.get(owner)! - 1
    if (left > 0) this.#inFlight.set(owner, left)
    else this.#inFlight.delete(owner)
  }
}
