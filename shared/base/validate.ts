import type { z } from 'zod'
import { GatewayError } from './errors.ts'
import { issueText } from './issue-text.ts'
import { formatPath } from './json.ts'
import { editBody } from './json-member.ts'
import { hasNull, withoutNulls } from './null-members.ts'
import { compilePredicate, type Predicate } from './predicate.ts'

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
  throw fieldError(parsed.error.issues[0]!, [], what)
}

/**
 * Validates the body of a request in which null stands for an absent member wherever one is optional; see `validate`.
 * `raw`: its text. Returns the body without such nulls, and the text, which lacks them too, as it may be sent on.
 */
export function validateRequest<T, Raw extends Buffer | null>(
  schema: z.ZodType<T>,
  value: unknown,
  raw: Raw,
  what = 'The body',
): { body: T; raw: Raw } {
  if (predicateOf(schema)?.(value) && !hasNull(value)) return { body: value as T, raw }
  const given = withoutNulls(schema, value)
  const body = validate(schema, given, what)
  return { body, raw: given === value ? raw : edited(raw, value as Json, given as Json) }
}

type Json = Record<string, unknown>

/** The text of a body with the members that changed; the others keep their characters. */
function edited<Raw extends Buffer | null>(raw: Raw, value: Json, given: Json): Raw {
  if (!raw) return raw
  const changes: Json = {}
  for (const name in value) if (given[name] !== value[name]) changes[name] = given[name]
  return Buffer.from(editBody(raw, value, changes)) as Raw
}

function fieldError(issue: z.core.$ZodIssue, above: PropertyKey[], what: string): GatewayError {
  const path = [...above, ...issue.path]
  if (issue.code === 'invalid_union') {
    // The branch with the deepest issue is most likely the intended one.
    const branches = issue.errors.filter(branch => branch.length > 0)
    const depth = (branch: z.core.$ZodIssue[]) => Math.max(...branch.map(({ path: { length } }) => length))
    const meant = branches.sort((a, b) => depth(b) - depth(a))[0]
    if (meant && depth(meant) > 0) return fieldError(meant.find(({ path: { length } }) => length > 0)!, path, what)
  }
  const param = formatPath(path)
  const toError = issue.code === 'custom' ? (issue.params as Partial<OwnError> | undefined)?.toError : undefined
  if (toError) return toError(issue.input, param)
  if (issue.code === 'unrecognized_keys') {
    const field = formatPath([...path, issue.keys[0]!])
    return new GatewayError('unknown_field', `Unknown field \`${field}\`.`, { param: field })
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

function isMissing(issue: z.core.$ZodIssue): boolean {
  if (issue.input === undefined) return true
  // A discriminated union reports a missing discriminator as an invalid one.
  if (issue.code !== 'invalid_union' || issue.errors.length > 0) return false
  return Object(issue.input)[issue.path.at(-1)!] === undefined
}
