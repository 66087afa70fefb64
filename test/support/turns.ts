import type { ExecutionContext } from 'ava'
import { expectExit } from './expect-exit.ts'
import type { TestFile } from './test.ts'

/**
 * More tests at once would only delay each other: a gateway refuses calls whose stores answer late, as they do for a busy
 * event loop.
 */
const maxConcurrent = 16

type Turn = { file: Visit; serial: boolean; mayBegin: PromiseWithResolvers<void>; ended: PromiseWithResolvers<void> }
/** A file while its tests have their turns. */
type Visit = { file: TestFile; remaining: number; prepared?: Promise<void> }

/** The order of tests that AVA starts all at once: file by file, the serial ones first. */
export class Turns {
  readonly #turns = new Map<string, Turn>()
  readonly #visits = new Map<TestFile, Visit>()
  /** Those that AVA started: not all, when it was told which titles to run. */
  #waiting: Turn[] = []

  /** Adds a test, to be called for all tests in the order of their files. */
  add(title: string, file: TestFile, serial: boolean): void {
    const visit = this.#visits.get(file) ?? { file, remaining: 0 }
    this.#visits.set(file, visit)
    const [mayBegin, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    this.#turns.set(title, { file: visit, serial, mayBegin, ended })
  }

  /** Waits for a test's turn, then prepares its file, if it is the first, and the test. */
  async begin(title: string, t: ExecutionContext): Promise<void> {
    const turn = this.#turns.get(title)
    if (!turn) throw new Error('A file of a group imports `test` from test/support/test.ts, not from AVA.')
    const { file: visit } = turn
    // AVA starts its tests in one go, before the next turn of the event loop.
    if (this.#waiting.length === 0) setImmediate(() => this.#run(this.#waiting))
    this.#waiting.push(turn)
    visit.remaining++
    await turn.mayBegin.promise
    visit.prepared ??= visit.file.prepare(t)
    await visit.prepared
    await visit.file.beforeEach(t)
  }

  /** Ends a test's turn and cleans up after it, and after its file if it was the last. */
  async end(title: string, t: ExecutionContext): Promise<void> {
    const turn = this.#turns.get(title)
    if (!turn) return
    const { file: visit, ended } = turn
    const isPrepared = await visit.prepared!.then(
      () => true,
      () => false,
    )
    try {
      if (isPrepared) await visit.file.afterEach(t)
    } finally {
      visit.remaining--
      if (visit.remaining === 0) {
        visit.prepared = undefined
        await visit.file.cleanUp(t).finally(ended.resolve)
      } else ended.resolve()
    }
  }

  async #run(waiting: Turn[]): Promise<void> {
    this.#waiting = []
    for (const turns of Map.groupBy(waiting, ({ file }) => file).values()) {
      for (const turn of turns.filter(({ serial }) => serial)) await take(turn)
      const others = turns.filter(({ serial }) => !serial).values()
      const takeOthers = async () => {
        for (const turn of others) await take(turn)
      }
      await Promise.all(Array.from({ length: maxConcurrent }, takeOthers))
    }
    expectExit()
  }
}

async function take({ mayBegin, ended }: Turn): Promise<void> {
  mayBegin.resolve()
  await ended.promise
}
