import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { dieWithParent, endOf } from '../../dev/daemon.ts'

const run = promisify(execFile)
export const root = join(import.meta.dirname, '../..')
const readyWithinMs = 180_000
const stopWithinMs = 30_000
const pollMs = 5
const maxOutputBytes = 16 * 1024 * 1024

export type Running = { child: ChildProcess; stop(): Promise<void> }

/** Pins this process, and so everything it starts, to the given processors. Throws an Error when taskset is missing. */
export function pinSelf(processors: string): void {
  const args = ['--all-tasks', '--cpu-list', '--pid', processors, String(process.pid)]
  try {
    execFileSync('taskset', args, { stdio: 'ignore' })
  } catch {
    // A thread ended between being listed and being pinned.
    execFileSync('taskset', args, { stdio: 'ignore' })
  }
}

/** Whether a program of this name is installed. */
export function has(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Starts a program whose output goes to `logFile`. `processors` null leaves it where this process is. */
export function start(
  command: string[],
  { logFile, env, processors }: { logFile: string; env?: NodeJS.ProcessEnv; processors: string | null },
): Running {
  const [program, ...args] = processors === null ? command : ['taskset', '--cpu-list', processors, ...command]
  const log = openSync(logFile, 'w', 0o600)
  // No balancer has to notice its end.
  const own = { SHUTDOWN_DRAIN_MS: '0', ...(env ?? process.env) }
  const child = spawn(program!, args, { cwd: root, env: own, stdio: ['ignore', log, log] })
  closeSync(log)
  const ended = endOf(child)
  if (child.pid !== undefined) dieWithParent(child, 'SIGKILL')
  const stop = async () => {
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), stopWithinMs)
    await ended
    clearTimeout(timer)
  }
  return { child, stop }
}

/** Runs a program to its end and gives what it printed. Throws an Error with its standard error when it fails. */
export async function output(command: string[], env: NodeJS.ProcessEnv = process.env): Promise<string> {
  const [program, ...args] = command
  const { stdout } = await run(program!, args, { cwd: root, env, maxBuffer: maxOutputBytes })
  return stdout
}

/** How the package.json of a checkout starts a process, with a CPU profile where one is wanted. */
export async function commandOf(script: string, profileFolder: string | null, checkout = root): Promise<string[]> {
  const { scripts } = JSON.parse(await readFile(join(checkout, 'package.json'), 'utf8'))
  const args = scripts[script].replace('exec node ', '').split(' ')
  return [process.execPath, ...(profileFolder ? ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`] : []), ...args]
}

/** Waits until `isReady`. Throws an Error with the end of the log when the program ends first, or after three minutes. */
export async function untilReady({ child }: Running, logFile: string, isReady: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + readyWithinMs; Date.now() < deadline; await sleep(pollMs)) {
    if (await isReady()) return
    if (child.exitCode !== null || child.signalCode !== null) break
  }
  throw new Error(`${child.spawnargs.join(' ')} is not ready:\n${readFileSync(logFile, 'utf8').slice(-2_000)}`)
}

export function listens(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => resolve(true))
    socket.on('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

export function answersOk(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(readyWithinMs) }).then(
    response => response.ok,
    () => false,
  )
}
