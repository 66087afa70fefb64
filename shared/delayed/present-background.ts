import { type ErrorCode, GatewayError } from '../base/errors.ts'
import { unixSeconds } from '../base/time.ts'
import { failedResponse } from '../engine/responses-error.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import { presentResponse } from '../responses/present.ts'
import type { ResponseServices } from '../responses/response-services.ts'
import type { ResponseRow } from '../responses/stored-responses.ts'
import { type DelayedJob, hasEnded } from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'

/**
 * A response in the background as it is now: as stored, or with the status of its job while nothing is stored. Throws
 * 404 when it is gone, and what the stores throw.
 */
export async function presentBackground(services: DelayedServices, row: ResponseRow): Promise<ResponsesObject> {
  if (row.status !== 'queued') return presentStored(services, row)
  const job = await services.delayedJobs.read(row.id)
  if (job && hasEnded(job)) {
    // Its end may have stored the response since the row was read.
    const current = await services.storedResponses.find(row.id, row)
    if (current && current.status !== 'queued') return presentStored(services, current)
  }
  const head = (await services.storedResponses.readHead(row.id)) as ResponsesObject
  const response = { ...head, output: [] }
  return job ? withStatusOf(job, response) : response
}

async function presentStored(services: ResponseServices, row: ResponseRow): Promise<ResponsesObject> {
  return (await presentResponse(services, row)) as ResponsesObject
}

/** The error of a job that a worker of an earlier release has run, which stores no responses. */
const lost = { code: 'internal_error', message: 'The response could not be stored. Create it again.' }

/** A response that is not stored yet, or that ended without an answer. */
function withStatusOf(job: DelayedJob, response: ResponsesObject): ResponsesObject {
  if (!hasEnded(job)) return { ...response, status: job.stage === 'running' ? 'in_progress' : 'queued' }
  const ended = { ...response, completed_at: unixSeconds(job.completedAt) }
  if (job.status === 'cancelled' && !job.error) return { ...ended, status: 'cancelled' }
  const { code, message } = (job.error ?? lost) as { code: ErrorCode; message: string }
  return failedResponse(ended, new GatewayError(code, message), message)
}
