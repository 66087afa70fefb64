import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { hourMs } from '../base/time.ts'
import { chatFormatOf } from '../chat/chat-formats.ts'
import { measureRequest } from '../chat/measure-request.ts'
import { RemoteFiles } from '../chat/remote-files.ts'
import { admitRequest } from '../engine/base-run.ts'
import type { TransactionStep } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import { createJob } from '../jobs/create.ts'
import { delayedKind, type Job, type NewJob } from '../jobs/jobs.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Policy } from '../keys/policy.ts'
import { type DirectKinds, directKinds } from '../kinds/index.ts'
import { common } from '../kinds/media.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'
import { snapshotOf } from '../routing/options.ts'
import { marginOf, maxCostOf } from '../routing/pricing.ts'
import { type Decision, route } from '../routing/router.ts'
import { type Origin, traceEnqueued } from '../traces/work.ts'
import type { Reservation } from '../wallet/admission.ts'
import { budgetIds } from '../wallet/reservation.ts'
import type { DelayedInput, DelayedKind } from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'

/** The endpoints whose requests can be delayed, and the kind of each. */
const delayedKinds: ReadonlyMap<unknown, DelayedKind> = new Map([
  ['/v1/chat/completions', 'chat'],
  ['/v1/responses', 'responses'],
  ['/v1/messages', 'messages'],
])

/** The kind of a delayed request by its endpoint: chat, if it states none. */
export function delayedKindOf({ endpoint }: { endpoint?: unknown }): DelayedKind {
  return delayedKinds.get(endpoint) ?? 'chat'
}

const shared = {
  completion_window: z.enum(['1h', '6h']).describe('How long it may take. The longer, the cheaper.'),
  webhook_url: common.webhook_url,
  metadata: common.metadata,
}

/** `POST /v1/jobs`. */
export const delayedRequest = z
  .discriminatedUnion('endpoint', [
    z.strictObject({
      endpoint: z
        .literal('/v1/chat/completions')
        .optional()
        .describe('The endpoint that the request is for; `/v1/chat/completions` by default.'),
      body: unstreamed(directKinds.chat).describe('The body of a chat completion.'),
      ...shared,
    }),
    z.strictObject({
      endpoint: z.literal('/v1/responses'),
      body: unstreamed(directKinds.responses).describe('The body of a response.'),
      ...shared,
    }),
    z.strictObject({
      endpoint: z.literal('/v1/messages'),
      body: unstreamed(directKinds.messages).describe('The body of a message.'),
      ...shared,
    }),
  ])
  .meta({ id: 'CreateJobRequest' })
type DelayedRequest = z.output<typeof delayedRequest>
type CompletionWindow = DelayedRequest['completion_window']

function unstreamed<T extends z.ZodType<{ stream?: boolean | null | undefined }>>(body: T): T {
  return body.refine(({ stream }) => stream !== true, {
    path: ['stream'],
    message: 'must not be true: a delayed answer is not streamed',
  })
}

const windowsMs: Record<CompletionWindow, number> = { '1h': hourMs, '6h': 6 * hourMs }

export type SubmittedDelayed = { job: Job; reservation: Reservation; target: Target; mode: string }

/** The price of a delayed job, and when it runs: not before `holdBackMs`, and no longer than `windowMs`. */
type DelayedTerms = { discountPpm: bigint; holdBackMs: number; windowMs: number }

/** What a delayed job runs, on which terms, and whom it tells. `at` precedes the names of the body's fields in errors. */
type DelayedSubmission = {
  id: string
  kind: DelayedKind
  body: DirectKinds[DelayedKind]['request']
  at: string
  terms: DelayedTerms
  webhookUrl: string | null
  metadata: Record<string, string>
}

/** The submission of a validated `POST /v1/jobs`. Throws a GatewayError 400 for a response that would be stored. */
export function submissionOf({ config }: Pick<Platform, 'config'>, request: DelayedRequest): DelayedSubmission {
  const { body, completion_window: window, webhook_url, metadata } = request
  const kind = delayedKindOf(request)
  const format = chatFormatOf(kind)
  format.refuseStored?.(body, 'body.')
  const terms = {
    discountPpm: config.discountsPpm[window],
    holdBackMs: config.minDelaysMs[window],
    windowMs: windowsMs[window],
  }
  return {
    id: newId('ajob'),
    kind,
    body,
    at: 'body.',
    terms,
    webhookUrl: webhook_url ?? null,
    metadata: metadata ?? {},
  }
}

/**
 * Creates a delayed job: routes the request, reserves its maximum cost at the price of its terms, and inserts the job with
 * its hold and what `beside` writes. Throws GatewayErrors: those of a direct request, 400
 * `url_not_allowed`, 429, 503.
 */
export async function submitDelayed(
  services: DelayedServices,
  key: ResolvedKey,
  submission: DelayedSubmission,
  origin: Origin,
  beside?: TransactionStep<SubmittedDelayed>,
): Promise<SubmittedDelayed> {
  const { config, urlPolicy } = services
  const { id, kind, body, at, webhookUrl } = submission
  const text = JSON.stringify(body)
  const format = chatFormatOf(kind)
  const features = format.readFeatures(body, Buffer.byteLength(text))
  const { discountPpm } = submission.terms
  const marginPpm = marginOf(config, kind, discountPpm)
  const decide = (policy: Policy) => decisionOn(services, policy, submission, features, marginPpm)
  await services.policies.decide(key, decide)
  if (webhookUrl !== null) await assertPublicUrl(webhookUrl, { ...urlPolicy, param: 'webhook_url' })
  await services.files.quota.assertRoom(key.policy)
  if (key.policy.environment === 'live') {
    const remoteFiles = new RemoteFiles(services, key.policy.organisationId)
    await inBody(at, () => measureRequest(remoteFiles, format, body, features, key.policy)).finally(() =>
      remoteFiles.release(),
    )
    key.forget()
  }
  const startedMs = services.clock.now()
  const { decision, reservation } = await admitRequest(services, key, { id, startedMs }, policy => {
    const decision = decide(policy)
    const factor = services.reservationFactors.of(policy.organisationId, decision.targets)
    return { decision, maxCost: { ...maxCostOf(decision.targets, features, marginPpm), factor } }
  })
  const { outputTokens, clamped } = reservation
  const input = { kind, body: text, discountPpm: Number(discountPpm), outputTokens, clamped } satisfies DelayedInput
  const [target] = decision.targets
  const submitted = (job: Job) => ({ job, reservation, target: target!, mode: decision.mode })
  const admitted = { startedMs, origin, submission, input, target: target!, reservation }
  return submitted(await insertJob(services, key.policy, admitted, (tx, job) => beside?.(tx, submitted(job))))
}

/** The routing decision for a request. Cooldowns are ignored, as they may end within the window. Throws as `route` does. */
function decisionOn(
  services: Platform,
  policy: Policy,
  { kind, body, at }: DelayedSubmission,
  features: Features,
  marginPpm: bigint,
): Decision {
  const { figures, ...inputs } = snapshotOf(services, marginPpm)
  const withoutCooldowns = { ...inputs, figures: (target: Target) => ({ ...figures(target), cooldownMs: 0 }) }
  return inBody(at, () => {
    try {
      return route(withoutCooldowns, { policy, kind, request: body, features })
    } catch (error) {
      throw error instanceof GatewayError ? chatFormatOf(kind).inOwnTerms(error) : error
    }
  })
}

/** Runs a step whose errors name fields of the request's body: in them, `at` precedes the name. */
function inBody<T>(at: string, step: () => T): T {
  const rename = (error: unknown): never => {
    throw error instanceof GatewayError && error.param !== null ? error.withParam(at + error.param) : error
  }
  try {
    const result = step()
    return result instanceof Promise ? (result.catch(rename) as T) : result
  } catch (error) {
    return rename(error)
  }
}

type Admitted = {
  startedMs: number
  origin: Origin
  submission: DelayedSubmission
  input: DelayedInput
  target: Target
  reservation: Reservation
}

/** Inserts an admitted job, and enqueues it. */
async function insertJob(
  services: DelayedServices,
  policy: Policy,
  admitted: Admitted,
  beside: TransactionStep<Job>,
): Promise<Job> {
  const { startedMs, origin, submission, input, target, reservation } = admitted
  const { terms, webhookUrl, metadata } = submission
  const { id, month, reservedNano } = reservation
  const { organisationId, keyId, environment, capNano } = policy
  const nowMs = services.clock.now()
  const holdBackMs = environment === 'live' ? terms.holdBackMs : 0
  const newJob: NewJob = {
    id,
    requestId: origin.requestId,
    organisationId,
    keyId,
    environment,
    month,
    input,
    traceparent: traceEnqueued(origin.trace, 'async', delayedKind, id),
    kind: delayedKind,
    model: target.model.id,
    capNano: capNano === null ? null : BigInt(capNano),
    budgets: budgetIds(reservation.billing),
    chargeNano: null,
    holdNano: BigInt(reservedNano),
    webhookUrl,
    metadata,
    createdAt: new Date(startedMs),
    claimedUntil: holdBackMs > 0 ? new Date(nowMs + holdBackMs) : null,
    deadlineAt: new Date(startedMs + terms.windowMs),
  }
  const job = await createJob(services, reservation, newJob, beside)
  await services.delayedTasks
    .addLater('run', holdBackMs, id)
    .catch(error => services.log.warn({ err: error, job: id }, 'cannot enqueue a new job; maintenance requeues it'))
  return job
}
