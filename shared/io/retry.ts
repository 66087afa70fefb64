import { setTimeout as sleep } from 'node:timers/promises'
import { addMs, elapsedMs, systemMonotonic } from '../base/time.ts'
import { isOutage } from './outage.ts'

/** Adds up to 50 % jitter to a pause, so that what failed together is not retried together. `random` is from 0 to 1. */
export function jittered(ms: number, random = Math.random()): number {
  return Math.round(ms * (1 + random / 2))
}

/** Waits at most `ms` for work; then rejects, while the work continues with its result ignored. */
export async function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1_000} s`)), ms)
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}

const startWithinMs = 20_000
const pauseMs = 500

/**
 * Runs one step of a process's start, with retries while a store is unavailable: stores and processes are often started
 * together, and a restarting store is back within seconds. Throws an Error with a one-line reason at the deadline, or
 * what the step throws.
 */
export async function startWithRetry<T>(step: () => Promise<T>, withinMs = startWithinMs): Promise<T> {
  const endMs = addMs(systemMonotonic.now(), withinMs)
  for (;;) {
    const leftMs = elapsedMs(systemMonotonic.now(), endMs)
    try {
      return await withDeadline(step(), leftMs)
    } catch (error) {
      const isOver = elapsedMs(systemMonotonic.now(), endMs) <= pauseMs
      if (isOver) throw new Error(`A store was not usable within ${withinMs / 1_000} s: ${lastLine(error)}`)
      if (!isOutage(error)) throw error
    }
    await sleep(pauseMs)
  }
}

/** Prisma puts the reason after the failed statement. */
function lastLine(error: unknown): string {
  const { message } = error instanceof Error ? error : new Error(String(error))
  return message.trim().split('\n').at(-1)!.trim()
}
