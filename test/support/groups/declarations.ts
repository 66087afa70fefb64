// Takes the place of AVA's `test` in the files of a group: it collects what a file declares, for the group to run.
import type { ExecutionContext } from 'ava'

type Run = (t: ExecutionContext) => unknown
type Hooks = { before: Run[]; beforeEach: Run[]; afterEach: Run[]; after: Run[]; afterAlways: Run[] }
export type Declarations = Hooks & { tests: { title: string; serial: boolean; run: Run }[] }

let current: Declarations

/** Imports a test file and returns what it declares. Only one file is collected at a time. */
export async function collect(url: string): Promise<Declarations> {
  current = { before: [], beforeEach: [], afterEach: [], after: [], afterAlways: [], tests: [] }
  await import(url)
  return current
}

function declaration(serial: boolean) {
  return (title: string, run: Run) => {
    current.tests.push({ title, serial, run })
  }
}

/** The titles of hooks are optional. */
function hook(name: keyof Hooks) {
  return (...args: [run: Run] | [title: string, run: Run]) => {
    current[name].push(args.at(-1) as Run)
  }
}

// A form that a group cannot run is missing here: a file that uses it fails when it is loaded.
export default Object.assign(declaration(false), {
  serial: declaration(true),
  before: hook('before'),
  beforeEach: hook('beforeEach'),
  afterEach: { always: hook('afterEach') },
  after: Object.assign(hook('after'), { always: hook('afterAlways') }),
})
