import { GatewayError } from '../../shared/base/errors.ts'
import { hasEnded } from '../../shared/delayed/delayed-row.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Context } from '../endpoint.ts'

const maxWaitS = 60
export const preferHeader = {
  name: 'Prefer',
  maxLength: 100,
  description: '`wait=N` waits up to N seconds (at most 60) for the job to end; `wait` alone means 60.',
}

/** Waits until the job is over, for at most the given seconds; `read` returns its current state. */
export async function waitForJob<J extends { id: string } & Parameters<typeof hasEnded>[0]>(
  { completionSignals, shutdown }: Platform,
  job: J,
  seconds: number,
  read: () => Promise<J | null>,
  ctx: Context,
): Promise<J> {
  if (seconds === 0 || hasEnded(job)) return job
  ctx.set('preference-applied', `wait=${seconds}`)
  let current = job
  const disconnected = new AbortController()
  ctx.state.client.onGone(() => disconnected.abort())
  const isOver = async () => {
    current = (await read()) ?? current
    return hasEnded(current)
  }
  const stop = () => disconnected.abort()
  await shutdown.run(stop, () => completionSignals.wait(job.id, seconds * 1_000, isOver, disconnected.signal))
  return current
}

/** A preference of RFC 7240: its name in any case, its value in quotes or not. */
const waiting = /(?:^|[,;\s])wait\s*(?:=\s*("[^"]*"|[^,;\s]*)|(?=[,;]|$))/i

/**
 * The seconds of `Prefer: wait=N`, the most for `wait` alone (https://replicate.com/docs/topics/predictions/create-a-prediction);
 * 0 if absent. Call before any side effect. Throws 400.
 */
export function parseWait(ctx: Context): number {
  const match = waiting.exec(ctx.get('prefer').trim())
  if (!match) return 0
  const text = match[1]?.replaceAll('"', '') || String(maxWaitS)
  const seconds = Number(text)
  if (/^\d+$/.test(text) && seconds <= maxWaitS) return seconds
  throw new GatewayError('invalid_request', `Prefer: wait must be a whole number of at most ${maxWaitS} seconds.`, {
    param: 'Prefer',
  })
}
