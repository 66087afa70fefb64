import type { ProviderRow } from '../../catalog/schema.ts'
import type { Json } from './json.ts'
import { extrasOf, noExtras, normaliseUsage } from './usage.ts'

/** What whole answers have in common. Their adapters leave what they are given as it is, and give it back where it needs no change. */

/**
 * A list with its entries as `read` gives them; the very same list where none is changed, so that it can be passed on as it was
 * written (shared/chat/whole-text.ts).
 */
export function mapped<T>(list: unknown[], read: (entry: unknown, position: number) => T): T[] {
  const entries = list.map(read)
  return entries.every((entry, position) => entry === list[position]) ? (list as T[]) : entries
}

/** A copy of an answer with the fields that OpenAI's answers always have, its usage as ours, and without what is the provider's own. */
export function wholeHead(json: Json, provider: ProviderRow): Json {
  const usage = usageOf(json, provider)
  // Leaving fields out costs more than all the rest, and most answers have none to leave out.
  const isPlain = json.obfuscation === undefined && json.provider === undefined && (usage || json.usage === undefined)
  const head = isPlain ? { ...json } : withoutOwn(json)
  if (typeof json.id !== 'string') head.id = ''
  if (typeof json.created !== 'number') head.created = Math.floor(Date.now() / 1000)
  if (typeof json.model !== 'string') head.model = ''
  if (usage) head.usage = usage
  return head
}

function usageOf(json: Json, provider: ProviderRow) {
  const counted = normaliseUsage(json.usage)
  const extras = counted ? extrasOf(json, provider) : noExtras
  return extras === noExtras ? counted : { ...counted, ...extras }
}

function withoutOwn({ usage: _usage, obfuscation: _padding, provider: _route, ...others }: Json): Json {
  return others
}
