export type Ranked = { deadlineMs: number; order: number; index: number }

/** Those of one owner who wait, as a heap: the earliest deadline first, then whoever came first. `index` is the heap's own. */
class Turns<T extends Ranked> {
  #heap: T[] = []

  get size(): number {
    return this.#heap.length
  }

  add(turn: T): void {
    this.#heap.push(turn)
    this.#rise(turn, this.#heap.length - 1)
  }

  /** Whoever is next; undefined when nobody waits. */
  get first(): T | undefined {
    return this.#heap[0]
  }

  remove(turn: T): void {
    const { index } = turn
    const last = this.#heap.pop()!
    if (last === turn) return
    this.#sink(last, index)
    this.#rise(last, last.index)
  }

  /** All of whom a condition holds, in no particular order. */
  where(condition: (turn: T) => boolean): T[] {
    return this.#heap.filter(condition)
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

export type Owned = Ranked & { owner: string }

/** Those who wait, by owner: next is the first of whoever has the fewest calls under way, so that nobody waits for another's many. */
export class FairTurns<T extends Owned> {
  readonly #turns = new Map<string, Turns<T>>()
  readonly #underWay = new Map<string, number>()
  #size = 0

  get size(): number {
    return this.#size
  }

  add(turn: T): void {
    const turns = this.#turns.get(turn.owner) ?? new Turns<T>()
    this.#turns.set(turn.owner, turns)
    turns.add(turn)
    this.#size++
  }

  /** Takes whoever is next; undefined when nobody waits. */
  next(): T | undefined {
    let best: Turns<T> | undefined
    let fewest = Infinity
    for (const [owner, turns] of this.#turns) {
      const underWay = this.#underWay.get(owner) ?? 0
      if (underWay > fewest || (underWay === fewest && !isBefore(turns.first!, best!.first!))) continue
      best = turns
      fewest = underWay
    }
    const turn = best?.first
    if (turn) this.remove(turn)
    return turn
  }

  remove(turn: T): void {
    const turns = this.#turns.get(turn.owner)!
    turns.remove(turn)
    if (turns.size === 0) this.#turns.delete(turn.owner)
    this.#size--
  }

  /** Takes all of whom a condition holds, in no particular order. */
  takeWhere(condition: (turn: T) => boolean): T[] {
    const taken = [...this.#turns.values()].flatMap(turns => turns.where(condition))
    for (const turn of taken) this.remove(turn)
    return taken
  }

  began(owner: string): void {
    this.#underWay.set(owner, (this.#underWay.get(owner) ?? 0) + 1)
  }

  ended(owner: string): void {
    const left = this.#underWay.get(owner)! - 1
    if (left > 0) this.#underWay.set(owner, left)
    else this.#underWay.delete(owner)
  }
}
