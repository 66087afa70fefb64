import { GatewayError } from '../base/errors.ts'
import { type ServiceTier, serviceTierOf } from '../base/service-tier.ts'
import type { Usage } from '../base/usage.ts'
import type { Policy } from '../keys/policy.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Features } from './features.ts'

/** The kinds whose requests name a tier, and the members that do: Google's API takes both spellings. */
const tierFields: Partial<Record<DirectKind, readonly string[]>> = {
  chat: ['service_tier'],
  responses: ['service_tier'],
  generate_content: ['serviceTier', 'service_tier'],
}

/** The features of an interactive request, with the tier that it asks for. Delayed work has prices of its own, and no tier. */
export function withServiceTier(kind: DirectKind, body: object, features: Features): Features {
  const fields = tierFields[kind]
  if (!fields) return features
  let tier: ServiceTier | undefined
  for (const name of fields) {
    const value = (body as Record<string, unknown>)[name]
    if (value) tier ??= serviceTierOf(value)
  }
  return tier ? { ...features, tier } : features
}

/** Asserts that a key may ask for a request's tier. Throws 403. */
export function assertTierAllowed({ deniedTiers }: Pick<Policy, 'deniedTiers'>, { tier }: Features): void {
  if (!tier || !deniedTiers?.has(tier)) return
  const message = `This key may not use the service tier \`${tier}\`. Leave \`service_tier\` out.`
  throw new GatewayError('service_tier_not_allowed', message, { param: 'service_tier' })
}

/** A model at a provider as the target of a request: with the request's tier, if the provider has a price for it. */
export function targetOf(target: Target, { tier }: Features): Target {
  const { price } = target.deployment
  return tier && price.unit === 'token' && price.tiers?.[tier] ? { ...target, tier } : target
}

/**
 * The options that serve the tier of a request, if any does: a request is not moved to another tier by failover. If none does,
 * all of them: the tier is dropped.
 */
export function keepTier<O extends { target: Target }>(options: O[], { tier }: Features): O[] {
  if (!tier) return options
  const tiered = options.filter(({ target }) => target.tier)
  return tiered.length > 0 && tiered.length < options.length ? tiered : options
}

/** The members of a request that were dropped, without the tier where its target serves it. */
export function withoutServedTier(dropped: readonly string[], { tier }: Target): readonly string[] {
  return tier ? dropped.filter(name => name !== 'service_tier' && name !== 'serviceTier') : dropped
}

/**
 * A usage with the tier by which it is billed: what the answer or its header states, as providers serve at the standard tier what
 * exceeds another one; else the tier that was asked for. A third tier was not reserved: it counts as standard, and is noted.
 */
export function atServedTier(usage: Usage, { tier: asked }: Target, header?: Usage['service_tier']): Usage {
  const { service_tier: stated = header, unpriced = [] } = usage
  if (stated === 'standard' || (stated === undefined && asked === undefined)) return usage
  if (stated === undefined || stated === asked) return { ...usage, service_tier: asked! }
  const standard: Usage = { ...usage, service_tier: 'standard' }
  return stated === 'priority' ? { ...standard, unpriced: [...unpriced, 'service_tier priority'] } : standard
}
