import { once } from 'node:events'
import { join } from 'node:path'
import { type Process, type Stores, startProcess } from '../gateway.ts'

/**
 * What one request may do to the process that serves it. The limits are 100 ms and 100 MB on an idle machine; the rest is for
 * one whose processors other processes share, where garbage is collected later as well. What these tests look for takes
 * seconds, or many times the size of the request.
 */
export const maxBlockMs = 250
export const maxGrownMb = 150

export type Measured = { blockMs: number; grownMb: number }

/** A web process that tells how long it was busy and how much memory it took. */
export type MeasuredProcess = Process & {
  /** Runs work that sends requests to the process, and gives what they did to it. */
  measure(work: () => Promise<unknown>): Promise<Measured>
}

/** Starts a web process as in production, with the measuring part of `measure-preload.ts` in it. */
export async function startMeasured(
  stores: Stores,
  env: Record<string, string>,
  nodeOptions = '',
): Promise<MeasuredProcess> {
  const preload = join(import.meta.dirname, 'measure-preload.ts')
  const settings = {
    // Freed buffers go back to the system at once, so that one request is not charged for another.
    MALLOC_MMAP_THRESHOLD_: '65536',
    MALLOC_TRIM_THRESHOLD_: '65536',
    NODE_OPTIONS: `--import=${preload} --expose-gc --max-semi-space-size=32 ${nodeOptions}`,
    ...env,
  }
  const web = await startProcess('web', stores, settings, { ipc: true })
  const told = async (question: string) => {
    const answered = new AbortController()
    const { signal } = answered
    const ended = once(web.child, 'exit', { signal }).then(() => {
      throw new Error(`the web process ended: ${web.output().slice(-2_000)}`)
    })
    web.child.send(question)
    const answer = once(web.child, 'message', { signal })
    const [value] = await Promise.race([answer, ended]).finally(() => answered.abort())
    await ended.catch(() => {})
    return value as Measured
  }
  return {
    ...web,
    async measure(work) {
      await told('start')
      await work()
      return told('stop')
    },
  }
}

/** The limits that a measurement exceeds; null if it is within all of them. */
export function excessOf({ blockMs, grownMb }: Measured): string | null {
  const said = [
    blockMs > maxBlockMs && `blocks for ${Math.round(blockMs)} ms`,
    grownMb > maxGrownMb && `takes ${Math.round(grownMb)} MB`,
  ].filter(part => part !== false)
  return said.length > 0 ? said.join(' and ') : null
}
