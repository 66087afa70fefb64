// The runner of the client matrix: installs the clients, checks the tests' types, starts one gateway of two real processes
// over stores of its own, and runs AVA with the arguments of the command line. Everything is stopped however the run ends.
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { dieWithParent, endOf } from '../../dev/daemon.ts'
import { installClients, withOurNode } from './support/install.ts'
import { type Stack, startStack } from './support/stack.ts'

const folder = import.meta.dirname
const root = join(folder, '../..')
const failed = 1
/** Also every agent on every kind of model over thirty turns, and the libraries that take longest. */
const wholeMatrix = '--all'
const checkWithinMs = 120_000
const execute = promisify(execFile)

const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopping.abort())
let stack: Stack | undefined
let exitCode = failed
try {
  await installClients(stopping.signal)
  stack = await startStack(stopping.signal)
  const [typesAreRight, testsPassed] = await Promise.all([checkTypes(), runTests(stack.env)])
  exitCode = typesAreRight && testsPassed ? 0 : failed
  if (exitCode !== 0 && process.env.SHOW_LOGS) console.error(stack.output())
} catch (error) {
  console.error(error)
} finally {
  await stack?.stop()
}
process.exit(exitCode)

async function checkTypes(): Promise<boolean> {
  const options = { cwd: root, timeout: checkWithinMs, signal: stopping.signal, env: withOurNode() }
  const compiler = join(root, 'node_modules/.bin/tsc')
  return execute(compiler, ['-p', folder], options).then(
    () => true,
    ({ stdout, message }) => {
      console.error(stdout || message)
      return false
    },
  )
}

async function runTests(env: Record<string, string>): Promise<boolean> {
  const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
  const options = process.argv.slice(2)
  const child = spawn(process.execPath, [ava, ...options.filter(option => option !== wholeMatrix)], {
    cwd: folder,
    env: { ...process.env, ...env, ...(options.includes(wholeMatrix) && { CLIENTS_ALL: '1' }) },
    stdio: ['ignore', 'inherit', 'inherit'],
    signal: stopping.signal,
    killSignal: 'SIGKILL',
  })
  dieWithParent(child, 'SIGKILL')
  await endOf(child)
  return child.exitCode === 0
}
