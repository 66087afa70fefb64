/**
 * The tiers beside the standard one that providers process requests at, each at prices of its own: `flex` is cheaper and slower,
 * `priority` dearer and faster.
 */
export const serviceTiers = ['flex', 'priority'] as const
export type ServiceTier = (typeof serviceTiers)[number]

/** What requests and answers call them, in lower case; OpenAI's `fast` is `priority` (openai: `ServiceTier`). */
const names: ReadonlyMap<unknown, ServiceTier> = new Map([
  ['flex', 'flex'],
  ['priority', 'priority'],
  ['fast', 'priority'],
])

/** The tier that a value names; undefined for the standard one, and for those that have no prices, such as `scale`. */
export function serviceTierOf(value: unknown): ServiceTier | undefined {
  return names.get(typeof value === 'string' ? value.toLowerCase() : undefined)
}

/** The tier that an answer states it was served at; undefined if it states none. */
export function statedTierOf(value: unknown): ServiceTier | 'standard' | undefined {
  return typeof value === 'string' ? (serviceTierOf(value) ?? 'standard') : undefined
}
