import { GatewayError } from '../base/errors.ts'
import { listNames } from '../base/names.ts'
import type { ProviderPreferences } from '../kinds/chat.ts'

/** Who could not be chosen for a request, and why. */
export type Excluded = {
  /** Left out by the request's own preferences: by name, whether they are configured. */
  unwanted: Map<string, boolean>
  /** Whether somebody was wanted who is not configured. */
  unavailable: boolean
}

/** Whether a request's preferences leave a provider out. */
export function isUnwanted({ only, ignore, order, allow_fallbacks }: ProviderPreferences, name: string): boolean {
  if (only && !only.includes(name)) return true
  return (allow_fallbacks === false && order !== undefined && !order.includes(name)) || ignore?.includes(name) === true
}

/** The error of a request that nobody can serve: 400 where its own preferences leave nobody, else 503. */
export function nobody({ unwanted, unavailable }: Excluded): GatewayError {
  if (unavailable || unwanted.size === 0) return nobodyNow(null)
  const configured = [...unwanted].filter(([, isConfigured]) => isConfigured)
  const names = (configured.length > 0 ? configured : [...unwanted]).map(([name]) => name)
  const message = `The preferences in \`provider\` leave nobody to serve this request. There are: ${listNames(names)}.`
  return new GatewayError('invalid_request', message, { param: 'provider' })
}

/** The 503 of a request that nobody configured can serve, or nobody before `restMs` have passed. */
export function nobodyNow(restMs: number | null): GatewayError {
  const seconds = restMs === null ? 5 : Math.max(1, Math.ceil(restMs / 1_000))
  const message =
    restMs === null
      ? 'No configured provider can serve this request now.'
      : `Every provider that could serve this request failed repeatedly or asked to be left alone. Try again in ${seconds} s.`
  return new GatewayError('no_provider_available', message, { headers: { 'retry-after': String(seconds) } })
}
