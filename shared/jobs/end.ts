import { type ErrorCode, GatewayError } from '../base/errors.ts'
import { storableText } from '../base/storable-text.ts'
import type { TransactionStep } from '../io/db.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { FailureReason, ProviderError } from '../providers/provider-error.ts'
import { poisonError } from '../queues/crash-suspect-limiter.ts'
import { releaseHolds } from '../wallet/holds.ts'
import type { JobServices } from './job-services.ts'
import type { End, ExpectedState, Job } from './jobs.ts'

type EndServices = Pick<
  JobServices,
  'jobs' | 'scripts' | 'wallets' | 'pollSchedule' | 'webhooks' | 'completionSignals' | 'log' | 'metrics'
>

/**
 * Ends a job with what `beside` writes, then updates Redis balances, the poll schedule, its webhook and waiting
 * requests. Null when it was over already, is not as `expected`, or was cancelled. Sweeps repeat whatever fails or is
 * interrupted after the transaction.
 */
export async function endJob(
  services: EndServices,
  id: string,
  end: End,
  expected?: ExpectedState,
  beside?: TransactionStep<Job>,
): Promise<Job | null> {
  const { jobs, scripts, wallets, pollSchedule, webhooks, completionSignals, log } = services
  const ended = await jobs.end(id, end, expected, beside)
  if (!ended) return null
  const { job, deliveryIds } = ended
  const { organisationId, keyId, month } = job
  const updateBalances = async () => {
    if (job.environment === 'test') return
    await wallets.install(organisationId, keyId, month)
    // Only after its charge counts in Redis, or the money could be spent twice in between.
    await releaseHolds(scripts, [job])
  }
  const steps: [string, () => Promise<unknown>][] = [
    ['money', updateBalances],
    ['polling', () => pollSchedule.remove([id])],
    ['announcement', () => completionSignals.announce(id)],
    ['webhooks', () => webhooks.enqueue(deliveryIds)],
  ]
  const runStep = ([what, step]: (typeof steps)[number]) =>
    step().catch(error => log.warn({ err: error, job: id, what }, 'a step after the end of a job failed'))
  await Promise.all(steps.map(runStep))
  log.info({ job: id, kind: job.kind, model: job.model, provider: job.provider, status: job.status }, 'job ended')
  if (services.metrics) recordEnd(services.metrics, job, end)
  return job
}

/** Counts a finished job, and what it used and was charged. */
function recordEnd(metrics: Metrics, job: Job, { call, discountPpm = 0 }: End): void {
  const { kind, environment, model, provider, costNano } = job
  metrics.recordJobEnd(kind, job.status)
  metrics.recordUsage({ model, provider, ...call, kind, environment, cost: Number(costNano ?? 0n) }, discountPpm)
}

/** The end of a job whose work failed: nothing is charged. */
export function failedEnd(error: ProviderError | GatewayError): End {
  if (error instanceof GatewayError)
    return {
      status: 'failed',
      logStatus: error.status,
      error: { code: error.code, message: storableText(error.message) },
      refund: true,
    }
  const [code, logStatus] = errorCodes[error.reason] ?? (['upstream_error', 502] as const)
  return { status: 'failed', logStatus, error: { code, message: storableText(error.message) }, refund: true }
}

/** Faults of the request are the caller's, the rest the provider's (docs/errors.md). */
const errorCodes: { [R in FailureReason]?: readonly [ErrorCode, number] } = {
  invalid_request: ['invalid_request', 400],
  content_filter: ['invalid_request', 400],
  context_length: ['context_length_exceeded', 400],
  invalid_response: ['upstream_invalid_response', 502],
  timeout: ['upstream_timeout', 504],
}

/** The end of a job that is presumed to have killed its workers. */
export const poisonedEnd: End = {
  status: 'failed',
  logStatus: 500,
  error: { ...poisonError, message: `${poisonError.message} Nothing was charged.` },
  refund: true,
}

/** The end of a job whose own provider key was deleted while it ran. */
export const ownKeyGoneEnd: End = {
  status: 'failed',
  logStatus: 403,
  error: { code: 'own_key_refused', message: 'The own provider key that this job ran with was deleted.' },
  refund: true,
}

/** The end of a job that missed its deadline. */
export const expiredEnd: End = {
  status: 'expired',
  logStatus: 504,
  error: { code: 'upstream_timeout', message: 'The work was not finished in time. Nothing was charged.' },
  refund: true,
}
