import type { z } from 'zod'
import { GatewayError } from './errors.ts'
import { isObject } from './is-object.ts'
import { issueText } from './issue-text.ts'
import { formatPath } from './json.ts'
import { editBody } from './json-member.ts'
import { nearestName } from './near-misses.ts'
import { otherFormOf } from './other-forms.ts'
import { compilePredicate, type Predicate } from './predicate.ts'

/**
 * Null for an optional member is absent in every request that a standard key creates something with
 * (`validateRequest`). Clients of typed languages write all their fields; OpenAI takes `tool_choice: null`
 * (praxis-proxy/ai#1266), and servers that refused such nulls had to learn it (vllm-project/vllm#19679). Only where
 * the predicate is false, or a member of the top level is null, a walk along the schema leaves these members out of a
 * copy, and out of the text that is forwarded, whose other members keep their characters; it also writes what clients say
 * in another form in that of the schema (`other-forms.ts`). Types do not change, so no reader meets a null that its type
 * lacks. Members that may be null keep it below the top level, and so do values,
 * such as those in a JSON Schema. A change of something (PATCH) is read strictly: null may mean another value there.
 * The OpenAPI document has these members as nullable.
 */

/**
 * Only the first fault is reported, so validation of a list or record stops at the first invalid member: an issue for
 * each of 100,000 takes hundreds of megabytes. `abortEarly` is Zod's own option; its public types do not expose it.
 */
const parsing = { reportInput: true, abortEarly: true, error: issueText }

const predicates = new WeakMap<z.ZodType, Predicate | null>()

/** The predicate of a schema, compiled on first use; null if the schema has none. */
function predicateOf(schema: z.ZodType): Predicate | null {
  let predicate = predicates.get(schema)
  if (predicate === undefined) {
    predicate = compilePredicate(schema)
    predicates.set(schema, predicate)
  }
  return predicate
}

/** The `params` of a refinement that is refused with the error of `toError`; `param` is the path of the field. */
export type OwnError = { toError(value: unknown, param: string): GatewayError }

/**
 * Validates a value; messages call it `what` if no field is at fault. Returns the value itself if parsing would not
 * change it, otherwise the parsed value. Throws a 400 naming the field.
 */
export function validate<T>(schema: z.ZodType<T>, value: unknown, what = 'The body'): T {
  if (predicateOf(schema)?.(value)) return value as T
  const parsed = schema.safeParse(value, parsing)
  if (parsed.success) return parsed.data
  throw fieldError(parsed.error.issues[0]!, [], what, schema)
}

/**
 * Validates the body of a request in which null stands for an absent member wherever one is optional, and values may
 * have other forms; see `validate`. `raw`: its text. Returns the body without such nulls and forms, and the text, which
 * lacks them too, as it may be sent on.
 */
export function validateRequest<T, Raw extends Buffer | null>(
  schema: z.ZodType<T>,
  value: unknown,
  raw: Raw,
  what = 'The body',
): { body: T; raw: Raw } {
  if (predicateOf(schema)?.(value) && !hasNull(value)) return { body: value as T, raw }
  const given = inSchemaForm(schema, value)
  const body = validate(schema, given, what)
  const dropped = raw && findDropped(given, body)
  if (dropped) throw unknownFieldError(formatPath(dropped), null)
  return { body, raw: given === value ? raw : edited(raw, value as Json, given as Json) }
}

type Json = Record<string, unknown>

/** A member of an object itself: clients may send names such as `toString`. */
function ownMember<T>(object: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

const droppedName = '__proto__'

/**
 * The path of a member that zod drops for its name, so that nothing has checked it, while the text of the body would be sent
 * with it; null if there is none. What schemas leave open keeps such members.
 */
function findDropped(given: unknown, body: unknown): PropertyKey[] | null {
  if (given === body || typeof given !== 'object' || given === null) return null
  const checked = Object(body) as Json
  if (Object.hasOwn(given, droppedName) && !Object.hasOwn(checked, droppedName)) return [droppedName]
  for (const name in given) {
    const found = findDropped((given as Json)[name], ownMember(checked, name))
    if (found) return [name, ...found]
  }
  return null
}

/** The text of a body with the members that changed; the others keep their characters. */
function edited<Raw extends Buffer | null>(raw: Raw, value: Json, given: Json): Raw {
  if (!raw) return raw
  const changes: Json = {}
  for (const name in value) if (ownMember(given, name) !== value[name]) changes[name] = ownMember(given, name)
  return Buffer.from(editBody(raw, value, changes)) as Raw
}

function fieldError(issue: z.core.$ZodIssue, above: PropertyKey[], what: string, schema: z.ZodType): GatewayError {
  const path = [...above, ...issue.path]
  if (issue.code === 'invalid_union') {
    // The branch with the deepest issue is most likely the intended one.
    const branches = issue.errors.filter(branch => branch.length > 0)
    const depth = (branch: z.core.$ZodIssue[]) => Math.max(...branch.map(({ path: { length } }) => length))
    const meant = branches.sort((a, b) => depth(b) - depth(a))[0]
    if (meant && depth(meant) > 0)
      return fieldError(meant.find(({ path: { length } }) => length > 0)!, path, what, schema)
  }
  const param = formatPath(path)
  const toError = issue.code === 'custom' ? (issue.params as Partial<OwnError> | undefined)?.toError : undefined
  if (toError) return toError(issue.input, param)
  if (issue.code === 'unrecognized_keys') {
    const field = formatPath([...path, issue.keys[0]!])
    return unknownFieldError(field, meantField(issue.keys[0]!, namesAt(schema, path)))
  }
  if (isMissing(issue)) return new GatewayError('missing_field', `\`${param}\` is required.`, { param })
  if (param === '' && issue.code === 'invalid_type')
    return new GatewayError('invalid_request', `${what} must be a JSON object.`)
  const message = sentence(param === '' ? what : `\`${param}\``, issue.message)
  return new GatewayError('invalid_request', message, param === '' ? {} : { param })
}

/** Joins a field's name and the message of its schema: "must be a URL" continues the name, any other message follows a colon. */
function sentence(subject: string, message: string): string {
  const joined = `${subject}${/^(?:must|is|has|cannot) /.test(message) ? '' : ':'} ${message}`
  return joined.endsWith('.') ? joined : `${joined}.`
}

/** The error for a field that there is not; `meant`: the name that it most likely stands for. */
export function unknownFieldError(param: string, meant: string | null): GatewayError {
  const guess = meant === null ? '' : ` Did you mean \`${meant}\`?`
  return new GatewayError('unknown_field', `Unknown field \`${param}\`.${guess}`, { param })
}

const minNameLength = 3

/** Other APIs' names for fields, by the names that they have here. */
const otherNames: Record<string, readonly string[]> = {
  seconds: ['duration', 'duration_seconds', 'length'],
  prompt: ['text', 'input', 'description'],
  input: ['text', 'prompt', 'texts'],
  messages: ['prompt', 'input', 'history'],
  max_tokens: ['max_new_tokens', 'max_output_tokens', 'max_length', 'num_predict'],
  max_output_tokens: ['max_tokens', 'max_completion_tokens', 'max_new_tokens'],
  stop: ['stop_sequences', 'stop_words'],
  stop_sequences: ['stop'],
  size: ['resolution', 'dimensions'],
  resolution: ['size'],
  aspect_ratio: ['ratio'],
  n: ['num_images', 'count', 'num_outputs', 'samples'],
  webhook_url: ['webhook', 'callback_url', 'callback'],
}

/** The one of the known names that an unknown one most likely stands for: misspelt, or as another API calls it. */
export function meantField(given: string, names: readonly string[]): string | null {
  const plain = given.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`).replaceAll('-', '_')
  if (plain !== given && names.includes(plain)) return plain
  const other = names.find(name => Object.hasOwn(otherNames, name) && otherNames[name]!.includes(plain))
  return nearestName(plain, names, minNameLength) ?? other ?? null
}

/** The names that a schema has for the members of the object at a path; of every branch where there are several. */
function namesAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[] {
  const { def } = schema._zod as z.core.$ZodTypes['_zod']
  if ('innerType' in def) return namesAt(def.innerType, path)
  if (def.type === 'pipe') return namesAt(def.in, path)
  if (def.type === 'lazy') return namesAt(def.getter(), path)
  if (def.type === 'union') return def.options.flatMap(option => namesAt(option, path))
  if (def.type === 'array') return path.length === 0 ? [] : namesAt(def.element, path.slice(1))
  if (def.type === 'record') return path.length === 0 ? [] : namesAt(def.valueType, path.slice(1))
  if (def.type !== 'object') return []
  if (path.length === 0) return Object.keys(def.shape)
  const member = ownMember(def.shape, String(path[0]))
  return member === undefined ? [] : namesAt(member, path.slice(1))
}

function isMissing(issue: z.core.$ZodIssue): boolean {
  if (issue.input === undefined) return true
  // A discriminated union reports a missing discriminator as an invalid one.
  if (issue.code !== 'invalid_union' || issue.errors.length > 0) return false
  return Object(issue.input)[issue.path.at(-1)!] === undefined
}

type Schema = z.core.$ZodType
/** Returns a value in the form of its schema; the value itself if it has it. */
type Rewrite = (value: unknown) => unknown

/** The rewrite of each schema, compiled on first use; null if the schema has nothing to change. */
const rewrites = new WeakMap<Schema, Rewrite | null>()

/**
 * A value without the members that are null although their schema lets them be absent, but not null: clients that write
 * all their fields, as those of typed languages do, mean by it that there is none. A member that may be null keeps it,
 * except at the top level, since providers refuse it there. Other forms (`other-forms.ts`) become that of the schema.
 * Objects that have neither are returned as they are, others are copied.
 */
export function inSchemaForm(schema: Schema, value: unknown): unknown {
  const rewritten = rewriteOf(schema)?.(value) ?? value
  const { def } = schema._zod as z.core.$ZodTypes['_zod']
  if (def.type !== 'object' || !hasNull(rewritten)) return rewritten
  const given = { ...(rewritten as Json) }
  for (const name in given) if (given[name] === null && isOptional(ownMember(def.shape, name))) delete given[name]
  return given
}

/** Whether a member of an object is null. */
function hasNull(value: unknown): boolean {
  if (!isObject(value)) return false
  for (const name in value) if (value[name] === null) return true
  return false
}

/** Not one with a default, which may mean something else than null. */
function isOptional(member: Schema | undefined): boolean {
  return member?._zod.def.type === 'optional'
}

function rewriteOf(schema: Schema): Rewrite | null {
  let rewrite = rewrites.get(schema)
  if (rewrite === undefined) {
    rewrite = compileRewrite(schema)
    rewrites.set(schema, rewrite)
  }
  return rewrite
}

function compileRewrite(schema: Schema): Rewrite | null {
  const toSchemaForm = otherFormOf(schema)
  const inner = compileInner(schema)
  if (!toSchemaForm || !inner) return toSchemaForm ?? inner
  return value => inner(toSchemaForm(value))
}

function compileInner(schema: Schema): Rewrite | null {
  const { def } = schema._zod as z.core.$ZodTypes['_zod']
  switch (def.type) {
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'nonoptional':
    case 'readonly':
      return rewriteOf(def.innerType)
    case 'pipe':
      return rewriteOf(def.in)
    case 'array':
      return compileArray(def.element)
    case 'record':
      return compileRecord(def.valueType)
    case 'object':
      return compileObject(def.shape)
    case 'union':
      return 'discriminator' in def
        ? compileDiscriminatedUnion(def as z.core.$ZodDiscriminatedUnionDef)
        : compileUnion(def.options)
    default:
      return null
  }
}

function compileArray(element: Schema): Rewrite | null {
  const rewrite = rewriteOf(element)
  if (!rewrite) return null
  return value => {
    if (!Array.isArray(value)) return value
    let changed: unknown[] | null = null
    for (let index = 0; index < value.length; index++) {
      const item = rewrite(value[index])
      if (item === value[index]) continue
      changed ??= [...value]
      changed[index] = item
    }
    return changed ?? value
  }
}

function compileRecord(valueType: Schema): Rewrite | null {
  const rewrite = rewriteOf(valueType)
  if (!rewrite) return null
  return value => (isObject(value) ? withChanged(value, Object.keys(value), rewrite) : value)
}

function withChanged(value: Json, names: readonly string[], rewrite: Rewrite): Json {
  let changed: Json | null = null
  for (const name of names) {
    const member = rewrite(value[name])
    if (member === value[name]) continue
    changed ??= { ...value }
    changed[name] = member
  }
  return changed ?? value
}

/** `isDropped`: whether its null means that it is absent. */
type Member = { name: string; isDropped: boolean; rewrite: Rewrite | null }

function compileObject(shape: z.core.$ZodShape): Rewrite | null {
  const members: Member[] = []
  for (const [name, schema] of Object.entries(shape)) {
    const rewrite = rewriteOf(schema)
    const isDropped = schema._zod.optin === 'optional' && !acceptsOf(schema)(null)
    if (isDropped || rewrite) members.push({ name, isDropped, rewrite })
  }
  if (members.length === 0) return null
  return value => {
    if (!isObject(value)) return value
    let changed: Json | null = null
    for (const { name, isDropped, rewrite } of members) {
      const member = value[name]
      if (member === null && isDropped) {
        changed ??= { ...value }
        delete changed[name]
      } else if (rewrite && member !== undefined) {
        const rewritten = rewrite(member)
        if (rewritten === member) continue
        changed ??= { ...value }
        changed[name] = rewritten
      }
    }
    return changed ?? value
  }
}

function compileDiscriminatedUnion({ options, discriminator }: z.core.$ZodDiscriminatedUnionDef): Rewrite | null {
  const branches = new Map<unknown, Rewrite>()
  for (const option of options) {
    const rewrite = rewriteOf(option)
    if (rewrite) for (const value of option._zod.propValues?.[discriminator] ?? []) branches.set(value, rewrite)
  }
  if (branches.size === 0) return null
  return value => (isObject(value) ? (branches.get(value[discriminator] ?? undefined)?.(value) ?? value) : value)
}

/**
 * The first option that accepts a rewritten value is meant. If none does, it is refused, for its fault rather than for
 * what would have been rewritten.
 */
function compileUnion(options: readonly Schema[]): Rewrite | null {
  const branches = options.map(option => ({ rewrite: rewriteOf(option), accepts: acceptsOf(option) }))
  if (branches.every(({ rewrite }) => rewrite === null)) return null
  return value => {
    if (typeof value !== 'object' || value === null) return value
    let refused: unknown = value
    for (const { rewrite, accepts } of branches) {
      const rewritten = rewrite ? rewrite(value) : value
      if (accepts(rewritten)) return rewritten
      if (refused === value) refused = rewritten
    }
    return refused
  }
}

function acceptsOf(schema: Schema): Predicate {
  return compilePredicate(schema) ?? (value => (schema as z.ZodType).safeParse(value).success)
}
