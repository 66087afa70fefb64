import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Permit } from '../limiter/concurrency-limiter.ts'
import type { Target } from '../providers/contract.ts'
import { isRequestFault, ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { hasLargerContext } from '../routing/larger-context.ts'
import { noTargetNowError } from '../routing/no-target-errors.ts'
import type { StickyTarget } from '../routing/router.ts'
import type { Pause } from '../wallet/routing-record.ts'
import type { RunServices } from './base-run.ts'
import { CallMonitor, timingOf } from './call-monitor.ts'
import { ClientGone, type FailedAttempt, isKeyFault } from './failures.ts'
import type { ClientPresence } from './response-writer.ts'
import { RetryPlan } from './retry-plan.ts'

/** Delayed work: its organisation, its discount in parts per million, and its deadline. */
export type BulkContext = { owner: string; discountPpm: bigint; deadlineMs: number }

/** Timeout of a sandbox call for delayed work of test keys. */
const maxSandboxBulkMs = 5_000

/** The targets and limits of one failover. */
export type FailoverOptions = {
  targets: readonly Target[]
  /** False for test keys: their calls go to the sandbox, whose failures do not affect provider health. */
  live: boolean
  sticky: StickyTarget | null
  /** When the request began. */
  beganMs: MonotonicMs
  client: ClientPresence
  /** Failed attempts so far, for the error and the log. */
  failedAttempts: FailedAttempt[]
  /** Delayed work, which needs a permit of each provider's concurrency limiter; null for interactive requests. */
  bulk: BulkContext | null
  /** The error of a request that exceeds the context of the model it names, thrown if no larger model answers. */
  overflow?: GatewayError | null
  /** Maximum silence of a target before the next target is called; absent = the provider's own timeout. */
  maxSilenceMs?(target: Target): number
  /** The caller's own limit of each call: to its first token, or to a whole answer; absent = none. */
  maxFirstTokenMs?: number | undefined
  /** Aborted with a GatewayError to end the failover while the client is still connected. */
  signal: AbortSignal
}

/**
 * Calls the targets of a request in order until `call` resolves for one. Skips targets in cooldown, records each
 * failure in the shared health figures, and stays within the retry budget. A prompt that is too long for one target is
 * sent to larger ones only. Rejects with the first context-length error, with an error of the request itself, with the
 * last target's error, with ClientGone, or with a 503 when all targets are in cooldown.
 */
export async function failover<T>(
  services: RunServices,
  options: FailoverOptions,
  call: (monitor: CallMonitor) => Promise<T>,
): Promise<T> {
  const { monotonic, config } = services
  const { client, failedAttempts, live, signal, beganMs } = options
  const passedMs = () => elapsedMs(beganMs, monotonic.now())
  // Retrying the sandbox would return the same error.
  const budget = live ? config.retry : { ...config.retry, pauseMs: 0 }
  const plan = new RetryPlan(options.targets, budget)
  let overflow: unknown = options.overflow
  let failure: unknown = null
  let unsupported: GatewayError | null = null
  let pause: Pause | null = null
  let reason: Pause['reason'] = 'backoff'
  for (let step = plan.next(passedMs()); step; step = plan.next(passedMs())) {
    const { target } = step
    if (step.pauseMs > 0) {
      await waitFor(step.pauseMs, client, signal)
      pause = longer(pause, step.pauseMs, reason)
    }
    signal.throwIfAborted()
    if (client.gone) throw new ClientGone('the client went away')
    const cooldown = live ? cooldownMsOf(services, target) : 0
    const cooldownMs = typeof cooldown === 'number' ? cooldown : await cooldown
    if (cooldownMs > 0) {
      plan.deferTarget(target, cooldownMs, passedMs())
      reason = 'cooldown'
      continue
    }
    const askedMs = passedMs()
    const permit = options.bulk && live ? await acquirePermit(services, options, options.bulk, plan, target) : null
    const startedMs = permit ? passedMs() : askedMs
    if (startedMs > askedMs) pause = longer(pause, startedMs - askedMs, 'concurrency')
    plan.startAttempt(target, startedMs)
    const route = routeTo(services, options, target, plan.remainingMs(startedMs), plan.untried)
    const monitor = new CallMonitor(services, route, { trace: client.trace, pause })
    pause = null
    reason = 'backoff'
    try {
      const answer = await call(monitor)
      permit?.release('answered')
      monitor.end()
      return answer
    } catch (thrown) {
      const error = withoutSecret(thrown, route)
      const isBusy = (permit !== null || target.tier === 'flex') && isOverload(error)
      permit?.release(isBusy ? outcomeOf(error) : 'failed', isBusy ? error.retryAfterMs : null)
      if (!(error instanceof ProviderError) || isRequestFault(error)) monitor.recordAbandonment()
      if (error instanceof GatewayError && error.code === 'unsupported_capability') {
        unsupported ??= error // Another provider of the model may have a dialect that can express the request.
        continue
      }
      monitor.end(error)
      if (!(error instanceof ProviderError)) throw error
      failure = error
      failedAttempts.push({ target, error, durationMs: monitor.elapsedMs, ...timingOf(monitor) })
      if (isRequestFault(error)) {
        if (error.reason !== 'context_length') throw overflow ?? error
        overflow ??= error
        plan.keepOnly(other => hasLargerContext(other, target))
        continue
      }
      // Overload caused by delayed work, or of the cheap tier, does not count against the provider's health for other requests.
      if (isBusy) monitor.recordAbandonment()
      else monitor.recordFailure(error)
      plan.recordFailure(target, error, isKeyFault(error.reason) && !route.alone, passedMs())
    }
  }
  const figures = options.targets.map(target => services.upstreams.figures(target))
  throw overflow ?? failure ?? unsupported ?? noTargetNowError(figures)
}

/** An error without the API key of its call, which the provider may have quoted. */
export function withoutSecret(error: unknown, { credential }: Route): unknown {
  return error instanceof ProviderError && credential ? error.without(credential.secret) : error
}

/** Acquires a permit of the provider's limiter for delayed work; the waiting time is added to the retry budget. */
async function acquirePermit(
  services: RunServices,
  { client }: FailoverOptions,
  bulk: BulkContext,
  plan: RetryPlan,
  target: Target,
): Promise<Permit> {
  const fromMs = services.monotonic.now()
  const disconnected = new AbortController()
  client.onGone(() => disconnected.abort())
  const waiter = { owner: bulk.owner, deadlineMs: bulk.deadlineMs, signal: disconnected.signal }
  const permit = await services.limiter.acquire(target.own?.lane ?? target.provider.name, waiter).catch(error => {
    throw client.gone ? new ClientGone('the client went away') : error
  })
  plan.extend(elapsedMs(fromMs, services.monotonic.now()))
  return permit
}

function isOverload(error: unknown): error is ProviderError {
  return error instanceof ProviderError && (error.reason === 'rate_limited' || error.reason === 'overloaded')
}

/** The outcome reported to the limiter: a refusal without a limit or a delay slows down no other requests. */
function outcomeOf({ reason, retryAfterMs }: ProviderError): 'limited' | 'overloaded' {
  return reason === 'rate_limited' || retryAfterMs !== null ? 'limited' : 'overloaded'
}

/** Remaining cooldown of a target in milliseconds; 0 = callable, possibly as the half-open probe. */
function cooldownMsOf({ upstreams, health }: RunServices, target: Target): number | Promise<number> {
  const { cooldownMs, circuit } = upstreams.figures(target)
  if (cooldownMs > 0 || circuit === 'closed') return cooldownMs
  return health.tryAcquire(target).then(entered => (entered ? cooldownMs : upstreams.figures(target).cooldownMs))
}

function routeTo(
  { upstreams }: RunServices,
  options: FailoverOptions,
  target: Target,
  remainingMs: number,
  untried: readonly Target[],
): Route {
  const { live, sticky, bulk, maxFirstTokenMs = Number.POSITIVE_INFINITY } = options
  if (!live) {
    // A sandbox directive must not occupy a worker slot for a minute.
    const withinMs = Math.min(remainingMs, maxFirstTokenMs, bulk ? maxSandboxBulkMs : Number.POSITIVE_INFINITY)
    return { target, credential: null, alone: true, withinMs, tokenWithinMs: maxFirstTokenMs }
  }
  // The first-token timeout applies only while another target is available.
  const hasAlternative = !bulk && untried.some(other => upstreams.figures(other).cooldownMs === 0)
  const maxSilenceMs = (hasAlternative && options.maxSilenceMs?.(target)) || Number.POSITIVE_INFINITY
  const tokenWithinMs = Math.min(maxSilenceMs, maxFirstTokenMs)
  const withinMs = Math.min(remainingMs, tokenWithinMs)
  const isSticky = sticky?.provider === target.provider.name
  const { credential, alone } = upstreams.credential(target, isSticky ? sticky.credentialId : null)
  return { target, credential, alone, withinMs, tokenWithinMs }
}

/** A wait that follows another one before the same call. */
function longer(earlier: Pause | null, ms: number, reason: Pause['reason']): Pause {
  return { ms: (earlier?.ms ?? 0) + Math.round(ms), reason }
}

/** Sleeps until the delay ends, the client disconnects or `signal` aborts. */
async function waitFor(ms: number, client: ClientPresence, signal: AbortSignal): Promise<void> {
  const disconnected = new AbortController()
  client.onGone(() => disconnected.abort())
  client.beginWait?.()
  await sleep(ms, undefined, { signal: AbortSignal.any([disconnected.signal, signal]) }).catch(() => {})
  client.endWait?.()
}
