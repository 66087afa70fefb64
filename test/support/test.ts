import ava, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { expectExit } from './expect-exit.ts'
import { isLongFuzz } from './fuzz.ts'

// `npm test` tries the same random cases each time, so that only a change of the product changes its result. The nightly
// run draws new ones, and prints the seed of what fails.
if (!isLongFuzz) fc.configureGlobal({ seed: 1 })

/**
 * Far beyond what passes before a test ends or asserts something, and before a hook ends, also on a machine that has ten times
 * as much to do as it can. What takes longer sets `t.timeout`.
 */
const maxSilentMs = 240_000
const maxHookMs = 240_000

type Run = (t: ExecutionContext) => unknown

/** What one test file declares. Its hooks run one after another in their order, only those of `atEnd` in reverse. */
export class TestFile {
  readonly tests: { title: string; serial: boolean; run: Run }[] = []
  readonly hooks: Record<'before' | 'beforeEach' | 'afterEach' | 'after' | 'atEnd', Run[]> = {
    before: [],
    beforeEach: [],
    afterEach: [],
    after: [],
    atEnd: [],
  }

  async prepare(t: ExecutionContext): Promise<void> {
    for (const hook of this.hooks.before) await inTime(hook, t)
  }

  async beforeEach(t: ExecutionContext): Promise<void> {
    for (const hook of this.hooks.beforeEach) await inTime(hook, t)
  }

  async afterEach(t: ExecutionContext): Promise<void> {
    await runAll(this.hooks.afterEach, t)
  }

  async cleanUp(t: ExecutionContext): Promise<void> {
    await runAll([...this.hooks.after, ...this.hooks.atEnd.toReversed()], t)
  }
}

/** Runs every hook, also after one that fails; throws the first error. */
async function runAll(hooks: Run[], t: ExecutionContext): Promise<void> {
  const errors: unknown[] = []
  for (const hook of hooks) {
    try {
      await inTime(hook, t)
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}

async function inTime(hook: Run, t: ExecutionContext): Promise<void> {
  const { promise: tooLate, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`a hook did not end within ${maxHookMs / 1_000} s`)), maxHookMs)
  try {
    await Promise.race([hook(t), tooLate])
  } finally {
    clearTimeout(timer)
  }
}

let collected: TestFile | null = null
let alone: TestFile | null = null

/** Imports a test file for a group, and returns what it declares. Only one file is collected at a time. */
export async function collect(url: string): Promise<TestFile> {
  const file = new TestFile()
  collected = file
  try {
    await import(url)
  } finally {
    collected = null
  }
  return file
}

/** The only file of this process, which AVA itself imported. */
function declareAlone(): TestFile {
  const file = new TestFile()
  ava.serial.before(t => file.prepare(t))
  ava.serial.beforeEach(t => file.beforeEach(t))
  ava.serial.afterEach.always(t => file.afterEach(t))
  ava.serial.after.always(t => file.cleanUp(t).finally(expectExit))
  return file
}

function declaration(serial: boolean) {
  return (title: string, body: Run): void => {
    const run: Run = t => {
      t.timeout(maxSilentMs, `did not end, nor assert anything, for ${maxSilentMs / 1_000} s`)
      return body(t)
    }
    if (collected) {
      collected.tests.push({ title, serial, run })
      return
    }
    alone ??= declareAlone()
    const declare = serial ? ava.serial : ava
    declare(title, t => run(t) as Promise<void>)
  }
}

/** The titles of hooks are optional. */
function hook(name: keyof TestFile['hooks']) {
  return (...args: [run: Run] | [title: string, run: Run]): void => {
    const file = collected ?? (alone ??= declareAlone())
    file.hooks[name].push(args.at(-1) as Run)
  }
}

/**
 * AVA's `test`, for files that run alone or in a group with others (see test/groups.ts). Hooks run one after another in
 * their order. Those of `atEnd` run last, in reverse: what was opened last is closed first.
 */
export const test = Object.assign(declaration(false), {
  serial: declaration(true),
  before: hook('before'),
  beforeEach: hook('beforeEach'),
  afterEach: { always: hook('afterEach') },
  after: { always: hook('after') },
  atEnd: hook('atEnd'),
})
export type Test = typeof test
export type { ExecutionContext }
