import { GatewayError } from '../base/errors.ts'
import { formatNames } from '../base/names.ts'
import { pausedCooldownMs } from '../providers/provider-pauses.ts'
import { isExcludedByRequest, type RoutingContext } from './options.ts'

/** The error of a request without targets: 400 when its own provider preferences exclude all, else 503. */
export function noTargetError({ world, policy, kind, request, features, considered }: RoutingContext): GatewayError {
  const { upstreams, catalog } = world
  const { environment } = policy
  const excluded = new Set<string>()
  let isUnreadable = false
  for (const model of considered) {
    for (const { deployment, provider } of catalog.targets(model)) {
      const served = upstreams.adapter(kind, { model, deployment, provider }, environment)
      if (!served) continue
      // An acceptable provider exists and could be configured.
      if (!isExcludedByRequest(request, provider.name)) {
        if (!features.signedThinking || served.adapter.native) return noTargetNowError(null)
        isUnreadable = true
      }
      excluded.add(provider.name)
    }
  }
  if (isUnreadable) return unreadableThinkingError()
  if (excluded.size === 0) return noTargetNowError(null)
  const configured = [...excluded].filter(name => upstreams.isConfigured(name, environment))
  const names = formatNames(configured.length > 0 ? configured : [...excluded])
  const message = `The preferences in \`provider\` exclude every provider of this request. There are: ${names}.`
  return new GatewayError('invalid_request', message, { param: 'provider' })
}

/** `Retry-After` while operators have paused every provider of a request. */
const pausedRetryS = 60

/**
 * The 503 when no configured provider can serve a request, or when all `count` targets are in cooldown for at least
 * `cooldownMs`.
 */
export function noTargetNowError(cooldownMs: number | null, count = 0): GatewayError {
  const isPaused = cooldownMs !== null && cooldownMs >= pausedCooldownMs
  const seconds = cooldownMs === null ? 5 : isPaused ? pausedRetryS : Math.max(1, Math.ceil(cooldownMs / 1_000))
  const subject = count === 1 ? 'The only provider' : 'Every provider'
  const message =
    cooldownMs === null
      ? 'No configured provider can serve this request now.'
      : isPaused
        ? `${subject} that could serve this request is paused by the operator of this service.`
        : `${subject} that could serve this request failed repeatedly or requested a pause. Try again in ${seconds} s.`
  return new GatewayError('no_provider_available', message, { headers: { 'retry-after': String(seconds) } })
}

/** The 400 on which coding agents repeat a request without its signed thinking (`capability_rejected`). */
function unreadableThinkingError(): GatewayError {
  const message =
    'No provider of this model can read the signed thinking blocks of this conversation. (capability_rejected: thinking_signature)'
  return new GatewayError('invalid_request', message, { param: 'messages' })
}
