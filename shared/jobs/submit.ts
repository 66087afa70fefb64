import { newId } from '../base/ids.ts'
import { rejectNul } from '../base/json.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'
import { admitRequest } from '../engine/base-run.ts'
import { readTimeouts } from '../engine/caller-timeouts.ts'
import { dropReferences, stageReferences } from '../files/references.ts'
import type { TransactionStep } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import { assertUnguarded } from '../keys/guardrails.ts'
import type { OwnKeys } from '../keys/own-keys.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Policy } from '../keys/policy.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import type { OfOpenRouter, QueuedKindRow, Quote, References } from '../kinds/media.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import { chooseTargets } from '../routing/choose-targets.ts'
import { marginAt } from '../routing/pricing.ts'
import { type Preferences, preferencesOf } from '../routing/provider-preferences.ts'
import { type Origin, traceEnqueued } from '../traces/work.ts'
import type { Reservation } from '../wallet/admission.ts'
import { budgetIds, flatCost, type MaxCost } from '../wallet/reservation.ts'
import { createJob } from './create.ts'
import type { JobServices } from './job-services.ts'
import type { Job, NewJob } from './jobs.ts'

/** Fields common to the bodies of all kinds. */
type Common = OfOpenRouter & { model?: string; webhook_url?: string; metadata?: Record<string, string> }
type Submitted = { job: Job; reservation: Reservation; target: Target }
/** The input that a worker needs, as stored in the job's row. */
export type JobInput = {
  input: object
  references: References
  /** The providers that it may be started at, in this order; absent = all that serve its model. */
  providers?: string[]
  /** What the job is estimated to cost, where more is held: what it costs if nothing else is known. */
  quotedNano?: string
  /** The same for each provider that a job with a hold may be started at, if there are several. */
  quotedNanoAt?: { [provider: string]: string }
  /** Set if it runs with own provider keys of its organisation and costs their fee: what it costs at the provider. */
  own?: { upstreamNano: string }
  /** How long the caller gives it, if shorter than the gateway does. */
  timeoutMs?: number
}

/**
 * Creates a job: chooses the model, stages its references in storage, prices it, reserves, and inserts it with its charge and
 * what `beside` writes. Invalid requests are refused before anything is reserved or charged. Throws GatewayErrors: 400, 401, 402,
 * 403, 404, 413, 415, 429, 503.
 */
export async function submitJob(
  services: JobServices,
  key: ResolvedKey,
  kind: QueuedKind,
  body: Common,
  origin: Origin,
  beside?: TransactionStep<Submitted>,
): Promise<Submitted> {
  // The row keeps its texts.
  rejectNul(body)
  const row = queuedKinds[kind] as unknown as QueuedKindRow<Common, object>
  const preferencesUnder = (policy: Policy) => preferencesOf(policy.provider, body.provider)
  const choose = (policy: Policy, references: References | null) =>
    chooseTargets(services.catalog, policy, {
      slug: body.model,
      list: row.modelsPath,
      serves: model => model.type === row.type,
      targets: model => queuedTargets(services, kind, model, policy.environment, policy.ownKeys),
      check: model => row.input(body, model, references),
      preferences: preferencesUnder(policy),
      marginPpm: services.config.marginPpm,
      nowMs: services.clock.now(),
    })
  await services.policies.decide(key, policy => choose(policy, null))
  await checkWebhook(services, body)
  await services.files.quota.assertRoom(key.policy)
  const fields = row.references(body)
  const references = await stageReferences(services, key.policy, fields)
  // Staging files takes time; the policy read before may be stale by now.
  if (fields.length > 0) key.forget()
  const id = newId(row.idPrefix)
  const startedMs = services.clock.now()
  const { reservation, ...chosen } = await admitRequest(services, key, { id, startedMs }, policy => {
    assertUnguarded(policy)
    const preferences = preferencesUnder(policy)
    const targets = startTargets(services, choose(policy, references), preferences)
    const [target] = targets
    const input = row.input(body, target.model, references)
    const quotes = targets.map(one =>
      row.quote(input, one.deployment, marginAt(one, services.config.marginPpm), references),
    )
    const factor = services.reservationFactors.of(policy.organisationId, targets)
    return { targets, quotes, input, isRestricted: preferences !== null, maxCost: maxCostOf(quotes, factor) }
  }).catch(async error => {
    await dropReferences(services, references)
    throw error
  })
  const { targets, input } = chosen
  const submitted = (job: Job) => ({ job, reservation, target: targets[0] })
  const quoteAt = (deployment: Deployment, marginPpm: bigint) => row.quote(input, deployment, marginPpm, references)
  const admitted = { ...chosen, id, startedMs, origin, body, references, quoteAt, reservation }
  return submitted(await insertJob(services, key.policy, kind, admitted, (tx, job) => beside?.(tx, submitted(job))))
}

/** The targets that serve a model of a queued kind in an environment. */
export function queuedTargets(
  { upstreams }: Platform,
  kind: QueuedKind,
  model: ModelRow,
  environment: 'live' | 'test',
  ownKeys: OwnKeys | null = null,
): Target[] {
  return upstreams
    .targets(model, environment, ownKeys)
    .filter(({ provider }) => upstreams.queued(kind, provider, environment))
}

/**
 * The targets that a job may be started at, of those that its request may use: the first one has its price. Jobs run with own
 * keys or with the operator's, which differ in price.
 */
function startTargets(
  platform: Platform,
  targets: readonly Target[],
  preferences: Preferences | null,
): [Target, ...Target[]] {
  const first = firstOf(platform, targets)
  if (preferences?.fallsBack === false) return [first]
  return [first, ...targets.filter(target => target !== first && !target.own === !first.own)]
}

/** The first target; after own keys that are known to be refused, one with the operator's if the key's policy has it. */
function firstOf({ upstreams }: Platform, targets: readonly Target[]): Target {
  const [first] = targets
  if (!first!.own) return first!
  return targets.find(target => upstreams.figures(target).cooldownMs === 0) ?? first!
}

async function checkWebhook({ urlPolicy }: Platform, { webhook_url }: Common): Promise<void> {
  if (webhook_url !== undefined) await assertPublicUrl(webhook_url, { ...urlPolicy, param: 'webhook_url' })
}

/** The price of the first target is charged as it is; a hold is that of the dearest one, with the factor of exceeded ones. */
function maxCostOf(quotes: readonly Quote[], factor: number): MaxCost {
  const [first] = quotes
  if ('chargeNano' in first!) return flatCost(Number(first.chargeNano))
  return { ...flatCost(Math.max(...quotes.map(quote => Number(nanoOf(quote))))), factor }
}

/** What a job with a hold costs when its usage is unknown. */
export function quotedNanoOf({ input, provider, holdNano }: Job): bigint {
  const { quotedNano, quotedNanoAt } = input as unknown as JobInput
  return BigInt(quotedNanoAt?.[provider ?? ''] ?? quotedNano ?? holdNano)
}

/** `quotedNanoAt` of a new job; null if it is charged at once, or has one target. */
function quotesByProvider({ targets, quotes }: Admitted): JobInput['quotedNanoAt'] | null {
  if (targets.length === 1 || 'chargeNano' in quotes[0]!) return null
  return Object.fromEntries(targets.map(({ provider }, index) => [provider.name, String(nanoOf(quotes[index]!))]))
}

/** What a job costs at its provider, by the price list. */
function upstreamNanoOf({ quoteAt, targets }: Admitted): bigint {
  return nanoOf(quoteAt(targets[0].deployment, 0n))
}

/** The price of a quote, or its estimate. */
function nanoOf(quote: Quote): bigint {
  return 'chargeNano' in quote ? quote.chargeNano : quote.holdNano
}

type Admitted = {
  id: string
  startedMs: number
  origin: Origin
  body: Common
  input: object
  references: References
  /** The targets that it may be started at. The first one has its price. */
  targets: [Target, ...Target[]]
  /** The prices of these. */
  quotes: Quote[]
  /** Whether preferences chose them. */
  isRestricted: boolean
  quoteAt(deployment: Deployment, marginPpm: bigint): Quote
  reservation: Reservation
}

/** Inserts an admitted job, transfers its reservation to the row, and enqueues the row. */
async function insertJob(
  services: JobServices,
  policy: Policy,
  kind: QueuedKind,
  admitted: Admitted,
  beside: TransactionStep<Job>,
): Promise<Job> {
  const { clock, config } = services
  const { id, startedMs, origin, body, targets, reservation } = admitted
  const [target] = targets
  const quote = admitted.quotes[0]!
  const { organisationId, keyId, environment, capNano } = policy
  const free = environment === 'test'
  const chargeNano = 'chargeNano' in quote ? (free ? 0n : quote.chargeNano) : null
  const holdNano = 'holdNano' in quote ? BigInt(reservation.reservedNano) : 0n
  const timeoutMs = readTimeouts(undefined, body, config.jobDeadlineMs)?.totalMs
  const isRaised = 'holdNano' in quote && holdNano > quote.holdNano
  const quotedNanoAt = quotesByProvider(admitted)
  const newJob: NewJob = {
    id,
    requestId: origin.requestId,
    organisationId,
    keyId,
    environment,
    kind,
    chargeNano,
    model: target.model.id,
    month: reservation.month,
    capNano: capNano === null ? null : BigInt(capNano),
    budgets: budgetIds(reservation.billing),
    holdNano,
    traceparent: traceEnqueued(origin.trace, 'media', kind, id),
    webhookUrl: body.webhook_url ?? null,
    metadata: body.metadata ?? {},
    input: {
      input: admitted.input,
      references: admitted.references,
      ...(admitted.isRestricted && { providers: [...new Set(targets.map(({ provider }) => provider.name))] }),
      ...(isRaised && { quotedNano: String(quote.holdNano) }),
      ...(quotedNanoAt && { quotedNanoAt }),
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(target.own && { own: { upstreamNano: String(upstreamNanoOf(admitted)) } }),
    } satisfies JobInput,
    createdAt: new Date(startedMs),
    deadlineAt: new Date(clock.now() + (timeoutMs ?? config.jobDeadlineMs)),
  }
  const job = await createJob(services, reservation, newJob, beside)
  await services.mediaTasks
    .add('start', id)
    .catch(error => services.log.warn({ err: error, job: id }, 'cannot enqueue a new job; maintenance requeues it'))
  return job
}
