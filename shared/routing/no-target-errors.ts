import { GatewayError } from '../base/errors.ts'
import { formatNames } from '../base/names.ts'
import { familyOf } from '../catalog/regions.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import type { Figures } from '../providers/health.ts'
import { takesOwnKeys } from '../providers/own-accounts.ts'
import { pausedCooldownMs } from '../providers/provider-pauses.ts'
import { type RoutingContext, targetsUnder } from './options.ts'
import { targetOf } from './pricing.ts'
import { allExcludedError, type Exclusion, exclusionOf, isByName } from './provider-preferences.ts'

/**
 * The error of a request without targets: 400 when its own provider preferences exclude all, 403 when those of its key do, else the 503 that names the
 * providers to enable.
 */
export function noTargetError({
  inputs,
  policy,
  kind,
  preferences,
  features,
  considered,
}: RoutingContext): GatewayError {
  const { upstreams, catalog } = inputs
  const { environment, ownKeys } = policy
  if (ownKeys?.mode === 'own' && considered.every(model => upstreams.ownTargets(model, ownKeys).length === 0))
    return noOwnKeyError(ownKeyProviders(considered.flatMap(model => catalog.targets(model))))
  const excluded = new Map<string, Exclusion>()
  const acceptable = new Set<string>()
  const reached = new Set<string>()
  let isUnreadable = false
  for (const model of considered) {
    for (const { deployment, provider, own } of targetsUnder(inputs, policy, model)) {
      if (own) reached.add(provider.name)
      const served = upstreams.adapter(kind, { model, deployment, provider }, environment)
      if (!served) continue
      const target = targetOf({ model, deployment, provider, own }, features)
      const exclusion = preferences && exclusionOf(preferences, target, { features, marginPpm: inputs.marginPpm })
      if (exclusion) excluded.set(provider.name, exclusion)
      else if (!features.signedThinking || served.adapter.native) acceptable.add(provider.name)
      else isUnreadable = true
    }
  }
  const isConfigured = (name: string) => reached.has(name) || upstreams.isConfigured(name, environment)
  const configured = [...excluded].filter(([name]) => isConfigured(name))
  // A provider that is not enabled does not make a preference that excludes all the others a fault of the service.
  if (configured.some(isByFact) && ![...acceptable].some(isConfigured)) return allExcludedError(configured)
  if (acceptable.size > 0) return notEnabledError([...acceptable].filter(name => !isConfigured(name)))
  if (isUnreadable) return unreadableThinkingError()
  if (excluded.size === 0) return notEnabledError([])
  const shown = configured.length > 0 ? configured : [...excluded]
  if (shown.some(isByFact)) return allExcludedError(shown)
  const names = formatNames(shown.map(([name]) => name))
  const message = `The preferences in \`provider\` exclude every provider of this request. There are: ${names}.`
  return new GatewayError('invalid_request', message, { param: 'provider' })
}

/** The names that own keys are stored under for these providers. */
export function ownKeyProviders(targets: readonly { provider: ProviderRow }[]): string[] {
  return [...new Set(targets.filter(one => takesOwnKeys(one.provider)).map(one => familyOf(one.provider.name)))]
}

/** Whether more than the caller's own list of providers excludes one. */
function isByFact([, { owner, member }]: [string, Exclusion]): boolean {
  return owner === 'key' || !isByName(member)
}

/** `Retry-After` while operators have paused every provider of a request. */
const pausedRetryS = 60

/** `Retry-After` while no provider of a request is configured. */
const notEnabledRetryS = 5

/** The 503 of a request that only these providers, which are not configured, could serve. */
function notEnabledError(providers: readonly string[]): GatewayError {
  const who = `the operator of this service has to enable one of: ${formatNames(providers)}`
  const message = `No enabled provider can serve this request${providers.length > 0 ? `; ${who}` : ''}.`
  const headers = { 'retry-after': String(notEnabledRetryS), 'x-should-retry': 'false' }
  const variables = providers.map(name => `${name.toUpperCase()}_API_KEY`)
  const remedy = variables.length === 0 ? null : `set ${variables.join(' or ')} (docs/providers.md) and restart`
  return new GatewayError('no_provider_available', message, { headers, remedy })
}

/** The 503 when all targets of a request are in cooldown. */
export function noTargetNowError(
  figures: readonly Pick<Figures, 'cooldownMs' | 'accountFault' | 'ownKeyRefusal'>[],
): GatewayError {
  const refusals = new Set(figures.map(({ ownKeyRefusal }) => ownKeyRefusal))
  if (refusals.size > 0 && !refusals.has(undefined)) return new GatewayError('own_key_refused', [...refusals].join(' '))
  const cooldownMs = Math.min(...figures.map(one => one.cooldownMs))
  const isPaused = cooldownMs >= pausedCooldownMs
  const seconds = isPaused ? pausedRetryS : Math.max(1, Math.ceil(cooldownMs / 1_000))
  const subject = `${figures.length === 1 ? 'The only provider' : 'Every provider'} that could serve this request`
  const needsOperator = !isPaused && figures.every(({ accountFault }) => accountFault)
  const failed = needsOperator
    ? 'refused the gateway’s API key or account. Tell the operator of this service.'
    : `failed repeatedly or requested a pause. Try again in ${seconds} s.`
  const message = isPaused ? `${subject} is paused by the operator of this service.` : `${subject} ${failed}`
  const headers = { 'retry-after': String(seconds) }
  return new GatewayError('no_provider_available', message, { headers, needsOperator })
}

/** The 403 of a request of a key that uses own provider keys alone, where its organisation has none. `providers`: which could serve it. */
export function noOwnKeyError(providers: readonly string[]): GatewayError {
  const which = providers.length > 0 ? ` for ${formatNames(providers)}` : ''
  const message = `This key uses its organisation’s own provider keys only, and there is none${which} that it may use for this model. Add one, or change \`own_keys\` of the key.`
  return new GatewayError('no_own_key', message, { param: 'model' })
}

/** The 400 on which coding agents repeat a request without its signed thinking (`capability_rejected`). */
function unreadableThinkingError(): GatewayError {
  const message =
    'No provider of this model can read the signed thinking blocks of this conversation. (capability_rejected: thinking_signature)'
  return new GatewayError('invalid_request', message, { param: 'messages' })
}
