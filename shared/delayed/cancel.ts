import { type ErrorCode, GatewayError } from '../base/errors.ts'
import { canReason } from '../catalog/traits.ts'
import { estimateAbandonedUsage } from '../chat/abandoned-usage.ts'
import { chatFormatOf } from '../chat/chat-formats.ts'
import { isOwnTimeout } from '../engine/caller-timeouts.ts'
import { endJob, failedEnd } from '../jobs/end.ts'
import type { JobServices } from '../jobs/job-services.ts'
import type { End, Job } from '../jobs/jobs.ts'
import { refusesKey } from '../keys/policy.ts'
import { ownKeyMarginPpm } from '../providers/own-accounts.ts'
import type { ResponseServices } from '../responses/response-services.ts'
import { chargeNano, marginOf, ownSearches } from '../routing/pricing.ts'
import {
  callOf,
  type DelayedInput,
  type DelayedJob,
  failuresOf,
  hasEnded,
  isBackground,
  readWork,
} from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'
import type { HoldAdmission } from './hold-admission.ts'

const maxTries = 10
const cancelled = { status: 'cancelled', logStatus: 499 } as const

/**
 * Cancels a job. Nothing is charged before a provider was called. A call under way ends as if a direct client had
 * disconnected: for its owner the job is cancelled at once, and its worker ends it when it knows what the call used.
 * Throws a GatewayError 409 when it is over.
 */
export async function cancelDelayed(services: DelayedServices, id: string): Promise<DelayedJob> {
  const { delayedJobs, completionSignals, jobs, log } = services
  for (let tries = 0; tries < maxTries; tries++) {
    const requested = await delayedJobs.requestCancel(id)
    if (requested) {
      // Its worker finds out within two seconds without it.
      await completionSignals
        .announce(id)
        .catch(error => log.debug({ err: error, job: id }, 'a cancel is not announced'))
      return requested
    }
    const job = await jobs.read(id)
    if (!job || hasEnded(job)) break
    // If it changed in the meantime, it is read again.
    const ended = await endJob(services, id, await endOf(services, job), job)
    if (ended) return ended
  }
  throw new GatewayError('not_cancellable', 'This job is over; it can no longer be cancelled.')
}

/** Ends a cancelled job whose worker has not settled its call: it costs an estimate, from what was recorded. */
export async function settleCancelled(services: JobServices & ResponseServices, id: string): Promise<void> {
  const job = await services.jobs.read(id)
  if (!job?.cancelRequestedAt) return
  await endJob(services, id, await endOf(services, job), job)
  await removeDeletedEvents(services, job)
}

/** Removes the events of a response that was deleted before its call was settled. */
export async function removeDeletedEvents(
  { storedResponses, responseEvents }: ResponseServices,
  job: Job,
): Promise<void> {
  if (isBackground(job) && !(await storedResponses.find(job.id, job))) await responseEvents.remove(job.id)
}

/**
 * The end of a job whose run failed. It costs nothing, unless its key, the money behind it or its storage no longer
 * allowed what its call delivered.
 */
export function failedRunEnd(job: Job, admission: HoldAdmission, error: GatewayError): End {
  const isOfCaller = refusesKey(error) || callersFaults.has(error.code) || isOwnTimeout(error)
  if (isOfCaller && admission.costNano > 0n) return settledEnd(job, admission, error)
  return { ...failedEnd(error), ...admission.call(null) }
}

/** The end of a job whose call was ended early: it costs what the call used. `error`: why, unless it was cancelled. */
export function settledEnd(job: Job, admission: HoldAdmission, error?: GatewayError): End {
  const costNano = admission.cancelledNano
  return {
    ...cancelled,
    ...(error && { logStatus: error.status, error: { code: error.code, message: error.message } }),
    refund: false,
    costNano,
    extraNano: BigInt(admission.extraNano),
    discountPpm: (job.input as DelayedInput).discountPpm,
    ...admission.call(null),
    ...(costNano === 0n && withoutCall(job)),
  }
}

const callersFaults: ReadonlySet<ErrorCode> = new Set([
  'insufficient_credits',
  'monthly_spend_cap_reached',
  'quota_exceeded',
  'guardrail_blocked',
  'guardrail_unavailable',
])

/** The end of a job for which no provider was called. */
export function uncharged(job: Job): End {
  return { ...cancelled, refund: true, ...withoutCall(job) }
}

/** What is not charged is not recorded as a call. */
function withoutCall(job: Job): Pick<End, 'operation'> {
  return { operation: { failures: failuresOf(job) } }
}

async function endOf(services: ResponseServices, job: Job): Promise<End> {
  const { catalog, upstreams, clock, config } = services
  const call = job.stage === 'running' && job.environment === 'live' ? callOf(job) : null
  const model = call && catalog.models.get(call.model)
  const offer = model && catalog.targets(model).find(({ provider }) => provider.name === call.provider)
  if (!offer) return uncharged(job)
  const target = { model, ...offer }
  const { discountPpm, outputTokens } = job.input as DelayedInput
  const { kind, body, features } = readWork(job)
  const shown = await services.responseEvents.readText(job.id)
  const isStreamed = call.isStreamed ?? shown !== ''
  const endedMs = job.cancelRequestedAt?.getTime() ?? clock.now()
  const usage = await estimateAbandonedUsage({
    format: chatFormatOf(kind),
    body,
    features,
    target,
    elapsedMs: Math.max(0, endedMs - call.atMs),
    tokensPerSecond: upstreams.figures(target).tokensPerSecond,
    maxOutputTokens: outputTokens * features.choices,
    delivered: { text: () => shown, audioTokens: 0, images: 0, lostImages: 0 },
    reported: null,
    hidesOutput: !isStreamed || canReason(target.deployment),
    searches: ownSearches(target, features) ?? 0,
  })
  const marginPpm = marginOf(config, kind, BigInt(discountPpm))
  const own = call.isOwn ? { marginPpm: ownKeyMarginPpm(config) } : undefined
  const costNano = BigInt(chargeNano({ ...target, own }, usage, marginPpm))
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage
  return {
    ...cancelled,
    refund: false,
    discountPpm,
    costNano: costNano < job.holdNano ? costNano : job.holdNano,
    call: {
      model: call.model,
      provider: call.provider,
      promptTokens,
      completionTokens,
      estimated: true,
      ...(!call.isOwn && { marginPpm: Number(marginPpm) }),
    },
  }
}
