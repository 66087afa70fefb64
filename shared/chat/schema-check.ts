import { createContext, Script } from 'node:vm'
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { jsonrepair } from 'jsonrepair'
import { LRUCache } from 'lru-cache'
import { JsonText } from '../providers/profile/json-text.ts'

/**
 * Whether texts are JSON of a schema. Schema and text come from callers and models: what takes too long is stopped, patterns
 * included, and counts as not checked. Nothing is fetched: a schema with a `$ref` to elsewhere is not checked.
 */

const maxSchemaCharacters = 64 * 1024
const maxTextCharacters = 1024 * 1024
/**
 * How long reading a schema may take, once, and checking a text: usually milliseconds. These are times of the clock, which a
 * busy machine must not reach by chance.
 */
const maxCompileMs = 3_000
const maxCheckMs = 250

type Compiled = ValidateFunction | 'unusable'

/** Compiled schemas by their JSON. */
const compiled = new LRUCache<string, { validate: Compiled }>({
  maxSize: 2 * 1024 * 1024,
  sizeCalculation: (_value, schema) => schema.length + 1,
})

/** The result of a check: `json` is the text, or what it was repaired to; `fault` says what is wrong with it. */
export type Checked = { json: string; repaired: boolean } | { fault: string }

/**
 * Checks a text against a schema; null = it cannot be checked. Without a schema, any JSON object is valid. `repairs`: a text
 * that is not valid may be repaired to one that is, where only its form is wrong.
 */
export function checkText(text: string, schema: unknown, repairs: boolean): Checked | null {
  const validate = compile(schema ?? { type: 'object' })
  if (validate === 'unusable' || text.length > maxTextCharacters) return null
  return bounded(() => check(text, validate, repairs), maxCheckMs)
}

function check(text: string, validate: ValidateFunction, repairs: boolean): Checked {
  const fault = faultOf(text, validate)
  if (fault === null) return { json: text, repaired: false }
  if (repairs) {
    for (const candidate of repairsOf(text)) {
      if (faultOf(candidate, validate) === null) return { json: candidate, repaired: true }
    }
  }
  return { fault }
}

const opening = /^\s*[{[]/

/** Texts that may have been meant: the JSON within the text, and either one with its syntax put right. */
function* repairsOf(text: string): Iterable<string> {
  const within = JsonText.of(text, 'any')
  if (within !== text) yield within
  for (const candidate of new Set([within, text])) {
    // Of prose it would make a JSON text.
    const whole = opening.test(candidate) ? repairSyntax(candidate) : null
    if (whole !== null) yield whole
  }
}

/** The JSON with trailing commas, quotes and missing brackets put right; null if that is impossible. */
function repairSyntax(text: string): string | null {
  try {
    return jsonrepair(text)
  } catch {
    return null
  }
}

/** What is wrong with a text; null if it is valid. */
function faultOf(text: string, validate: ValidateFunction): string | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'it is not JSON'
  }
  return validate(value) ? null : describe(validate.errors?.[0])
}

const maxDescription = 300

function describe(error: ErrorObject | undefined): string {
  const place = error?.instancePath ? `\`${error.instancePath}\`` : 'it'
  return `${place} ${error?.message ?? 'is not valid'}`.slice(0, maxDescription)
}

function compile(schema: unknown): Compiled {
  const text = JSON.stringify(schema)
  if (text.length > maxSchemaCharacters) return 'unusable'
  const known = compiled.get(text)
  if (known) return known.validate
  const validate = bounded(() => read(text), maxCompileMs) ?? 'unusable'
  compiled.set(text, { validate })
  return validate
}

/**
 * Each schema has its own instance of Ajv: ids of schemas do not collide, and all memory is freed with it. References stay calls: inlined,
 * a small schema could become a large program. Formats are not checked, as providers do not hold to them.
 */
function read(text: string): Compiled {
  const { $schema: _dialect, ...schema } = JSON.parse(text)
  const options = { strict: false, validateFormats: false, validateSchema: false, meta: false, inlineRefs: false }
  try {
    return new Ajv2020({ ...options, logger: false, code: { optimize: false } }).compile(schema)
  } catch {
    return 'unusable'
  }
}

const task: { run: () => unknown } = { run: () => null }
const context = createContext({ task })
const script = new Script('task.run()')

/** The result of synchronous work; null if it takes longer, or throws. */
function bounded<T>(run: () => T, maxMs: number): T | null {
  task.run = run
  try {
    return script.runInContext(context, { timeout: maxMs }) as T
  } catch {
    return null
  } finally {
    task.run = () => null
  }
}
