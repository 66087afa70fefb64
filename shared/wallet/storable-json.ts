import { isObject } from '../base/is-object.ts'
import { isStorableText, storableText } from '../base/storable-text.ts'

const maxTextLength = 500

/**
 * A `JSON.stringify` replacer that makes texts of callers and providers storable and indexable in Postgres: truncated, without
 * NUL, well-formed. The names in objects, too, as callers name their metadata.
 */
export function storable(_field: string, value: unknown): unknown {
  if (typeof value === 'string') return storableText(value.slice(0, maxTextLength))
  if (!isObject(value) || Object.keys(value).every(isStorableText)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [storableText(name), member]))
}

/** JSON with `storable` texts. A replacer makes `JSON.stringify` several times slower, so it is used only when it would change something. */
export function storableJson(value: object): string {
  const json = JSON.stringify(value)
  const isStorable = !json.includes('\\u0000') && !json.includes('\\ud') && hasShortTexts(value)
  return isStorable ? json : JSON.stringify(value, storable)
}

function hasShortTexts(value: object): boolean {
  for (const name in value) {
    const field = (value as Record<string, unknown>)[name]
    if (typeof field === 'string' && field.length > maxTextLength) return false
    if (typeof field === 'object' && field !== null && !hasShortTexts(field)) return false
  }
  return true
}
