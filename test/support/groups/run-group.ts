import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import { collect, type Declarations } from './declarations.ts'
import { filesOf, type Group } from './groups.ts'
import { Turns } from './turns.ts'

const tests = join(import.meta.dirname, '../..')
const collector = new URL('declarations.ts', import.meta.url).href
const turnHook = 'turn'

/**
 * Runs all files of a group in this process, one after another, each as AVA runs it alone: first its serial tests, then
 * the others concurrently, but not all at once. The title of each test begins with its file.
 */
export async function runGroup(group: Group): Promise<void> {
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'ava' ? { url: collector, shortCircuit: true } : next(specifier, context),
  })
  const declared: ((turns: Turns) => void)[] = []
  for (const file of filesOf(group)) {
    const url = pathToFileURL(join(tests, file)).href
    declared.push(
      await collect(url).then(
        declarations => turns => declare(file, declarations, turns),
        error => turns => declareUnreadable(file, error, turns),
      ),
    )
  }
  // AVA wants all tests declared at once. It starts them all; each waits for its turn, which is no part of its duration.
  const turns = new Turns()
  for (const declareFile of declared) declareFile(turns)
  const titleOf = ({ title }: ExecutionContext) => title.slice(`${turnHook} for `.length)
  test.beforeEach(turnHook, t => turns.wait(titleOf(t)))
  test.afterEach.always(turnHook, t => turns.end(titleOf(t)))
}

function declare(file: string, declarations: Declarations, turns: Turns): void {
  const { before, beforeEach, tests, afterEach, after, afterAlways } = declarations
  // AVA does the same to white space.
  const titled = (title: string) => `${file} › ${title}`.trim().replaceAll(/\s+/g, ' ')
  let ready = before.length === 0
  if (!ready) {
    test(titled('before'), async t => {
      await inTurn(before, t)
      t.pass()
      ready = true
    })
    turns.add([titled('before')])
  }
  for (const { title, run } of tests)
    test(titled(title), async t => {
      if (!ready) return t.fail('its file could not be prepared')
      try {
        await inTurn(beforeEach, t)
        await run(t)
      } finally {
        await inTurn(afterEach, t)
      }
    })
  for (const { title, serial } of tests) if (serial) turns.add([titled(title)])
  turns.add(tests.filter(({ serial }) => !serial).map(({ title }) => titled(title)))
  if (after.length + afterAlways.length > 0) {
    test(titled('after'), async t => {
      try {
        if (ready) await inTurn(after, t)
      } finally {
        await inTurn(afterAlways, t)
      }
      t.pass()
    })
    turns.add([titled('after')])
  }
}

/** A file that cannot be imported fails under its own name; the others of its group still run. */
function declareUnreadable(file: string, error: unknown, turns: Turns): void {
  const title = `${file} › import`
  test(title, () => {
    throw error
  })
  turns.add([title])
}

async function inTurn(hooks: ((t: ExecutionContext) => unknown)[], t: ExecutionContext): Promise<void> {
  for (const hook of hooks) await hook(t)
}
