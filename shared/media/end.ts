import type { ErrorCode } from '../base/errors.ts'
import { GatewayError } from '../base/errors.ts'
import type { End, Job } from '../jobs/jobs.ts'
import { givenUp } from '../jobs/suspects.ts'
import type { FailureReason, ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { dropHolds } from '../wallet/holds.ts'

type Ending = Pick<Services, 'jobs' | 'scripts' | 'accounts' | 'watch' | 'webhooks' | 'endings' | 'log'>

/**
 * Ends a job and tells everybody: money in Redis, the watch, its webhook, those who wait. Null when it was over already.
 * What fails or is cut off after the transaction, the sweepers do.
 */
export async function endJob(services: Ending, id: string, end: End, stage?: Job['stage']): Promise<Job | null> {
  const { jobs, scripts, accounts, watch, webhooks, endings, log } = services
  const ended = await jobs.end(id, end, stage)
  if (!ended) return null
  const { job, deliveryId } = ended
  const { organisationId, keyId, month } = job
  const money = async () => {
    if (job.environment === 'test') return
    await accounts.install(organisationId, keyId, month)
    // Not before its charge counts in Redis: the money would be free for a moment.
    await dropHolds(scripts, [job])
  }
  const steps: [string, () => Promise<unknown>][] = [
    ['money', money],
    ['watch', () => watch.remove([id])],
    ['announcement', () => endings.announce(id)],
    ['webhook', async () => deliveryId && webhooks.enqueue([deliveryId])],
  ]
  const follow = ([what, step]: (typeof steps)[number]) =>
    step().catch(error => log.warn({ err: error, job: id, what }, 'after a job’s end'))
  await Promise.all(steps.map(follow))
  log.info({ job: id, kind: job.kind, model: job.model, provider: job.provider, status: job.status }, 'job over')
  return job
}

/** The end of a job whose work failed: nothing is charged. */
export function failed(error: ProviderError | GatewayError): End {
  if (error instanceof GatewayError)
    return {
      status: 'failed',
      logStatus: error.status,
      error: { code: error.code, message: storableText(error.message) },
      refund: true,
    }
  const [code, logStatus] = codes[error.reason] ?? (['upstream_error', 502] as const)
  return { status: 'failed', logStatus, error: { code, message: storableText(error.message) }, refund: true }
}

/** What a provider says of a failure, as Postgres can store it. */
function storableText(message: string): string {
  return message.replaceAll('\0', '').toWellFormed()
}

/** Faults of the request are the caller's, the rest the provider's (contract §2). */
const codes: { [R in FailureReason]?: readonly [ErrorCode, number] } = {
  invalid_request: ['invalid_request', 400],
  content_filter: ['invalid_request', 400],
  context_length: ['context_length_exceeded', 400],
  invalid_response: ['upstream_invalid_response', 502],
  timeout: ['upstream_timeout', 504],
}

/** The end of a job whose workers died of it, as far as anybody can tell. */
export const poisonous: End = {
  status: 'failed',
  logStatus: 500,
  error: { ...givenUp, message: `${givenUp.message} Nothing was charged.` },
  refund: true,
}

/** The end of a job that took too long. */
export const expired: End = {
  status: 'expired',
  logStatus: 504,
  error: { code: 'upstream_timeout', message: 'The work was not finished in time. Nothing was charged.' },
  refund: true,
}
