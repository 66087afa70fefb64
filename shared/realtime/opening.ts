import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { ClientGone } from '../chat/attempt.ts'
import type { Waiting } from '../chat/client.ts'
import { failover } from '../chat/failover.ts'
import type { Tried } from '../chat/failures.ts'
import { routingRecord } from '../chat/routing-record.ts'
import type { WebSocket } from '../io/socket.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Policy } from '../keys/policy.ts'
import { paysSessions, stretchNano } from '../kinds/realtime.ts'
import { chooseTargets } from '../media/choose.ts'
import type { Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import type { RoutingRecord } from '../wallet/routing-record.ts'
import { spenderOf } from '../wallet/spender.ts'
import { type Asked, namedSetting } from './settings.ts'

/** A session as it is asked for. */
export type SessionOrder = Asked & { known: Known; requestId: string }

/** A provider that opened the session, and how long it took: its socket is paused. */
export type Opened = { target: Target; socket: WebSocket; openedMs: number; durationMs: number }

/**
 * Who can hold a session for a key: of the model that is named, or of the first that fits. Throws 400 for settings that the
 * model does not take ahead and for an intent that it does not have, 403, 404, 503.
 */
export function sessionTargets(
  { upstreams, catalog }: Services,
  policy: Policy,
  { model: slug, intent, settings }: Asked,
): Target[] {
  const setting = settings && namedSetting(settings)
  const targets = chooseTargets(catalog, policy, {
    slug: slug ?? undefined,
    list: '/v1/models?type=realtime',
    serves: ({ type }) => type === 'realtime' || type === 'live_video',
    targets: model =>
      upstreams
        .targets(model, policy.environment)
        .filter(target => paysSessions(target.deployment.price) && upstreams.realtime(target, policy.environment)),
    check: model => checkIntent(model, intent),
  })
  const [{ model }] = targets as [Target]
  if (setting && !targets.every(target => upstreams.realtime(target, policy.environment)?.settings)) {
    const message = `The settings of \`${model.id}\` are its own: send them as its first frames.`
    throw new GatewayError('unsupported_capability', message, { param: `session.${setting}` })
  }
  return targets
}

/** A session that only writes down is one of the provider's; the model is what it is reserved by. */
function checkIntent({ id, providers }: ModelRow, intent: Asked['intent']): void {
  if (intent === null || providers.every(({ traits }) => traits?.transcription)) return
  const message = `\`${id}\` has no sessions that only write down what is said: leave \`intent\` out, or leave \`model\` out to have one that can.`
  throw new GatewayError('unsupported_capability', message, { param: 'intent' })
}

/**
 * Reserves a stretch of a session under `id`. The first one counts as a request; those that follow do not. Throws what keeps
 * the key from the model: 401, 402, 403, 404, 429, 503.
 */
export async function reserve(
  services: Services,
  order: SessionOrder,
  id: string,
  { nano, first }: { nano: number | null; first: boolean },
): Promise<{ ticket: Ticket; targets: Target[] }> {
  const { known } = order
  // What was read of the key before says nothing about now.
  if (!first) known.fresh = ''
  return services.policies.decide(known, async ({ policy, fresh, scope }) => {
    authorise(policy, scope, services.clock.now())
    const targets = sessionTargets(services, policy, order)
    const { marginPpm } = services.config
    const fixedNano = nano ?? Math.max(...targets.map(({ deployment }) => stretchNano(deployment.price, marginPpm)))
    const bound = { estimatedTokens: 0, fixedNano, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
    const spender = spenderOf(policy)
    const ticket = await services.admission.admit(first ? spender : { ...spender, rpmLimit: null }, fresh, id, bound)
    return 'stale' in ticket ? ticket : { ticket, targets }
  })
}

/**
 * Opens a session at the first target that takes it. Rejects with a ProviderError, a 503 when all of them rest, or ClientGone.
 */
export async function connect(
  services: Services,
  { known, intent }: SessionOrder,
  targets: readonly Target[],
  client: Waiting,
  tried: Tried[],
): Promise<Opened> {
  const { upstreams, clock } = services
  const { environment } = known.policy
  const left = new AbortController()
  client.onGone(() => left.abort(new ClientGone('the client went away')))
  const search = {
    targets,
    live: environment === 'live',
    home: null,
    startedMs: clock.now(),
    client,
    tried,
    bulk: null,
    signal: left.signal,
  }
  return failover(services, search, async watch => {
    const { target } = watch.route
    const path = upstreams.realtime(target, environment)!.path(target.deployment, intent)
    const socket = await upstreams.connect(watch.route, path, left.signal)
    watch.began({ streamed: true })
    watch.succeeded(0, { streamed: true })
    return { target, socket, openedMs: clock.now(), durationMs: watch.elapsedMs }
  })
}

/** What the request log tells of the providers that were asked; null where the first one took it. */
export function triedOf(tried: readonly Tried[], opened: Opened | null): RoutingRecord | null {
  const ended = { target: opened?.target ?? null, status: 101, errorCode: null }
  return routingRecord({}, tried, ended, opened?.durationMs ?? 0)
}

/** Why a key may no longer hold a session that it opened; null = it may, or nobody can tell now. */
export async function recheck(services: Services, order: SessionOrder): Promise<GatewayError | null> {
  const { known } = order
  known.fresh = ''
  try {
    await services.policies.decide(known, ({ policy, fresh, scope }) => {
      authorise(policy, scope, services.clock.now())
      sessionTargets(services, policy, order)
      // Nothing is reserved or counted: it confirms the version of the policy to Redis.
      const spender = { ...spenderOf(policy), spendsMoney: false, rpmLimit: null, tpmLimit: null }
      return services.admission.admit(spender, fresh, newId('req'), nothing)
    })
    return null
  } catch (error) {
    const { status } = error instanceof GatewayError ? error : { status: 503 }
    return status === 401 || status === 403 ? (error as GatewayError) : null
  }
}

const nothing = { estimatedTokens: 0, fixedNano: 0, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
