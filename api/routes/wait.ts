import { GatewayError } from '../../shared/base/errors.ts'
import type { Services } from '../../shared/services.ts'
import type { Context } from '../endpoint.ts'

const mostWaitS = 60
export const preferHeader = {
  name: 'Prefer',
  maxLength: 100,
  description: '`wait=N` waits up to N seconds (at most 60) for the end of the job.',
}

/** The job once it is over, or after so many seconds; `read` gives it as it is now. */
export async function waited<J extends { id: string; stage: string }>(
  { endings, shutdown }: Services,
  job: J,
  seconds: number,
  read: () => Promise<J | null>,
  ctx: Context,
): Promise<J> {
  if (seconds === 0 || job.stage === 'over') return job
  ctx.set('preference-applied', `wait=${seconds}`)
  let current = job
  const gone = new AbortController()
  ctx.state.client.onGone(() => gone.abort())
  const isOver = async () => {
    current = (await read()) ?? current
    return current.stage === 'over'
  }
  const stop = () => gone.abort()
  await shutdown.during(stop, () => endings.wait(job.id, seconds * 1_000, isOver, gone.signal))
  return current
}

/** The seconds that `Prefer: wait=N` asks for; 0 without it. To be asked before anything is done. Throws 400. */
export function waitOf(ctx: Context): number {
  const [, text] = /(?:^|[,;\s])wait=([^,;\s]*)/.exec(ctx.get('prefer')) ?? []
  if (text === undefined) return 0
  const seconds = Number(text)
  if (Number.isInteger(seconds) && seconds >= 0 && seconds <= mostWaitS) return seconds
  throw new GatewayError('invalid_request', `Prefer: wait must be a whole number of at most ${mostWaitS} seconds.`, {
    param: 'Prefer',
  })
}
