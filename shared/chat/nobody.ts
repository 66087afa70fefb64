import { GatewayError } from '../base/errors.ts'
import { listNames } from '../base/names.ts'
import { type Inquiry, isUnwanted } from './options.ts'

/** The error of a request that nobody can serve: 400 where its own preferences leave nobody, else 503. */
export function nobody({ world, policy, kind, request, considered }: Inquiry): GatewayError {
  const { upstreams, catalog } = world
  const { environment } = policy
  const unwanted = new Set<string>()
  for (const model of considered) {
    for (const { deployment, provider } of catalog.targets(model)) {
      if (!upstreams.adapter(kind, { model, deployment, provider }, environment)) continue
      // Somebody who is wanted, and could be configured.
      if (!isUnwanted(request, provider.name)) return nobodyNow(null)
      unwanted.add(provider.name)
    }
  }
  if (unwanted.size === 0) return nobodyNow(null)
  const configured = [...unwanted].filter(name => upstreams.configured(name, environment))
  const names = listNames(configured.length > 0 ? configured : [...unwanted])
  const message = `The preferences in \`provider\` leave nobody to serve this request. There are: ${names}.`
  return new GatewayError('invalid_request', message, { param: 'provider' })
}

/** The 503 of a request that nobody configured can serve, or none of `count` targets before `restMs` have passed. */
export function nobodyNow(restMs: number | null, count = 0): GatewayError {
  const seconds = restMs === null ? 5 : Math.max(1, Math.ceil(restMs / 1_000))
  const who = count === 1 ? 'The only provider' : 'Every provider'
  const message =
    restMs === null
      ? 'No configured provider can serve this request now.'
      : `${who} that could serve this request failed repeatedly or asked to be left alone. Try again in ${seconds} s.`
  return new GatewayError('no_provider_available', message, { headers: { 'retry-after': String(seconds) } })
}
