import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const stopWithinMs = 10_000
const pollMs = 50

/** The command line of a running process; null when there is no such process or it is a zombie. */
export function commandLine(pid: number): string | null {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') || null
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).trim() || null
  } catch {
    return null
  }
}

/** Whether a process with this id exists, including zombies. */
export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Sends a signal; a process that has already ended is no error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Stops a process left over from an earlier run, gracefully, and after 10 s by force. Process ids are reused by the system,
 * so it does nothing unless `isOurs` recognises the process by its command line.
 */
export async function stopOrphan(
  pid: number,
  signal: NodeJS.Signals,
  isOurs: (commandLine: string) => boolean,
): Promise<void> {
  const isAlive = () => isOurs(commandLine(pid) ?? '')
  for (const next of [signal, 'SIGKILL'] as const) {
    if (!isAlive()) return
    signalProcess(pid, next)
    for (let waitedMs = 0; waitedMs < stopWithinMs && isAlive(); waitedMs += pollMs) await sleep(pollMs)
  }
  if (isAlive()) throw new Error(`process ${pid} of an earlier run cannot be stopped`)
}
