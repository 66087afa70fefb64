import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { dieWithParent, endOf } from './daemon.ts'
import { inUrl } from './ports.ts'
import { copyReadably } from './readable-log.ts'

const root = join(import.meta.dirname, '..')
const stopWithinMs = 28_000
const readyWithinMs = 30_000
const pollMs = 50

/** A gateway process that writes to our terminal. */
export type AppProcess = {
  name: string
  ended: Promise<string>
  /** Sends the signal and waits for the end; after 28 s by force. */
  stop(signal: NodeJS.Signals): Promise<void>
}

/** Starts `node <file>` of this project. Its log is JSON, and text on a terminal, where a person reads it. */
export function startApp(name: string, file: string, env: NodeJS.ProcessEnv): AppProcess {
  // Its own process group: Ctrl-C reaches it once, through us, and not a second time from the terminal.
  const child = spawn(process.execPath, ['--import', './shared/base/code-cache.js', join(root, file)], {
    cwd: root,
    env,
    detached: true,
    stdio: ['ignore', process.stdout.isTTY ? 'pipe' : 'inherit', 'inherit'],
  })
  if (child.stdout) copyReadably(child.stdout, process.stdout)
  const ended = endOf(child)
  if (child.pid !== undefined) dieWithParent(child, 'SIGKILL')
  const stop = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), stopWithinMs)
    await ended
    clearTimeout(timer)
  }
  return { name, ended, stop }
}

/** The address of a server that listens at a host: wildcard addresses map to the loopback address. */
export function addressOf(host: string): string {
  return inUrl({ '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host)
}

/** Waits until the gateway at an address (`http://host:port`) answers 200 on /readyz. Throws an Error after 30 s. */
export async function waitUntilReady(address: string): Promise<void> {
  const url = `${address}/readyz`
  for (const deadline = Date.now() + readyWithinMs; Date.now() < deadline; await sleep(pollMs)) {
    const response = await fetch(url, { signal: AbortSignal.timeout(readyWithinMs) }).catch(() => null)
    await response?.body?.cancel()
    if (response?.status === 200) return
  }
  throw new Error(`the gateway is not ready after ${readyWithinMs / 1000} s: see ${url}`)
}
