import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { isRequestFault, ProviderError, type Target } from '../providers/contract.ts'
import type { Slot } from '../providers/lanes.ts'
import type { Route } from '../providers/upstreams.ts'
import { ClientGone } from './attempt.ts'
import type { RunServices } from './base-run.ts'
import type { Waiting } from './client.ts'
import type { Tried } from './failures.ts'
import { mayTakeLonger } from './larger.ts'
import { nobodyNow } from './nobody.ts'
import { Plan } from './plan.ts'
import type { Home } from './router.ts'
import { Watch } from './watch.ts'

/** Delayed work: the organisation it is for, what it is cheaper by, and when it must be done. */
export type Bulk = { owner: string; discountPpm: bigint; deadlineMs: number }

/** How long delayed work of test keys waits for the sandbox. */
const maxSandboxBulkMs = 5_000

/** A request in search of an answer. */
export type Search = {
  targets: readonly Target[]
  /** Calls of test keys go to the sandbox, whose failures say nothing about any provider. */
  live: boolean
  home: Home | null
  startedMs: number
  client: Waiting
  /** What was tried so far, for the error and the log. */
  tried: Tried[]
  /** Delayed work takes its turn in the lane of each provider; null = it is waited for. */
  bulk: Bulk | null
  /** Of a request that is too long for the model it asks for: its error, should no larger one answer. */
  overflow?: GatewayError | null
  /** How long a target may say nothing before another one is asked instead; absent = as long as any provider may. */
  maxSilenceMs?(target: Target): number
  /** Aborted with the GatewayError that ends the search although somebody waits. */
  signal: AbortSignal
}

/**
 * Tries the targets of a request until `call` resolves for one: in their order, resting ones left out, each failure noted
 * for everybody, within the configured patience. A prompt that is too long for one goes on to larger ones. Rejects with the
 * first of those faults, with a fault of the request itself, with what the last target failed with, with ClientGone, or with
 * a 503 when all of them rest.
 */
export async function failover<T>(
  services: RunServices,
  search: Search,
  call: (watch: Watch) => Promise<T>,
): Promise<T> {
  const { clock, config } = services
  const { client, tried, live, signal } = search
  // The sandbox would only say the same again.
  const patience = live ? config.patience : { ...config.patience, pauseMs: 0 }
  const plan = new Plan(search.targets, patience, search.startedMs)
  let overflow: unknown = search.overflow
  let failure: unknown = null
  let refusal: GatewayError | null = null
  for (let step = plan.next(clock.now()); step; step = plan.next(clock.now())) {
    const { target } = step
    if (step.pauseMs > 0) await pause(step.pauseMs, client, signal)
    signal.throwIfAborted()
    if (client.gone) throw new ClientGone('the client went away')
    const rest = live ? restOf(services, target) : 0
    const restMs = typeof rest === 'number' ? rest : await rest
    if (restMs > 0) {
      plan.resting(target, restMs, clock.now())
      continue
    }
    const slot = search.bulk && live ? await enter(services, search, search.bulk, plan, target) : null
    plan.began(target, clock.now())
    const route = routeTo(services, search, target, plan)
    const watch = new Watch(services, route)
    try {
      const answer = await call(watch)
      slot?.end('answered')
      return answer
    } catch (error) {
      const isBusy = slot !== null && isRefusal(error)
      slot?.end(isBusy ? outcomeOf(error) : 'failed', isBusy ? error.retryAfterMs : null)
      if (!(error instanceof ProviderError) || isRequestFault(error)) watch.abandoned()
      if (error instanceof GatewayError && error.code === 'unsupported_capability') {
        refusal ??= error // Another provider of the model may speak a dialect that can express it.
        continue
      }
      if (!(error instanceof ProviderError)) throw error
      failure = error
      tried.push({ target, error, durationMs: watch.elapsedMs })
      if (isRequestFault(error)) {
        if (error.reason !== 'context_length') throw overflow ?? error
        overflow ??= error
        plan.keepOnly(other => mayTakeLonger(other, target))
        continue
      }
      // That delayed work is too much for a provider says nothing about it to those who wait.
      if (isBusy) watch.abandoned()
      else watch.failed(error)
      plan.failed(target, error, isOfKey(error) && !route.alone, clock.now())
    }
  }
  const rests = search.targets.map(target => services.upstreams.figures(target).restMs)
  throw overflow ?? failure ?? refusal ?? nobodyNow(Math.min(...rests), rests.length)
}

/** A turn in the lane of a target's provider, for delayed work; the time it waits for that is not the provider's. */
async function enter(services: RunServices, { client }: Search, bulk: Bulk, plan: Plan, target: Target): Promise<Slot> {
  const fromMs = services.clock.now()
  const left = new AbortController()
  client.onGone(() => left.abort())
  const turn = { owner: bulk.owner, deadlineMs: bulk.deadlineMs, signal: left.signal }
  const slot = await services.lanes.enter(target.provider.name, turn).catch(error => {
    throw client.gone ? new ClientGone('the client went away') : error
  })
  plan.extend(services.clock.now() - fromMs)
  return slot
}

function isRefusal(error: unknown): error is ProviderError {
  return error instanceof ProviderError && (error.reason === 'rate_limited' || error.reason === 'overloaded')
}

/** What a refusal says to others in the lane: one that names no time and no limit delays nobody but its own request. */
function outcomeOf({ reason, retryAfterMs }: ProviderError): 'limited' | 'overloaded' {
  return reason === 'rate_limited' || retryAfterMs !== null ? 'limited' : 'overloaded'
}

/** How long a target must not be called; 0 = now, perhaps as the one call that tries whether it has recovered. */
function restOf({ upstreams, health }: RunServices, target: Target): number | Promise<number> {
  const { restMs, circuit } = upstreams.figures(target)
  if (restMs > 0 || circuit === 'closed') return restMs
  return health.enter(target).then(entered => (entered ? restMs : upstreams.figures(target).restMs))
}

function routeTo({ upstreams, clock }: RunServices, search: Search, target: Target, plan: Plan): Route {
  const { live, home, bulk } = search
  const remainingMs = plan.remainingMs(clock.now())
  if (!live) {
    // A magic word must not hold a worker's place for a minute.
    const withinMs = bulk ? Math.min(remainingMs, maxSandboxBulkMs) : remainingMs
    return { target, credential: null, alone: true, withinMs, tokenWithinMs: Number.POSITIVE_INFINITY }
  }
  // A provider that is slow is better than none.
  const isSpared = !bulk && plan.fresh.some(other => upstreams.figures(other).restMs === 0)
  const tokenWithinMs = (isSpared && search.maxSilenceMs?.(target)) || Number.POSITIVE_INFINITY
  const withinMs = Math.min(remainingMs, tokenWithinMs)
  const atHome = home?.provider === target.provider.name
  return { target, ...upstreams.credential(target, atHome ? home.credentialId : null), withinMs, tokenWithinMs }
}

/** True when only the API key was at fault, and another one may do. */
function isOfKey({ reason }: ProviderError): boolean {
  return reason === 'rate_limited' || reason === 'auth' || reason === 'quota'
}

/** Waits, but no longer than somebody waits for the answer, or until `signal` ends the search. */
async function pause(ms: number, client: Waiting, signal: AbortSignal): Promise<void> {
  const left = new AbortController()
  client.onGone(() => left.abort())
  await sleep(ms, undefined, { signal: AbortSignal.any([left.signal, signal]) }).catch(() => {})
}
