import type { JsonMeter } from '../../../shared/base/json.ts'
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

/** Longer chains are joined into one turn, so that reading a conversation takes few steps for its length. */
const maxChained = 100

/** A turn: the JSON of its new items and of its output, after the turns before it, which are `length - 1`. */
type Turn = { before: Turn | null; length: number; items: Buffer }
/** `last`: the turn that ends with a response, null if the conversation is empty; `isStored`: beyond the connection. */
type Known = { last: Turn | null; isStored: boolean }

/**
 * The latest responses of one connection, so that a later turn can continue them although nothing is stored. Turns of
 * one conversation share the turns before them. Bounded by number and by bytes, which count against a memory
 * budget; what exceeds a bound is forgotten, oldest first.
 */
export class RecentResponses {
  readonly #known = new Map<string, Known>()
  readonly #held: HeldBytes

  /** `held`: opened for the organisation; its owner releases it. */
  constructor(held: HeldBytes) {
    this.#held = held
  }

  /**
   * The items of the conversation up to a response and including it; null if it is not known here. `meter` counts them
   * before they are parsed, and may throw.
   */
  find(id: string, meter: JsonMeter | null = null): ResponsesItem[] | null {
    const known = this.#known.get(id)
    return known ? itemsUpTo(known.last, meter) : null
  }

  /** Whether a response is known here and nowhere else. */
  isOnlyHere(id: string): boolean {
    return this.#known.get(id)?.isStored === false
  }

  /** Remembers a response that was given to an input. */
  add(id: string, { previousId, fresh, whole }: Input, output: readonly object[], isStored: boolean): void {
    const before = previousId === null ? null : (this.#known.get(previousId)?.last ?? null)
    const items = [...(before ? fresh : whole), ...output]
    // A turn without items adds nothing to the one before it.
    const last = items.length > 0 ? turnAfter(before, items) : before
    this.#known.delete(id)
    this.#known.set(id, { last, isStored })
    while (this.#known.size > maxResponses || this.#bytes() > maxBytes) this.#forgetOldest()
    while (this.#known.size > 0 && !this.#hold()) this.#forgetOldest()
  }

  #forgetOldest(): void {
    const [oldest] = this.#known.keys()
    this.#known.delete(oldest!)
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
    for (const { last } of this.#known.values()) for (const one of turnsUpTo(last)) reachable.add(one)
    let bytes = 0
    for (const { items } of reachable) bytes += items.length
    return bytes
  }
}

const [openList, comma, closeList] = ['[', ',', ']'].map(sign => Buffer.from(sign)) as [Buffer, Buffer, Buffer]

function turnAfter(before: Turn | null, items: readonly object[]): Turn {
  if (before && before.length >= maxChained)
    Object.assign(before, { items: joined(before), before: null, length: 1 } satisfies Turn)
  return { before, length: (before?.length ?? 0) + 1, items: jsonOf(items) }
}

function jsonOf(items: readonly object[]): Buffer {
  return Buffer.from(JSON.stringify(items))
}

function itemsUpTo(last: Turn | null, meter: JsonMeter | null): ResponsesItem[] {
  const turns = [...turnsUpTo(last)].reverse()
  for (const { items } of turns) meter?.add(items)
  return turns.flatMap(({ items }) => JSON.parse(items.toString()) as ResponsesItem[])
}

/** The items of a turn and of those before it as one list. None of the lists is empty. */
function joined(last: Turn): Buffer {
  const lists = [...turnsUpTo(last)].reverse().map(({ items }) => items.subarray(1, -1))
  return Buffer.concat([openList, ...lists.flatMap((list, index) => (index > 0 ? [comma, list] : [list])), closeList])
}

/** A turn and those before it, latest first. */
function* turnsUpTo(last: Turn | null): Generator<Turn> {
  for (let turn: Turn | null = last; turn; turn = turn.before) yield turn
}
