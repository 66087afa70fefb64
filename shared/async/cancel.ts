import { GatewayError } from '../base/errors.ts'
import type { DelayedJob } from '../jobs/delayed.ts'
import { endJob } from '../media/end.ts'
import type { Services } from '../services.ts'

/** Cancels a job: nothing is charged, and a call under way is cut off. Throws a GatewayError 409 when it is over. */
export async function cancelDelayed(services: Services, id: string): Promise<DelayedJob> {
  const ended = await endJob(services, id, { status: 'cancelled', logStatus: 499, refund: true })
  if (ended) return ended
  throw new GatewayError('not_cancellable', 'This job is over; it can no longer be cancelled.')
}
