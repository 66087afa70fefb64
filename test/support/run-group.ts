import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import ava, { type ExecutionContext } from 'ava'
import { filesOf } from '../groups.ts'
import { collect, TestFile } from './test.ts'
import { Turns } from './turns.ts'

const tests = join(import.meta.dirname, '..')
/** The name under which a hook of a file fails. */
const hooks = 'hooks'

/**
 * Runs all files of a group in this process, one after another, each as it would run alone: its serial tests, then the
 * others concurrently, but not all at once. The title of each test begins with its file.
 */
export async function runGroup(group: string): Promise<void> {
  const files: [path: string, file: TestFile][] = []
  for (const path of filesOf(group))
    files.push([path, await collect(pathToFileURL(join(tests, path)).href).catch(unreadable)])
  // AVA wants all tests declared at once. It starts them all; each waits for its turn, which is no part of its duration.
  const turns = new Turns()
  for (const [path, file] of files) {
    for (const { title, serial, run } of file.tests) {
      // AVA does the same to white space.
      const fullTitle = `${path} › ${title}`.trim().replaceAll(/\s+/g, ' ')
      turns.add(fullTitle, file, serial)
      ava(fullTitle, t => run(t) as Promise<void>)
    }
  }
  const titleOf = ({ title }: ExecutionContext) => title.slice(`${hooks} for `.length)
  ava.beforeEach(hooks, t => turns.begin(titleOf(t), t))
  ava.afterEach.always(hooks, t => turns.end(titleOf(t), t))
}

/** A file that cannot be imported fails under its own name; the others of its group still run. */
function unreadable(error: unknown): TestFile {
  const file = new TestFile()
  const run = () => {
    throw error
  }
  file.tests.push({ title: 'import', serial: true, run })
  return file
}
