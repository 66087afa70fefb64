import { parseExact } from '../../base/exact-numbers.ts'
import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { digestedName } from '../toolkit/digested-name.ts'
import type { Schema } from './schema-nodes.ts'

/** The caller's keys by those under which they are sent, as far as they differ. */
export type PropertyKeys = ReadonlyMap<string, string>

/**
 * "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", of the parameters themselves and not of what is in them
 * (aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws#709, decocms/studio#6874).
 */
const dotted64 = { pattern: /^[a-zA-Z0-9_.-]{1,64}$/, other: /[^a-zA-Z0-9_.-]/g, maxCharacters: 64, prefix: '' }

/** Whether a provider refuses a key of these parameters; alternatives are not looked into, and may have one. */
export function mayHaveOtherKeys(parameters: unknown, { property_key: keys }: ChatProfile): boolean {
  if (keys === 'any' || !isObject(parameters)) return false
  const { properties, $ref, anyOf, oneOf, allOf } = parameters
  if ($ref || anyOf || oneOf || allOf) return true
  return isObject(properties) && Object.keys(properties).some(key => !dotted64.pattern.test(key))
}

/** The parameters of a tool with keys that the provider takes, and those that differ; null: none. */
export function withSentKeys(
  schema: Schema,
  { property_key: form }: ChatProfile,
): { schema: Schema; keys: PropertyKeys | null } {
  const { properties, required } = schema
  if (form === 'any' || !isObject(properties)) return { schema, keys: null }
  const keys = new Map<string, string>()
  const sent = Object.entries(properties).map(([key, value]) => {
    const name = sentKey(key)
    if (name !== key) keys.set(name, key)
    return [name, value] as const
  })
  if (keys.size === 0) return { schema, keys: null }
  const names = Array.isArray(required) && required.map(key => (typeof key === 'string' ? sentKey(key) : key))
  return { schema: { ...schema, properties: Object.fromEntries(sent), ...(names && { required: names }) }, keys }
}

function sentKey(key: string): string {
  return digestedName(key, dotted64)
}

/** The arguments of an earlier call under the keys that are sent. */
export function sentArguments(json: string, keys: PropertyKeys): string {
  const sent = new Map([...keys].map(([name, key]) => [key, name]))
  return withKeys(json, sent)
}

/** The arguments of a call under the caller's keys. */
export function clientArguments(json: string, keys: PropertyKeys): string {
  return withKeys(json, keys)
}

/** Arguments with other names of some keys; what is no JSON object stays as it is. */
function withKeys(json: string, names: ReadonlyMap<string, string>): string {
  try {
    const parsed = parseExact(json)
    if (!isObject(parsed)) return json
    return JSON.stringify(
      Object.fromEntries(Object.entries(parsed).map(([key, value]) => [names.get(key) ?? key, value])),
    )
  } catch {
    return json
  }
}
