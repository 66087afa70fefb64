import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import type { Job } from '../jobs/jobs.ts'
import { maxOpenStarts } from '../jobs/suspects.ts'
import type { QueuedKind } from '../kinds/index.ts'
import { isRequestFault, type Operation, ProviderError, type QueuedCall, type Target } from '../providers/contract.ts'
import { trackedLine } from '../providers/tracked-line.ts'
import type { Services } from '../services.ts'
import { cancelIfRequested } from './cancel.ts'
import { type Connection, callbackUrl, connectionOf, reportsBack } from './connection.ts'
import { endJob, failed, poisonous } from './end.ts'
import { sourcesOf } from './sources.ts'
import { type JobInput, queuedTargets } from './submit.ts'

const unclearDelayMs = 5_000
const unconfiguredDelayMs = 30_000
const retryDelayMs = { least: 2_000, most: 60_000 }
const savingTries = 20
const savingPauseMs = 2_000

/** What one attempt to start shows. `refused` had no effect; of `unclear` nobody knows. */
type Attempt =
  | { outcome: 'started' }
  | { outcome: 'refused'; error?: Fault }
  | { outcome: 'unclear'; error: ProviderError }
type Fault = ProviderError | GatewayError

/**
 * One visit to a job that waits to be started: tries the providers of its model in turn until one takes it. Before anything
 * was sent, it may be tried again freely; after that only where the provider can be asked for our own id. Gives the delay
 * in milliseconds after which to come back, null when there is nothing left to do.
 */
export async function startJob(services: Services, jobId: string): Promise<number | null> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'starting' && job?.stage !== 'waiting') return null
  const start = () => (job.stage === 'starting' ? recover(services, jobId) : startAnew(services, job))
  return services.suspects.run(job.openStarts, start, () => services.jobs.endStart(jobId))
}

async function startAnew(services: Services, job: Job): Promise<number | null> {
  if (job.cancelRequestedAt && (await cancelIfRequested(services, job.id))) return null
  const targets = targetsOf(services, job)
  if (targets.length === 0) return unconfiguredDelayMs
  let claimed: Job | null = null
  let last: Extract<Attempt, { outcome: 'refused' }> | null = null
  let restMs = Number.POSITIVE_INFINITY
  for (const target of targets) {
    const rest = services.upstreams.figures(target).restMs
    if (rest > 0 && job.environment === 'live') {
      restMs = Math.min(restMs, rest)
      continue
    }
    const credentialId = credentialFor(services, job, target)
    const { name } = target.provider
    claimed = claimed
      ? await services.jobs.moveStart(claimed, name, credentialId)
      : await services.jobs.claimStart(job.id, name, credentialId)
    if (!claimed) return null
    const tried = await attempt(services, claimed, target)
    if (tried.outcome === 'started') return null
    if (tried.outcome === 'unclear') return unclear(services, claimed, tried.error)
    if (tried.error && isFault(tried.error)) return refused(services, job, claimed, tried.error, null)
    // Whoever may take it later outweighs who never will.
    if (!last || (last.error && !isPassing(last.error))) last = tried
  }
  return refused(services, job, claimed, last?.error, Number.isFinite(restMs) ? restMs : null)
}

/** Who may start a job: whoever serves its model; the second part of a work, only who has the first. */
function targetsOf(services: Services, job: Job): Target[] {
  const model = services.catalog.models.get(job.model)
  if (!model) return []
  const targets = queuedTargets(services, job.kind as QueuedKind, model, job.environment)
  return job.operation === null ? targets : targets.filter(({ provider }) => provider.name === job.provider)
}

function credentialFor({ upstreams }: Services, job: Job, target: Target): string | null {
  if (job.environment === 'test') return null
  return upstreams.credential(target, job.operation === null ? null : job.credentialId).credential.id
}

async function attempt(services: Services, job: Job, target: Target): Promise<Attempt> {
  const { clock, jobs, log } = services
  const beganMs = clock.now()
  const tried = await tryToStart(services, job, target)
  const error = tried.outcome === 'started' ? null : tried.error
  // Of a job that the first one took, or that nobody was asked for, there is nothing to tell.
  if (error === undefined || (error === null && job.attempts === 1)) return tried
  const note = {
    ...{ provider: target.provider.name, model: target.model.id, status: error?.status ?? null },
    ...{
      fault: error && (error instanceof ProviderError ? error.reason : error.code),
      durationMs: clock.now() - beganMs,
    },
  }
  await jobs.noteAttempt(job, note).catch(err => log.warn({ err, job: job.id }, 'an attempt is missing in the log'))
  return tried
}

async function tryToStart(services: Services, job: Job, target: Target): Promise<Attempt> {
  const connection = connectionOf(services, job)
  if (!connection) return { outcome: 'refused' }
  const { adapter, line } = connection
  let sent = false
  const tracked = trackedLine(line, () => {
    sent = true
  })
  try {
    const call = await callOf(services, job, target, connection)
    const operation = await adapter.start(call, tracked, job.operation as Operation | null)
    reportHealth(services, job, target, null)
    await save(services, job, operation, connection)
    return { outcome: 'started' }
  } catch (error) {
    return judge(services, job, target, error, sent)
  }
}

function judge(services: Services, job: Job, target: Target, error: unknown, sent: boolean): Attempt {
  if (error instanceof ProviderError) {
    reportHealth(services, job, target, error)
    return hadNoEffect(error) || !sent ? { outcome: 'refused', error } : { outcome: 'unclear', error }
  }
  if (!sent && error instanceof GatewayError) return { outcome: 'refused', error }
  services.log.error({ err: error, job: job.id }, 'cannot start a job')
  if (!sent) return { outcome: 'refused' }
  const message = 'The provider’s answer could not be processed.'
  return { outcome: 'unclear', error: new ProviderError('invalid_response', message, { cause: error }) }
}

/** Whether a failed start surely started nothing: it never left, or the provider refused it. */
export function hadNoEffect({ unsent, reason, status }: ProviderError): boolean {
  if (unsent) return true
  if (status !== null && status >= 400 && status < 500 && status !== 408) return true
  return !['timeout', 'connection', 'server_error', 'invalid_response', 'truncated'].includes(reason)
}

async function callOf(
  services: Services,
  job: Job,
  target: Target,
  { protocol }: Connection,
): Promise<QueuedCall<QueuedKind>> {
  const { input, references } = job.input as unknown as JobInput
  return {
    target,
    jobId: job.id,
    input: input as QueuedCall<QueuedKind>['input'],
    sources: sourcesOf(services, references),
    callbackUrl: reportsBack(services, job, protocol) ? await callbackUrl(services, job.id) : null,
  }
}

/** Writes the provider's handle down, whatever it takes: without it the work is lost. */
async function save(services: Services, job: Job, operation: Operation, { adapter, line }: Connection): Promise<void> {
  const { jobs, watch, clock, log } = services
  let running: Job | null = null
  for (let tries = 1; ; tries++) {
    try {
      running = await jobs.started(job, operation)
      break
    } catch (error) {
      log.error({ err: error, job: job.id, operation }, 'the handle of started work could not be saved')
      if (tries === savingTries) throw error
      await sleep(savingPauseMs)
    }
  }
  if (running) {
    const due = clock.now() + adapter.poll.firstMs
    await watch
      .add([job.id], due)
      .catch(error => log.warn({ err: error, job: job.id }, 'a started job is watched later'))
    if (running.cancelRequestedAt) await cancelIfRequested(services, job.id)
  } else {
    // Cancelled or given up while it was being started.
    await adapter
      .cancel?.(operation, line)
      .catch(error => log.warn({ err: error, job: job.id }, 'cannot stop cancelled work'))
  }
}

function reportHealth({ health, upstreams }: Services, job: Job, target: Target, error: ProviderError | null): void {
  if (job.environment === 'test') return
  if (!error) health.succeeded(target, null)
  if (!error || isRequestFault(error)) return
  const { alone } = upstreams.credential(target, job.credentialId)
  health.failed(target, error, 0, { id: job.credentialId ?? '', alone })
}

/** Nobody knows whether the provider works: it is asked, where it can be; else the job fails and nobody starts it again. */
async function unclear(services: Services, job: Job, error: ProviderError): Promise<number | null> {
  if (connectionOf(services, job)?.adapter.find) {
    await services.jobs.yieldStart(job)
    return unclearDelayMs
  }
  await endJob(services, job.id, failed(error), 'starting')
  return null
}

/** Whoever began to start this job did not come to an end. */
async function recover(services: Services, jobId: string): Promise<number | null> {
  const job = await services.jobs.claimLostStart(jobId)
  if (!job) return null
  if (job.openStarts > maxOpenStarts) {
    await endJob(services, jobId, poisonous, 'starting')
    return null
  }
  const connection = connectionOf(services, job)
  const target = targetsOf(services, job).find(({ provider }) => provider.name === job.provider)
  if (!connection?.adapter.find || !target) {
    const message = 'It is not known whether the provider began the work, so it was not started again.'
    await endJob(services, jobId, failed(new ProviderError('server_error', message)), 'starting')
    return null
  }
  try {
    const found = await connection.adapter.find(await callOf(services, job, target, connection), connection.line)
    if (found) {
      await save(services, job, found, connection)
      return null
    }
  } catch (error) {
    services.log.warn({ err: error, job: jobId }, 'cannot find out whether a job was started')
    await services.jobs.yieldStart(job)
    return unclearDelayMs
  }
  // The provider does not have it.
  if (job.cancelRequestedAt) return refused(services, job, job, undefined, 0)
  const tried = await attempt(services, job, target)
  if (tried.outcome === 'started') return null
  if (tried.outcome === 'unclear') return unclear(services, job, tried.error)
  return refused(services, job, job, tried.error, null)
}

/**
 * Nobody took the job: it ends where waiting would not help, else it waits for its next turn. `restMs` = after that somebody
 * may be asked who was not asked now; null = there is nobody.
 */
async function refused(
  services: Services,
  job: Job,
  claimed: Job | null,
  error: Fault | undefined,
  restMs: number | null,
): Promise<number | null> {
  if (error && (isFault(error) || (restMs === null && !isPassing(error)))) {
    await endJob(services, job.id, failed(error), 'starting')
    return null
  }
  if (claimed) {
    await services.jobs.unstart(claimed)
    if (await cancelIfRequested(services, job.id)) return null
  }
  const backoffMs = Math.min(retryDelayMs.least * 2 ** Math.min(job.attempts, 10), retryDelayMs.most)
  const askedMs = error instanceof ProviderError ? (error.retryAfterMs ?? 0) : 0
  const leastMs = claimed ? backoffMs : Math.min(restMs ?? 0, retryDelayMs.most)
  return Math.min(Math.max(leastMs, askedMs, 1_000), retryDelayMs.most)
}

/** Whether the request itself is at fault, so that nobody would take it. */
function isFault(error: Fault): boolean {
  return error instanceof ProviderError && isRequestFault(error)
}

function isPassing(error: Fault): boolean {
  return (
    error instanceof ProviderError &&
    ['rate_limited', 'overloaded', 'timeout', 'connection', 'server_error'].includes(error.reason)
  )
}
