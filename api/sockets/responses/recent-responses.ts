import type { HeldBytes } from '../../../shared/io/byte-budget.ts'
import type { ResponsesItem } from '../../../shared/kinds/responses.ts'

/** How many responses of a connection can be continued. */
const maxResponses = 16
const maxBytes = 32 * 1024 * 1024

/** `fresh`: the new items of a turn; `whole`: the conversation, which are these after the response `previousId`. */
export type Input = {
  previousId: string | null
  fresh: readonly ResponsesItem[]
  whole: readonly ResponsesItem[]
}

/** A turn: the JSON of its new items and of its output, after the turns before it; `isStored`: beyond the connection. */
type Turn = { before: Turn | null; items: Buffer; isStored: boolean }

/**
 * The latest responses of one connection, so that a later turn can continue them although nothing is stored. Turns of
 * one conversation share the turns before them. Bounded by number and by bytes, which count against a memory
 * budget; what exceeds a bound is forgotten, oldest first.
 */
export class RecentResponses {
  readonly #turns = new Map<string, Turn>()
  readonly #held: HeldBytes

  /** `held`: opened for the organisation; its owner releases it. */
  constructor(held: HeldBytes) {
    this.#held = held
  }

  /** The items of the conversation up to a response and including it; null if it is not known here. */
  find(id: string): ResponsesItem[] | null {
    const last = this.#turns.get(id)
    if (!last) return null
    const turns = [...turnsUpTo(last)].reverse()
    return turns.flatMap(({ items }) => JSON.parse(items.toString()) as ResponsesItem[])
  }

  /** Whether a response is known here and nowhere else. */
  isOnlyHere(id: string): boolean {
    return this.#turns.get(id)?.isStored === false
  }

  /** Remembers a response that was given to an input. */
  add(id: string, { previousId, fresh, whole }: Input, output: readonly object[], isStored: boolean): void {
    const before = previousId === null ? null : (this.#turns.get(previousId) ?? null)
    const items = [...(before ? fresh : whole), ...output]
    this.#turns.delete(id)
    this.#turns.set(id, { before, items: Buffer.from(JSON.stringify(items)), isStored })
    while (this.#turns.size > maxResponses || this.#bytes() > maxBytes) this.#forgetOldest()
    while (this.#turns.size > 0 && !this.#hold()) this.#forgetOldest()
  }

  #forgetOldest(): void {
    const [oldest] = this.#turns.keys()
    this.#turns.delete(oldest!)
    this.#held.hold(Math.min(0, this.#bytes() - this.#held.bytes))
  }

  /** Accounts for the bytes in the budget; false if it has no room for them. */
  #hold(): boolean {
    const more = this.#bytes() - this.#held.bytes
    try {
      if (more > 0) this.#held.take(more)
      else this.#held.hold(more)
      return true
    } catch {
      return false
    }
  }

  /** The bytes of every turn that a known response needs. */
  #bytes(): number {
    const reachable = new Set<Turn>()
    for (const turn of this.#turns.values()) for (const one of turnsUpTo(turn)) reachable.add(one)
    let bytes = 0
    for (const { items } of reachable) bytes += items.length
    return bytes
  }
}

/** A turn and those before it, latest first. */
function* turnsUpTo(last: Turn): Generator<Turn> {
  for (let turn: Turn | null = last; turn; turn = turn.before) yield turn
}
