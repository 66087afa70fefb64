import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { addMs, longAgo, type MonotonicMs } from '../base/time.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { admitRequest } from '../engine/base-run.ts'
import type { EngineServices } from '../engine/engine-services.ts'
import { failover } from '../engine/failover.ts'
import { ClientGone, type FailedAttempt } from '../engine/failures.ts'
import { routingRecord } from '../engine/report.ts'
import { type ClientPresence, goneSignal } from '../engine/response-writer.ts'
import type { WebSocket } from '../io/socket.ts'
import { assertUnguarded } from '../keys/guardrails.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Policy } from '../keys/policy.ts'
import { canPriceSession, intervalHoldNano } from '../kinds/realtime.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import { chooseTargets } from '../routing/choose-targets.ts'
import { marginAt } from '../routing/pricing.ts'
import { allExcludedError, type Exclusion, permittedBy, preferencesOf } from '../routing/provider-preferences.ts'
import type { Reservation } from '../wallet/admission.ts'
import { flatCost, withoutMoney } from '../wallet/reservation.ts'
import type { RoutingRecord } from '../wallet/routing-record.ts'
import { namedSetting, type SessionRequest } from './settings.ts'

/** The input of a session. */
export type SessionInput = SessionRequest & { key: ResolvedKey; requestId: string }

/** When a session began: its date, and the time from which its duration is measured. */
export type SessionBegin = { startedMs: number; beganMs: MonotonicMs }

/** An opened session and the time it took: its socket is paused. */
export type OpenedSession = { target: Target; socket: WebSocket; openedMs: MonotonicMs; durationMs: number }

/**
 * The targets of a session: those of the named model, or of the first suitable one. Throws 400 for settings that the
 * model does not accept in advance and for an unsupported intent, 403, 404, 503.
 */
export function sessionTargets(
  { upstreams, catalog, config, clock }: Platform,
  policy: Policy,
  { model: slug, intent, settings }: SessionRequest,
): Target[] {
  assertUnguarded(policy)
  const setting = settings && namedSetting(settings)
  const targets = chooseTargets(catalog, policy, {
    slug: slug ?? undefined,
    list: '/v1/models?type=realtime',
    serves: ({ type }) => type === 'realtime' || type === 'live_video',
    targets: model =>
      upstreams
        .targets(model, policy.environment, policy.ownKeys)
        .filter(target => canPriceSession(target.deployment.price) && upstreams.realtime(target, policy.environment))
        // A model without any is refused by the check, with the reason.
        .filter(({ deployment }) => intent === null || deployment.traits?.transcription || !transcribes(model)),
    check: model => checkIntent(model, intent),
    preferences: preferencesOf(policy.provider, undefined),
    marginPpm: config.marginPpm,
    nowMs: clock.now(),
  })
  const [{ model }] = targets as [Target]
  if (setting && !targets.every(target => upstreams.realtime(target, policy.environment)?.settings)) {
    const message = `The settings of \`${model.id}\` are its own: send them as its first frames.`
    throw new GatewayError('unsupported_capability', message, { param: `session.${setting}` })
  }
  return targets
}

/** Whether a provider of the model has sessions that only write down what is said. */
function transcribes({ providers }: Pick<ModelRow, 'providers'>): boolean {
  return providers.some(({ traits }) => traits?.transcription)
}

/** A transcription session belongs to the provider; the model only determines its reservation. */
function checkIntent({ id, providers }: ModelRow, intent: SessionRequest['intent']): void {
  if (intent === null || transcribes({ providers })) return
  const message = `\`${id}\` has no sessions that only write down what is said: leave \`intent\` out, or leave \`model\` out to have one that can.`
  throw new GatewayError('unsupported_capability', message, { param: 'intent' })
}

/**
 * Reserves an increment of a session under `id`. Only the first counts as a request. Throws what denies the key the
 * model: 401, 402, 403, 404, 429, 503.
 */
export async function reserveExtension(
  services: Platform,
  input: SessionInput,
  id: string,
  { nano, first }: { nano: number | null; first: boolean },
): Promise<{ reservation: Reservation; targets: Target[] }> {
  const { key } = input
  // The policy was read when the session was opened.
  if (!first) key.forget()
  const { marginPpm } = services.config
  const choose = (policy: Policy) => {
    const targets = sessionTargets(services, policy, input)
    const fixedNano =
      nano ?? Math.max(...targets.map(target => intervalHoldNano(target.deployment.price, marginAt(target, marginPpm))))
    const factor = nano === null ? services.reservationFactors.of(policy.organisationId, targets) : 1
    return { targets, maxCost: { ...flatCost(fixedNano), factor } }
  }
  return admitRequest(services, key, { id }, choose, context => (first ? context : { ...context, rpmLimit: null }))
}

/**
 * Opens a session at the first target that accepts it. Rejects with a ProviderError, a 503 when all are in cooldown, or
 * ClientGone.
 */
export async function connect(
  services: EngineServices,
  { key, intent }: SessionInput,
  targets: readonly Target[],
  client: ClientPresence,
  failedAttempts: FailedAttempt[],
): Promise<OpenedSession> {
  const { upstreams, monotonic } = services
  const { environment } = key.policy
  const signal = goneSignal(client, new ClientGone())
  const options = {
    targets,
    live: environment === 'live',
    sticky: null,
    beganMs: monotonic.now(),
    client,
    failedAttempts,
    bulk: null,
    signal,
  }
  return failover(services, options, async monitor => {
    const { target } = monitor.route
    const path = upstreams.realtime(target, environment)!.path(target.deployment, intent)
    const socket = await upstreams.connect(monitor.route, path, signal)
    monitor.recordFirstByte({ streamed: true })
    monitor.recordSuccess(0, { streamed: true })
    return { target, socket, openedMs: monotonic.now(), durationMs: monitor.elapsedMs }
  })
}

/** The routing record of a session; null when the first provider accepted it. */
export function sessionRoutingRecord(
  failedAttempts: readonly FailedAttempt[],
  opened: OpenedSession | null,
): RoutingRecord | null {
  const outcome = { target: opened?.target ?? null, status: 101, errorCode: null }
  const last = opened && {
    startedMs: addMs(opened.openedMs, -opened.durationMs),
    pause: null,
    elapsedMs: opened.durationMs,
  }
  return routingRecord({}, failedAttempts, outcome, last, failedAttempts[0]?.startedMs ?? longAgo)
}

/** Throws 403 when the preferences of a key's policy exclude the target of its session, whichever others they leave. */
function assertPermitted({ config: { marginPpm } }: Platform, policy: Policy, target: Target): void {
  const excluded = new Map<string, Exclusion>()
  permittedBy(preferencesOf(policy.provider, undefined), [target], { features: null, marginPpm }, excluded)
  if (excluded.size > 0) throw allExcludedError([...excluded])
}

/** Why a key may no longer hold its session at a target; null = it may, or the check is unavailable. */
export async function recheck(services: Platform, input: SessionInput, target: Target): Promise<GatewayError | null> {
  const { key } = input
  key.forget()
  const choose = (policy: Policy) => {
    sessionTargets(services, policy, input)
    assertPermitted(services, policy, target)
    return { maxCost: flatCost(0) }
  }
  try {
    // Nothing is reserved or counted: this confirms the policy version in Redis.
    await admitRequest(services, key, { id: newId('req') }, choose, context => {
      return { ...withoutMoney(context), rpmLimit: null, tpmLimit: null }
    })
    return null
  } catch (error) {
    return error instanceof GatewayError && (error.status === 401 || error.status === 403) ? error : null
  }
}
