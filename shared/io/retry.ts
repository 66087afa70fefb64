import { setTimeout as sleep } from 'node:timers/promises'
import { isOutage } from './outage.ts'

/** Waits for work that begins before, and no longer than `ms`; then rejects, and the work goes on unheard. */
export async function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1_000} s`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

const startWithinMs = 20_000
const pauseMs = 500

/**
 * Runs one step of a process' start, again and again while a store is away: stores and processes are often started together, and
 * a store that restarts is back within seconds. Throws an Error that says in one line what was missing, or what the step throws.
 */
export async function startPatiently<T>(step: () => Promise<T>, withinMs = startWithinMs): Promise<T> {
  const endMs = performance.now() + withinMs
  for (;;) {
    const leftMs = endMs - performance.now()
    try {
      return await withDeadline(step(), leftMs)
    } catch (error) {
      const isOver = performance.now() + pauseMs >= endMs
      if (isOver) throw new Error(`A store was not usable within ${withinMs / 1_000} s: ${lastLine(error)}`)
      if (!isOutage(error)) throw error
    }
    await sleep(pauseMs)
  }
}

/** Prisma puts the reason below the statement that failed. */
function lastLine(error: unknown): string {
  const { message } = error instanceof Error ? error : new Error(String(error))
  return message.trim().split('\n').at(-1)!.trim()
}
