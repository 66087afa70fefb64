import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { measureRequest } from '../chat/measure.ts'
import { boundOf, marginOf } from '../chat/pricing.ts'
import { type Decision, route, worldOf } from '../chat/router.ts'
import type { Beside } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { DelayedInput } from '../jobs/delayed.ts'
import { delayedKind, type Job, type NewJob } from '../jobs/jobs.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Policy } from '../keys/policy.ts'
import { chatFeatures, type Features } from '../kinds/features.ts'
import { takeOn } from '../media/take-on.ts'
import type { Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import { spenderOf } from '../wallet/spender.ts'
import { type DelayedRequest, windowsMs } from './request.ts'

export type Submitted = { job: Job; ticket: Ticket; target: Target; mode: string }

/**
 * Takes a delayed request on: decides where it would go, reserves what it can cost there at the window's price, and writes
 * it with its hold and whatever `beside` writes. Throws GatewayErrors: what a direct request would be refused with (fields named `body.…`), 400
 * `url_not_allowed`, 429, 503.
 */
export async function submitDelayed(
  services: Services,
  known: Known,
  request: DelayedRequest,
  requestId: string,
  beside?: Beside<Submitted>,
): Promise<Submitted> {
  const { config, clock, door } = services
  const text = JSON.stringify(request.body)
  const features = chatFeatures(request.body, Buffer.byteLength(text))
  const discountPpm = config.discountsPpm[request.completion_window]
  const marginPpm = marginOf(config, 'chat', discountPpm)
  const decide = ({ policy, scope }: Known) => {
    authorise(policy, scope, clock.now())
    return decisionOn(services, policy, request.body, features, marginPpm)
  }
  await services.policies.decide(known, decide)
  const { webhook_url } = request
  if (webhook_url !== undefined) await assertPublicUrl(webhook_url, { ...door, param: 'webhook_url' })
  await services.files.quota.assertRoom(known.policy)
  if (known.policy.environment === 'live') {
    await measureRequest(services, request.body, features, known.policy.organisationId)
    known.fresh = ''
  }
  const id = newId('ajob')
  const { decision, ticket } = await services.policies.decide(known, async current => {
    const decision = decide(current)
    const bound = boundOf(decision.targets, features, marginPpm)
    const ticket = await services.admission.admit(spenderOf(current.policy), current.fresh, id, bound)
    return 'stale' in ticket ? ticket : { decision, ticket }
  })
  const { outputTokens, clamped } = ticket
  const input = { body: text, discountPpm: Number(discountPpm), outputTokens, clamped } satisfies DelayedInput
  const [target] = decision.targets
  const submitted = (job: Job) => ({ job, ticket, target: target!, mode: decision.mode })
  const admitted = { requestId, request, input, target: target!, ticket }
  return submitted(await written(services, known.policy, admitted, (tx, job) => beside?.(tx, submitted(job))))
}

/** Where a request would go. Who rests at the moment may well serve within the window. Throws as `route` does. */
function decisionOn(
  services: Services,
  policy: Policy,
  body: DelayedRequest['body'],
  features: Features,
  marginPpm: bigint,
): Decision {
  const { figures, ...world } = worldOf(services, marginPpm)
  const rested = { ...world, figures: (target: Target) => ({ ...figures(target), restMs: 0 }) }
  try {
    return route(rested, { policy, kind: 'chat', request: body, features })
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
  ticket: Ticket
}

/** Writes an admitted job, and wakes a worker for it. */
async function written(services: Services, policy: Policy, admitted: Admitted, beside: Beside<Job>): Promise<Job> {
  const { requestId, request, input, target, ticket } = admitted
  const { id, month, reservedNano } = ticket
  const { organisationId, keyId, environment, capNano } = policy
  const nowMs = services.clock.now()
  const holdBackMs = environment === 'live' ? services.config.holdBacksMs[request.completion_window] : 0
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
  const job = await takeOn(services, ticket, newJob, beside)
  await services.delayedTasks
    .addLater('run', holdBackMs, id)
    .catch(error => services.log.warn({ err: error, job: id }, 'new job is queued later'))
  return job
}
