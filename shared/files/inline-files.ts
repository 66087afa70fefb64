import type { ByteBudget, HeldBytes } from '../io/byte-budget.ts'
import { semaphore } from '../io/semaphore.ts'
import type { Source } from '../providers/contract.ts'

type Sources = ReadonlyMap<string, Source>

/** A file takes this many times its bytes: in base64, in the text of the request, and as the bytes of that text. */
const copies = 4
/** Of the files that the calls of one request hold at the same time, unless a single call has more. */
const maxBytesAtOnce = 16 * 1024 * 1024

/**
 * The files that the calls of a request or the start of a job send inside of JSON. A short request can name uploads of many megabytes,
 * which each of its calls holds. So they count in a budget of memory while a call runs, and calls with large files run one after the
 * other.
 */
export class InlineFiles {
  readonly #held: HeldBytes
  readonly #inTurn: (call: () => Promise<void>) => Promise<void>

  constructor(budget: ByteBudget, organisationId: string, sources: Sources) {
    this.#held = budget.open(organisationId)
    const bytes = [...sources.values()].reduce((sum, source) => sum + source.bytes, 0)
    this.#inTurn = semaphore(Math.max(1, Math.floor(maxBytesAtOnce / Math.max(1, bytes))))
  }

  /** Runs a call, whose sources throw `rate_limit_exceeded` and `service_unavailable` for an exhausted budget. */
  async during<T>(sources: Sources, call: (counted: Sources) => Promise<T>): Promise<T> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    let begun: Promise<void> | null = null
    let heldBytes = 0
    const begin = () =>
      new Promise<void>(resolve => {
        void this.#inTurn(() => {
          resolve()
          return ended
        })
      })
    const count = async (bytes: number) => {
      begun ??= begin()
      await begun
      this.#held.grow(bytes * copies)
      heldBytes += bytes * copies
    }
    try {
      return await call(new Map([...sources].map(([field, source]) => [field, countedSource(source, count)])))
    } finally {
      end()
      this.#held.hold(-heldBytes)
    }
  }
}

/** A source whose bytes are counted before they are read as text, also those of its link. */
function countedSource(source: Source, count: (bytes: number) => Promise<void>): Source {
  const base64 = async () => {
    await count(source.bytes)
    return source.base64()
  }
  return { ...source, base64 }
}
