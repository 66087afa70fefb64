import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inherited } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { useFolder } from '../../support/use.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../../..')
const folder = useFolder(test)
const caching = ['--import', './shared/base/code-cache.js']

/** The operator's help, which loads most of the product and needs no store. */
async function help(env: Record<string, string> = {}): Promise<string> {
  const { stdout, stderr } = await run(process.execPath, [...caching, 'api/operator.ts', 'help'], {
    cwd: root,
    // The tests' own processes share a folder.
    env: { ...inherited, NODE_COMPILE_CACHE: undefined, ...env },
  })
  return stdout + stderr
}

function filesIn(path: string): string[] {
  return existsSync(path) ? readdirSync(path, { recursive: true, encoding: 'utf8' }) : []
}

test.serial('what Node compiled is kept beside the packages, or where NODE_COMPILE_CACHE says', async t => {
  const text = await help()
  t.regex(text, /ledger check/)
  t.true(filesIn(join(root, 'node_modules/.cache/headgate')).length > 100)
  const other = join(folder, 'other')
  t.is(await help({ NODE_COMPILE_CACHE: other }), text)
  t.true(filesIn(other).length > 100)
  t.is(await help({ NODE_COMPILE_CACHE: other }), text, 'from what was kept')
})

test.serial('a start without a place to keep compiled code is as any other', async t => {
  const text = await help()
  const off = join(folder, 'off')
  t.is(await help({ NODE_COMPILE_CACHE: off, NODE_DISABLE_COMPILE_CACHE: '1' }), text)
  t.deepEqual(filesIn(off), [])
  t.is(await help({ NODE_COMPILE_CACHE: '/dev/null/none' }), text)
})

test.serial('a start from what was kept does not load the parser that strips types', async t => {
  await help()
  const list =
    'process.on("exit", () => console.log(process.moduleLoadList.filter(name => name.includes("amaro")).length))'
  const flags = [...caching, '--import', `data:text/javascript,${list}`]
  const options = { cwd: root, env: { ...inherited, NODE_COMPILE_CACHE: undefined } }
  const { stdout } = await run(process.execPath, [...flags, 'api/operator.ts', 'help'], options)
  t.is(stdout.trim().split('\n').at(-1), '0')
})

test.serial(
  'quickly made code is compiled on the main thread: no thread waits for a main thread that exits',
  async t => {
    const options = { cwd: root, env: { ...inherited, NODE_COMPILE_CACHE: undefined }, maxBuffer: 16 * 1_024 * 1_024 }
    const args = ['--trace-baseline', ...caching, 'api/operator.ts', 'help']
    const { stdout } = await run(process.execPath, args, options)
    const batches = (kind: string) => stdout.split(kind).length - 1
    t.true(batches('[Baseline batch compilation] Compiling') > 50)
    // Node itself, before the first module of the product is loaded.
    t.true(batches('[Concurrent Sparkplug] compiling') < 10)
  },
)
