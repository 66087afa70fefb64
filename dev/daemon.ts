import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { signalProcess } from './processes.ts'

export type DaemonOptions = {
  /** For messages: "PostgreSQL". */
  name: string
  command: string
  args: string[]
  spawn?: { uid?: number; gid?: number; env?: NodeJS.ProcessEnv }
  /** Standard output and error; emptied at every start. */
  logFile: string
  stopSignal: NodeJS.Signals
  isReady: () => Promise<boolean>
}

export type Daemon = {
  pid: number
  /** Settles when the process has ended, with a phrase saying how. */
  exited: Promise<string>
  /** Asks the process to end and waits for it; after 10 s by force. */
  stop(): Promise<void>
  /** Ends the process at once (SIGKILL) and waits for it. */
  kill(): Promise<void>
}

const readyWithinMs = 30_000
const stopWithinMs = 10_000
const pollMs = 20
const shownLogLines = 15

/** Starts a server process and waits until it is ready. Throws an Error with the last lines of its log if it is not. */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const log = openSync(options.logFile, 'w', 0o600)
  // Its own process group: Ctrl-C in the terminal must not stop it before its clients.
  const child = spawn(options.command, options.args, { ...options.spawn, detached: true, stdio: ['ignore', log, log] })
  closeSync(log)
  const exited = endOf(child)
  if (child.pid === undefined) throw new Error(`${options.name} could not be started: ${await exited}`)
  dieWithParent(child, options.stopSignal)
  const end = (signal: NodeJS.Signals) => endDaemon(child, exited, signal)
  const daemon: Daemon = { pid: child.pid, exited, stop: () => end(options.stopSignal), kill: () => end('SIGKILL') }
  for (let waitedMs = 0; waitedMs < readyWithinMs && isRunning(child); waitedMs += pollMs) {
    // A server of another process may answer at the same address.
    if ((await options.isReady()) && isRunning(child)) return daemon
    await sleep(pollMs)
  }
  await daemon.stop()
  const lines = readFileSync(options.logFile, 'utf8').trimEnd().split('\n').slice(-shownLogLines)
  throw new Error(`${options.name} did not start (${await exited}):\n${lines.join('\n')}`)
}

/**
 * Ends a process when ours ends. A small shell waits on a pipe that only our process holds open: when our process ends, even
 * by SIGKILL, the shell sends `signal` to the child.
 */
export function dieWithParent(child: ChildProcess, signal: NodeJS.Signals): void {
  const script = 'read -r _; kill -s "$1" "$2"'
  const args = ['-c', script, 'die-with-parent', signal.slice('SIG'.length), String(child.pid)]
  const guard = spawn('/bin/sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  guard.unref()
  child.once('exit', () => guard.kill('SIGKILL')) // Its process id may be reused from now on.
}

/** Settles when the process has ended or could not be started, with one phrase saying how. */
export function endOf(child: ChildProcess): Promise<string> {
  return once(child, 'exit').then(
    ([code, signal]) => (signal ? `ended by ${signal}` : `exit code ${code}`),
    error => String(error.message),
  )
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

async function endDaemon(child: ChildProcess, exited: Promise<string>, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return
  signalProcess(child.pid!, signal)
  const timer = setTimeout(() => child.kill('SIGKILL'), stopWithinMs)
  await exited
  clearTimeout(timer)
}
