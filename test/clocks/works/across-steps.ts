import type { Cell, Moment, Work } from '../cell.ts'

/** A piece of work with an end that the run determines. */
export type Piece<Opened> = {
  name: string
  /** Begins one piece; `mark` is its own. Resolves once it is under way, or taken on where that needs the worker. */
  open(cell: Cell, mark: string, at: Moment): Promise<Opened>
  /** Lets it end. Resolves once it has, where no worker is needed for that. */
  close(cell: Cell, opened: Opened): Promise<void>
  /** What was answered and charged, at rest. */
  check(cell: Cell, opened: Opened): Promise<void>
}

/** When one piece begins and when it ends: across each step of the clock, across both, and across none. */
const spans: [begins: Moment, ends: Moment][] = [
  ['before', 'during'],
  ['before', 'after'],
  ['during', 'after'],
  ['after', 'after'],
]

/** Several pieces of one kind of work, one in each span. */
export function acrossSteps<Opened>({ name, open, close, check }: Piece<Opened>): Work {
  return {
    name,
    async begin(cell) {
      const pieces = new Map<string, Opened>()
      const all = async (act: (span: (typeof spans)[number]) => Promise<unknown>) => {
        const outcomes = await Promise.allSettled(
          spans.map(span =>
            act(span).catch(error => {
              throw new Error(`from ${span[0]} to ${span[1]}: ${error.message}`)
            }),
          ),
        )
        const errors = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason.message] : []))
        if (errors.length > 0) throw new Error(errors.join('; '))
      }
      const pass = (moment: Moment) =>
        all(async span => {
          const [begins, ends] = span
          const mark = `${name.replaceAll(' ', '-')}-${cell.name}-${begins}-${ends}`
          if (begins === moment) pieces.set(mark, await open(cell, mark, moment))
          if (ends === moment && pieces.has(mark)) await close(cell, pieces.get(mark)!)
        })
      await pass('before')
      return {
        during: () => pass('during'),
        after: () => pass('after'),
        atRest: () =>
          all(async ([begins, ends]) => {
            const mark = `${name.replaceAll(' ', '-')}-${cell.name}-${begins}-${ends}`
            if (pieces.has(mark)) await check(cell, pieces.get(mark)!)
          }),
      }
    },
  }
}
