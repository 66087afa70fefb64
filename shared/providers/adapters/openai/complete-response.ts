import { unixNow } from '../../../base/time.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { Json } from './json.ts'
import { extrasOf, noExtras, normaliseUsage, usageIn } from './usage.ts'

/** Shared by adapters of complete responses. They return what they are given unchanged where possible. */

/**
 * A list with its entries mapped by `read`; the same list object if no entry changes, so that it can be relayed as
 * bytes (shared/chat/attempt.ts).
 */
export function mapUnlessSame<T>(list: unknown[], read: (entry: unknown, position: number) => T): T[] {
  const entries = list.map(read)
  return entries.every((entry, position) => entry === list[position]) ? (list as T[]) : entries
}

/**
 * A copy of a response with the fields that OpenAI's always have, converted usage, and without the provider's own
 * fields.
 */
export function normaliseHead(json: Json, provider: ProviderRow): Json {
  const usage = usageOf(json, provider)
  // Destructuring with rest is the most expensive step, and most responses have no field to omit.
  const isPlain = json.obfuscation === undefined && json.provider === undefined && (usage || json.usage === undefined)
  const head = isPlain ? { ...json } : withoutOwn(json)
  if (typeof json.id !== 'string') head.id = ''
  if (typeof json.created !== 'number') head.created = unixNow()
  if (typeof json.model !== 'string') head.model = ''
  if (usage) head.usage = usage
  return head
}

function usageOf(json: Json, provider: ProviderRow) {
  const ownUsage = normaliseUsage(usageIn(json))
  const extras = ownUsage ? extrasOf(json, provider) : noExtras
  return extras === noExtras ? ownUsage : { ...ownUsage, ...extras }
}

function withoutOwn({ usage: _usage, obfuscation: _padding, provider: _route, ...others }: Json): Json {
  return others
}
