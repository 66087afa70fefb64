import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { measureRequest } from '../chat/measure-request.ts'
import { admitRequest, decideUnderPolicy } from '../engine/admit-request.ts'
import type { TransactionStep } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import { createJob } from '../jobs/create.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import { chatFeatures, type Features } from '../routing/features.ts'
import { marginOf, maxCostOf } from '../routing/pricing.ts'
import { type Decision, route, worldOf } from '../routing/router.ts'
import type { Services } from '../services.ts'
import type { DelayedInput } from '../store/delayed-jobs.ts'
import { delayedKind, type Job, type NewJob } from '../store/jobs.ts'
import type { Reservation } from '../wallet/admission.ts'
import { type DelayedRequest, windowsMs } from './request.ts'

export type SubmittedDelayed = { job: Job; reservation: Reservation; target: Target; mode: string }

/**
 * Creates a delayed job: routes the request, reserves its maximum cost at the window's price, and inserts the job with its
 * hold and what `beside` writes. Throws GatewayErrors: those of a direct request (fields named `body.…`), 400
 * `url_not_allowed`, 429, 503.
 */
export async function submitDelayed(
  services: Services,
  key: ResolvedKey,
  request: DelayedRequest,
  requestId: string,
  beside?: TransactionStep<SubmittedDelayed>,
): Promise<SubmittedDelayed> {
  const { config, urlPolicy } = services
  const text = JSON.stringify(request.body)
  const features = chatFeatures(request.body, Buffer.byteLength(text))
  const discountPpm = config.discountsPpm[request.completion_window]
  const marginPpm = marginOf(config, 'chat', discountPpm)
  const decide = (policy: Policy) => decisionOn(services, policy, request.body, features, marginPpm)
  await decideUnderPolicy(services, key, decide)
  const { webhook_url } = request
  if (webhook_url !== undefined) await assertPublicUrl(webhook_url, { ...urlPolicy, param: 'webhook_url' })
  await services.files.quota.assertRoom(key.policy)
  if (key.policy.environment === 'live') {
    await measureRequest(services, request.body, features, key.policy.organisationId)
    key.forget()
  }
  const id = newId('ajob')
  const { decision, reservation } = await admitRequest(services, key, id, policy => {
    const decision = decide(policy)
    return { decision, maxCost: maxCostOf(decision.targets, features, marginPpm) }
  })
  const { outputTokens, clamped } = reservation
  const input = { body: text, discountPpm: Number(discountPpm), outputTokens, clamped } satisfies DelayedInput
  const [target] = decision.targets
  const submitted = (job: Job) => ({ job, reservation, target: target!, mode: decision.mode })
  const admitted = { requestId, request, input, target: target!, reservation }
  return submitted(await insertJob(services, key.policy, admitted, (tx, job) => beside?.(tx, submitted(job))))
}

/** The routing decision for a request. Cooldowns are ignored, as they may end within the window. Throws as `route` does. */
function decisionOn(
  services: Services,
  policy: Policy,
  body: DelayedRequest['body'],
  features: Features,
  marginPpm: bigint,
): Decision {
  const { figures, ...world } = worldOf(services, marginPpm)
  const withoutCooldowns = { ...world, figures: (target: Target) => ({ ...figures(target), cooldownMs: 0 }) }
  try {
    return route(withoutCooldowns, { policy, kind: 'chat', request: body, features })
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param === null) throw error
    const { code, message, metadata, headers, cause } = error
    const param = `body.${error.param}`
    throw new GatewayError(code, message, { param, headers, cause, ...(metadata && { metadata }) })
  }
}

type Admitted = {
  requestId: string
  request: DelayedRequest
  input: DelayedInput
  target: Target
  reservation: Reservation
}

/** Inserts an admitted job, and enqueues it. */
async function insertJob(
  services: Services,
  policy: Policy,
  admitted: Admitted,
  beside: TransactionStep<Job>,
): Promise<Job> {
  const { requestId, request, input, target, reservation } = admitted
  const { id, month, reservedNano } = reservation
  const { organisationId, keyId, environment, capNano } = policy
  const nowMs = services.clock.now()
  const holdBackMs = environment === 'live' ? services.config.minDelaysMs[request.completion_window] : 0
  const newJob: NewJob = {
    ...{ id, requestId, organisationId, keyId, environment, month, input },
    kind: delayedKind,
    model: target.model.id,
    capNano: capNano === null ? null : BigInt(capNano),
    chargeNano: null,
    holdNano: BigInt(reservedNano),
    webhookUrl: request.webhook_url ?? null,
    metadata: request.metadata ?? {},
    createdAt: new Date(nowMs),
    claimedUntil: holdBackMs > 0 ? new Date(nowMs + holdBackMs) : null,
    deadlineAt: new Date(nowMs + windowsMs[request.completion_window]),
  }
  const job = await createJob(services, reservation, newJob, beside)
  await services.delayedTasks
    .addLater('run', holdBackMs, id)
    .catch(error => services.log.warn({ err: error, job: id }, 'new job is queued later'))
  return job
}
