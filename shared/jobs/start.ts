import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { formatNames } from '../base/names.ts'
import { elapsedMs } from '../base/time.ts'
import { storedPreferences } from '../catalog/provider-preferences.ts'
import { messageOf } from '../engine/report.ts'
import { InlineFiles } from '../files/inline-files.ts'
import { sourcesOf } from '../files/sources.ts'
import { findOwnKeys } from '../keys/own-keys.ts'
import { organisationSuspended } from '../keys/policy.ts'
import { isSuspended } from '../keys/suspensions.ts'
import type { QueuedKind } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'
import type { Operation, QueuedCall, Target } from '../providers/contract.ts'
import { trackConnection } from '../providers/open-connection.ts'
import { refusalOf } from '../providers/own-key-health.ts'
import { isRequestFault, ProviderError } from '../providers/provider-error.ts'
import { maxOpenStarts } from '../queues/crash-suspect-limiter.ts'
import { allExcludedError, type Exclusion, permittedBy, preferencesOf } from '../routing/provider-preferences.ts'
import { startCall } from '../traces/calls.ts'
import { traceStep } from '../traces/work.ts'
import { cancelIfRequested } from './cancel.ts'
import { endJob, failedEnd, ownKeyGoneEnd, poisonedEnd } from './end.ts'
import { callbackUrl, type JobProvider, jobProviderOf, reportsBack, unconfiguredDelayMs } from './job-provider.ts'
import type { JobServices } from './job-services.ts'
import type { End, Job } from './jobs.ts'
import { type JobInput, queuedTargets } from './submit.ts'

const unclearDelayMs = 5_000
const retryDelayMs = { min: 2_000, max: 60_000 }
const maxSaveTries = 20
const saveRetryDelayMs = 2_000
const laterCodes: ReadonlySet<string> = new Set(['rate_limit_exceeded', 'service_unavailable'])

/** The outcome of one start attempt. `refused` had no effect; after `unclear` the effect is unknown. */
type Attempt =
  | { outcome: 'started' }
  | { outcome: 'refused'; error?: Fault }
  | { outcome: 'unclear'; error: ProviderError }
type Fault = ProviderError | GatewayError

/**
 * Runs one start step of a waiting job: tries the providers of its model in turn until one accepts it. Before anything was
 * sent, a retry is always safe; after that only if the provider supports lookup by our own id. Returns the delay in
 * milliseconds before the next step, null when there is nothing left to do.
 */
export async function startJob(services: JobServices, jobId: string): Promise<number | null> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'starting' && job?.stage !== 'waiting') return null
  const start = () => (job.stage === 'starting' ? recoverStart(services, jobId) : startWaiting(services, job))
  return services.crashSuspects.run(job.openStarts, start, () => services.jobs.endStart(jobId))
}

async function startWaiting(services: JobServices, job: Job): Promise<number | null> {
  if (job.cancelRequestedAt && (await cancelIfRequested(services, job.id))) return null
  if (job.operation === null && (await isSuspended(services, job.organisationId))) {
    await endJob(services, job.id, failedEnd(organisationSuspended()), 'waiting')
    return null
  }
  const serving = await servingTargets(services, job)
  const { targets, obstacle } = await permittedTargets(services, job, serving)
  if (obstacle) {
    await endJob(services, job.id, obstacle, 'waiting')
    return null
  }
  if (targets.length === 0) return unconfiguredDelayMs
  let claimed: Job | null = null
  let lastRefusal: Extract<Attempt, { outcome: 'refused' }> | null = null
  let cooldownMs = Number.POSITIVE_INFINITY
  for (const target of targets) {
    const figures = services.upstreams.figures(target)
    if (figures.cooldownMs > 0 && job.environment === 'live') {
      cooldownMs = Math.min(cooldownMs, figures.cooldownMs)
      continue
    }
    const credentialId = credentialFor(services, job, target)
    const { name } = target.provider
    claimed = claimed
      ? await moveStart(services, claimed, name, credentialId)
      : await services.jobs.claimStart(job.id, name, credentialId)
    if (!claimed) return null
    const attempt = await attemptStart(services, claimed, target)
    if (attempt.outcome === 'started') return null
    if (attempt.outcome === 'unclear') return handleUnclear(services, claimed, attempt.error)
    if (attempt.error && isFault(attempt.error)) return handleRefusal(services, job, claimed, attempt.error, null)
    // A provider that may accept it later outweighs one that never will.
    if (!lastRefusal || (lastRefusal.error && !isTransient(lastRefusal.error))) lastRefusal = attempt
  }
  return handleRefusal(services, job, claimed, lastRefusal?.error, Number.isFinite(cooldownMs) ? cooldownMs : null)
}

/** Moves a claim to another provider after a refusal; null when the claim was lost. */
function moveStart(services: JobServices, claimed: Job, provider: string, credentialId: string | null) {
  const to = { provider, credentialId, claimedUntil: services.jobs.startLeaseEnd() }
  return storeOutcome(services, claimed, () => services.jobs.moveStart(claimed, to))
}

/** The targets that serve a job's model; for a second part only the provider that ran the first. */
async function servingTargets(services: Platform, job: Job): Promise<Target[]> {
  const model = services.catalog.models.get(job.model)
  if (!model) return []
  const { own } = job.input as unknown as JobInput
  const ownKeys = own ? await findOwnKeys(services.db, job.keyId) : null
  const targets = queuedTargets(services, job.kind as QueuedKind, model, job.environment, ownKeys)
  return job.operation === null ? targets : targets.filter(({ provider }) => provider.name === job.provider)
}

/**
 * The serving targets that may start a job: at the providers that it was submitted for, in their order, as far as the preferences
 * of its key permit them now. `obstacle`: the end of a job that none will ever start. A second part stays where the first ran.
 */
async function permittedTargets(
  services: Platform,
  job: Job,
  serving: Target[],
): Promise<{ targets: Target[]; obstacle?: End }> {
  const { own, providers } = job.input as unknown as JobInput
  const submitted = providers
    ? providers.flatMap(name => serving.filter(({ provider }) => provider.name === name))
    : serving
  if (submitted.length === 0 && own) return { targets: [], obstacle: ownKeyGoneEnd }
  if (job.operation !== null || serving.length === 0) return { targets: serving }
  if (submitted.length === 0) return { targets: [], obstacle: failedEnd(noProviderLeft(providers!)) }
  const key = await services.db.apiKey.findUnique({ where: { id: job.keyId }, select: { provider: true } })
  const preferences = preferencesOf(storedPreferences(key?.provider), undefined)
  const excluded = new Map<string, Exclusion>()
  const request = { features: null, marginPpm: services.config.marginPpm }
  const targets = permittedBy(preferences, submitted, request, excluded)
  if (targets.length === 0) return { targets, obstacle: failedEnd(allExcludedError([...excluded])) }
  return { targets: preferences?.fallsBack === false ? targets.slice(0, 1) : targets }
}

/** The error of a job whose permitted providers do not serve its model any more. */
function noProviderLeft(providers: readonly string[]): GatewayError {
  const message = `No provider that this job may use serves its model any more; it was submitted for ${formatNames(providers)}.`
  return new GatewayError('no_provider_available', message)
}

function credentialFor({ upstreams }: Platform, job: Job, target: Target): string | null {
  if (job.environment === 'test') return null
  return upstreams.credential(target, job.operation === null ? null : job.credentialId).credential.id
}

async function attemptStart(services: JobServices, job: Job, target: Target): Promise<Attempt> {
  const { clock, monotonic, jobs, log } = services
  const [startedMs, beganMs] = [clock.now(), monotonic.now()]
  const attempt = await traceStart(services, job, target)
  const error = attempt.outcome === 'started' ? null : attempt.error
  const isCall = error === null || error instanceof ProviderError
  if (isCall && job.environment === 'live') services.metrics?.recordCall(target, error?.reason ?? 'ok', null)
  // Nothing to log if the first attempt succeeded, or if no provider was called.
  if (error === undefined || (error === null && job.attempts === 1)) return attempt
  const fault = error && (error instanceof ProviderError ? error.reason : error.code)
  const entry = {
    provider: target.provider.name,
    model: target.model.id,
    status: error?.status ?? null,
    fault,
    durationMs: elapsedMs(beganMs, monotonic.now()),
    startedMs: Math.max(0, startedMs - job.createdAt.getTime()),
    ...(error instanceof ProviderError && messageOf(error)),
  }
  await jobs.noteAttempts(job, [entry]).catch(err => log.warn({ err, job: job.id }, 'an attempt is missing in the log'))
  return attempt
}

/** Tries to start a job at a provider, in its trace. */
function traceStart(services: JobServices, job: Job, target: Target): Promise<Attempt> {
  const { id, kind, traceparent } = job
  const step = { traceparent, queue: 'media', name: `process ${kind}`, id }
  return traceStep(services.tracing, step, async trace => {
    if (trace) trace.operation = kind
    const call = trace && startCall(trace, { target })
    const attempt = await tryToStart(services, job, target)
    const error = attempt.outcome === 'started' ? null : attempt.error
    call?.end(error ? (error instanceof ProviderError ? error.reason : error.code) : null)
    return attempt
  })
}

async function tryToStart(services: JobServices, job: Job, target: Target): Promise<Attempt> {
  let sent = false
  try {
    const jobProvider = await jobProviderOf(services, job)
    if (!jobProvider || jobProvider === 'own_key_gone') return { outcome: 'refused' }
    const { adapter, connection } = jobProvider
    const tracked = trackConnection(connection, () => {
      sent = true
    })
    const call = await buildCall(services, job, target, jobProvider)
    const files = new InlineFiles(services.budgets.remoteFiles, job.organisationId, call.sources)
    const before = job.operation as Operation | null
    const operation = await files.during(call.sources, sources => adapter.start({ ...call, sources }, tracked, before))
    reportHealth(services, job, target, null)
    await saveOperation(services, job, operation, jobProvider)
    return { outcome: 'started' }
  } catch (error) {
    return classifyFailure(services, job, target, error, sent)
  }
}

function classifyFailure(services: Platform, job: Job, target: Target, error: unknown, sent: boolean): Attempt {
  if (error instanceof ProviderError) {
    reportHealth(services, job, target, error)
    if (target.own && (error.reason === 'auth' || error.reason === 'quota')) {
      const message = refusalOf(target, error.reason, job.credentialId ?? undefined)
      return { outcome: 'refused', error: new GatewayError('own_key_refused', message) }
    }
    return hadNoEffect(error) || !sent ? { outcome: 'refused', error } : { outcome: 'unclear', error }
  }
  // The memory for its files is used by other starts, or the storage is away: a later start can succeed.
  if (!sent && error instanceof GatewayError && laterCodes.has(error.code)) return { outcome: 'refused' }
  if (!sent && error instanceof GatewayError) return { outcome: 'refused', error }
  services.log.error({ err: error, job: job.id }, 'cannot start a job')
  if (!sent) return { outcome: 'refused' }
  const message = 'The provider’s answer could not be processed.'
  return { outcome: 'unclear', error: new ProviderError('invalid_response', message, { cause: error }) }
}

/** Whether a failed start certainly started nothing: the request was never sent, or the provider refused it. */
export function hadNoEffect({ unsent, reason, status }: ProviderError): boolean {
  if (unsent) return true
  if (status !== null && status >= 400 && status < 500 && status !== 408) return true
  return !['timeout', 'connection', 'server_error', 'invalid_response', 'truncated'].includes(reason)
}

async function buildCall(
  services: Platform,
  job: Job,
  target: Target,
  { protocol }: JobProvider,
): Promise<QueuedCall<QueuedKind>> {
  const { input, references } = job.input as unknown as JobInput
  return {
    target,
    jobId: job.id,
    attempt: job.attempts,
    input: input as QueuedCall<QueuedKind>['input'],
    sources: sourcesOf(services, references),
    callbackUrl: reportsBack(services, job, protocol) ? await callbackUrl(services, job.id) : null,
  }
}

/**
 * Stores the outcome of starting a job or importing its files, with retries: without it, it is unknown whether the provider
 * started the job, or whether the worker is still running. Throws what Postgres throws on the last try.
 */
export async function storeOutcome<T>(
  { log }: JobServices,
  job: Job,
  store: () => Promise<T>,
  operation?: Operation,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await store()
    } catch (error) {
      log.error({ err: error, job: job.id, operation }, 'the outcome of a step of a job cannot be stored; retrying')
      if (tries === maxSaveTries) throw error
      await sleep(saveRetryDelayMs)
    }
  }
}

/** Stores the provider's handle: without it the work is lost. Throws what Postgres throws on the last try. */
async function saveOperation(
  services: JobServices,
  job: Job,
  operation: Operation,
  { adapter, connection }: JobProvider,
): Promise<void> {
  const { jobs, pollSchedule, clock, log } = services
  const running = await storeOutcome(services, job, () => jobs.markRunning(job, operation), operation)
  if (running) {
    const due = clock.now() + adapter.poll.firstMs
    await pollSchedule
      .add([job.id], due)
      .catch(error => log.warn({ err: error, job: job.id }, 'a started job cannot be scheduled; it is polled later'))
    if (running.cancelRequestedAt) await cancelIfRequested(services, job.id)
  } else {
    // Cancelled or expired while it was being started.
    await adapter
      .cancel?.(operation, connection)
      .catch(error => log.warn({ err: error, job: job.id }, 'cannot stop cancelled work'))
  }
}

function reportHealth({ health, upstreams }: Platform, job: Job, target: Target, error: ProviderError | null): void {
  if (job.environment === 'test') return
  if (!error) health.recordSuccess(target, null, job.credentialId ?? '')
  if (!error || isRequestFault(error)) return
  const { alone } = upstreams.credential(target, job.credentialId)
  health.recordFailure(target, error, 0, { id: job.credentialId ?? '', alone })
}

/** The start's outcome is unknown: looks the work up if the provider supports it, else fails the job. Never starts it twice. */
async function handleUnclear(services: JobServices, job: Job, error: ProviderError): Promise<number | null> {
  const jobProvider = await jobProviderOf(services, job)
  if (jobProvider !== 'own_key_gone' && jobProvider?.adapter.find) {
    await services.jobs.yieldStart(job)
    return unclearDelayMs
  }
  await storeOutcome(services, job, () => endJob(services, job.id, failedEnd(error), { claim: job }))
  return null
}

/** Recovers a start whose worker died before it finished. */
async function recoverStart(services: JobServices, jobId: string): Promise<number | null> {
  const job = await services.jobs.claimLostStart(jobId)
  if (!job) return null
  if (job.openStarts > maxOpenStarts) {
    await endJob(services, jobId, poisonedEnd, { claim: job })
    return null
  }
  const found = await jobProviderOf(services, job)
  const jobProvider = found === 'own_key_gone' ? null : found
  const serving = await servingTargets(services, job)
  const target = serving.find(({ provider }) => provider.name === job.provider)
  if (!jobProvider?.adapter.find || !target) {
    const message = 'It is not known whether the provider began the work, so it was not started again.'
    await endJob(services, jobId, failedEnd(new ProviderError('server_error', message)), { claim: job })
    return null
  }
  try {
    const operation = await jobProvider.adapter.find(
      await buildCall(services, job, target, jobProvider),
      jobProvider.connection,
    )
    if (operation) {
      await saveOperation(services, job, operation, jobProvider)
      return null
    }
  } catch (error) {
    services.log.warn({ err: error, job: jobId }, 'cannot find out whether a job was started')
    await services.jobs.yieldStart(job)
    return unclearDelayMs
  }
  // The provider has no such work, so a new start is safe: here only if the key still permits it.
  const { targets } = await permittedTargets(services, job, serving)
  if (job.cancelRequestedAt || !targets.includes(target)) return handleRefusal(services, job, job, undefined, 0)
  const attempt = await attemptStart(services, job, target)
  if (attempt.outcome === 'started') return null
  if (attempt.outcome === 'unclear') return handleUnclear(services, job, attempt.error)
  return handleRefusal(services, job, job, attempt.error, null)
}

/**
 * No provider accepted the job: fails it where a retry cannot help, else schedules a retry. `cooldownMs` = when a provider
 * skipped for its cooldown becomes available; null = none was skipped.
 */
async function handleRefusal(
  services: JobServices,
  job: Job,
  claimed: Job | null,
  error: Fault | undefined,
  cooldownMs: number | null,
): Promise<number | null> {
  if (claimed && error && (isFault(error) || (cooldownMs === null && !isTransient(error)))) {
    await storeOutcome(services, claimed, () => endJob(services, job.id, failedEnd(error), { claim: claimed }))
    return null
  }
  if (claimed) {
    await storeOutcome(services, claimed, () => services.jobs.releaseStart(claimed))
    if (await cancelIfRequested(services, job.id)) return null
  }
  const backoffMs = Math.min(retryDelayMs.min * 2 ** Math.min(job.attempts, 10), retryDelayMs.max)
  const askedMs = error instanceof ProviderError ? (error.retryAfterMs ?? 0) : 0
  const minMs = claimed ? backoffMs : Math.min(cooldownMs ?? 0, retryDelayMs.max)
  return Math.min(Math.max(minMs, askedMs, 1_000), retryDelayMs.max)
}

/** Whether the request itself is at fault, so that every provider would refuse it. */
function isFault(error: Fault): boolean {
  return error instanceof ProviderError && isRequestFault(error)
}

/** Whether a provider that refused a start may accept it later. */
export function isTransient(error: Fault): boolean {
  return (
    error instanceof ProviderError &&
    ['rate_limited', 'overloaded', 'timeout', 'connection', 'server_error'].includes(error.reason)
  )
}
