import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { isAlias, LineCounter, parseDocument } from 'yaml'
import { z } from 'zod'
import { isObject } from '../../../shared/base/is-object.ts'
import { issueText, keyText } from '../../../shared/base/issue-text.ts'
import { nearestName } from '../../../shared/base/near-misses.ts'
import { oneLine } from '../../../shared/base/one-line.ts'
import { aliasArms, modelOverride, providerOverride, serverProtocol } from '../../../shared/catalog/overrides.ts'
import { resolveReferences } from '../../../shared/catalog/request-additions.ts'
import { deployment, modelRow } from '../../../shared/catalog/schema.ts'
import { keyPolicy } from '../../../shared/keys/key-requests.ts'
import { presetConfig, presetName } from '../../../shared/presets/preset-config.ts'
import { protocols } from '../../../shared/providers/protocols.ts'
import { Secret } from './secret.ts'

/** All faults of a file, one line each. */
class ApplyFileError extends Error {
  override name = 'ApplyFileError'
  readonly faults: readonly string[]
  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

const maxFileBytes = 4 * 1024 * 1024
const maxSecretBytes = 64 * 1024
/** Anchors of YAML that are used again and again would make a small file large. */
const maxAliases = 100

const address = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be lower-case letters, digits, _ and -')
/** A secret is never in the file itself. */
const secret = z.union([z.string(), z.strictObject({ file: z.string().min(1) })])
const headers = z.record(z.string(), z.string())
const offer = deployment.extend({ headers: headers.optional() })

const { shape: row } = modelRow
/** A model that the file adds: a row of the catalog file, most of which may be left out. */
const newModel = z.strictObject({
  aliases: row.aliases,
  name: row.name.optional(),
  type: row.type.default('chat'),
  endpoint: row.endpoint,
  owned_by: row.owned_by.optional(),
  created: row.created.default(0),
  description: row.description.default(''),
  context_length: row.context_length.default(null),
  max_output_tokens: row.max_output_tokens.default(null),
  input_modalities: row.input_modalities.default(['text']),
  output_modalities: row.output_modalities.default(['text']),
  supported_parameters: row.supported_parameters.default([]),
  quality: row.quality.default(null),
  task_qualities: row.task_qualities,
  distillable: row.distillable,
  expires_on: row.expires_on.default(null),
  disabled: row.disabled,
  price_source: row.price_source.default(null),
  price_as_of: row.price_as_of.default(null),
  providers: z.array(offer).min(1),
  kind: row.kind,
})
/** A change of a model that the catalog has. */
const modelChange = modelOverride.extend({
  requests: z.record(z.string(), offer.pick({ headers: true, parameters: true })).optional(),
})

const key = keyPolicy.extend({
  environment: z.enum(['live', 'test']).default('live'),
  disabled: z.boolean().optional(),
  secret: secret.optional(),
})

const organisation = z.strictObject({
  /** The id of one that exists: the file makes keys and presets in it, and does not own it. */
  id: z.string().min(1).max(100).optional(),
  name: oneLine(z.string().trim().min(1).max(200)).optional(),
  keys: z.record(address, key).default({}),
  presets: z.record(presetName, presetConfig).default({}),
})

const newProvider = providerOverride.extend({
  protocol: z.enum(Object.keys(protocols) as [string, ...string[]]).default(serverProtocol),
  auth: providerOverride.shape.auth.default('bearer'),
})

const applyFile = z.strictObject({
  /** Names the set of what the file makes: another file with another name leaves it alone. */
  owner: address.default('default'),
  providers: z.record(z.string(), newProvider).default({}),
  provider_keys: z.record(z.string(), z.array(secret).min(1).max(20)).default({}),
  models: z.record(row.id, z.union([newModel, modelChange])).default({}),
  aliases: z.record(row.id, z.union([row.id, aliasArms])).default({}),
  organisations: z.record(address, organisation).default({}),
})

type Parsed = z.output<typeof applyFile>
/** A file with its references resolved: secrets are `Secret`s, headers from references too. */
export type ApplyFile = Omit<Parsed, 'provider_keys' | 'organisations'> & {
  provider_keys: Record<string, Secret[]>
  organisations: Record<string, ApplyOrganisation>
}
export type ApplyKey = Omit<z.output<typeof key>, 'secret'> & { secret?: Secret | undefined }
type ApplyOrganisation = Omit<z.output<typeof organisation>, 'keys'> & { keys: Record<string, ApplyKey> }

type Read = { variable: (name: string) => string | undefined; folder: string }

/** Reads a file, YAML or JSON, and what it refers to. Throws an ApplyFileError that lists every fault with its line. */
export function readApplyFile(path: string, variable: Read['variable']): ApplyFile {
  const text = path === '-' ? readFileSync(0, 'utf8') : readBounded(path, maxFileBytes)
  return parseApplyFile(text, { variable, folder: resolve(path === '-' ? '.' : path, path === '-' ? '.' : '..') })
}

function readBounded(path: string, maxBytes: number): string {
  let size: number
  try {
    const file = statSync(path)
    if (!file.isFile()) throw new Error('it is not a file')
    size = file.size
    if (size <= maxBytes) return readFileSync(path, 'utf8')
  } catch (error) {
    throw new ApplyFileError([`${path} cannot be read: ${(error as Error).message}`])
  }
  throw new ApplyFileError([`${path} has ${size} bytes; at most ${maxBytes} are read`])
}

/** As `readApplyFile`, of a text. */
export function parseApplyFile(text: string, read: Read): ApplyFile {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, merge: true })
  if (document.errors.length > 0)
    throw new ApplyFileError(
      document.errors.map(({ message, pos }) => `${lines.linePos(pos[0]).line}: ${message.split('\n')[0]}`),
    )
  const json: unknown = document.toJS({ maxAliasCount: maxAliases }) ?? {}
  const place = (path: readonly PropertyKey[]) => {
    const line = lineAt(document, lines, path)
    return line === null ? '' : `line ${line}: `
  }
  const parsed = applyFile.safeParse(withPriceTexts(json), { error: issueText })
  if (!parsed.success)
    throw new ApplyFileError(withModelIssues(parsed.error.issues, json).flatMap(issue => faultsOf(issue, json, place)))
  const faults: string[] = []
  const resolved = resolveFile(parsed.data, read, (path, message) =>
    faults.push(`${place(path)}${path.join('.')}: ${message}`),
  )
  if (faults.length > 0) throw new ApplyFileError(faults)
  return resolved
}

type Document = ReturnType<typeof parseDocument>

/** The line of a member, or of the nearest one around it; null if it is not known. */
export function lineAt(document: Document, lines: LineCounter, path: readonly PropertyKey[]): number | null {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as { range?: [number, number, number] } | undefined
    const found = isAlias(node) ? node.resolve(document) : node
    if (found?.range) return lines.linePos(found.range[0]).line
  }
  return null
}

type Issue = z.core.$ZodIssue

/** The issues of a file; for models those of the form that they have: one with `providers` is new, any other is a change. */
function withModelIssues(issues: readonly Issue[], json: unknown): Issue[] {
  const seen = new Set<PropertyKey>()
  return issues.flatMap(issue => {
    const [section, id] = issue.path
    if (section !== 'models' || id === undefined || issue.code === 'invalid_key') return [issue]
    if (seen.has(id)) return []
    seen.add(id)
    const value = valueAt(json, [section, id])
    const form = isObject(value) && Object.hasOwn(value, 'providers') ? newModel : modelChange
    const own = form.safeParse(withPriceTexts(value), { error: issueText }).error?.issues
    return own ? own.map(one => ({ ...one, path: [section, id, ...one.path] })) : [issue]
  })
}

/** The faults of an issue, with the name that may be meant by an unknown one. */
function faultsOf(issue: Issue, json: unknown, place: (path: readonly PropertyKey[]) => string): string[] {
  const { path, message } = issue
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map(name => {
      const at = [...path, name]
      const meant = nearestName(name, namesAt(applyFile, path), minMeantLength)
      return `${place(at)}${at.join('.')}: there is no such member${meant === null ? '' : `; did you mean "${meant}"?`}`
    })
  const isMissing = issue.code === 'invalid_type' && path.length > 0 && valueAt(json, path) === undefined
  return [`${place(path)}${path.join('.') || 'the file'}: ${isMissing ? 'is required' : (keyText(issue) ?? message)}`]
}

function valueAt(json: unknown, path: readonly PropertyKey[]): unknown {
  const memberOf = (value: unknown, name: PropertyKey) =>
    typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[name] : undefined
  return path.reduce<unknown>(memberOf, json)
}

const minMeantLength = 4

/** The members that the object at a path may have. */
function namesAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodNullable)
    return namesAt(schema.unwrap() as z.ZodType, path)
  if (schema instanceof z.ZodUnion) return schema.options.flatMap(one => namesAt(one as z.ZodType, path))
  if (schema instanceof z.ZodPipe) return namesAt(schema.out as z.ZodType, path)
  const [name, ...rest] = path
  if (schema instanceof z.ZodArray) return namesAt(schema.element as z.ZodType, rest)
  if (schema instanceof z.ZodRecord) return name === undefined ? [] : namesAt(schema.valueType as z.ZodType, rest)
  if (!(schema instanceof z.ZodObject)) return []
  if (name === undefined) return Object.keys(schema.shape)
  const member: z.ZodType | undefined = schema.shape[name as string]
  return member ? namesAt(member, rest) : []
}

/** Members of a price that are counts, not amounts. */
const counts = new Set(['tokens', 'max_credits'])

/** Prices may be written as numbers; the catalog has them as decimal texts. */
function withPriceTexts(value: unknown, isPrice = false): unknown {
  if (Array.isArray(value)) return value.map(one => withPriceTexts(one, isPrice))
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => {
        const isNumber = isPrice && typeof one === 'number' && !counts.has(name)
        return [name, isNumber ? decimal(one) : withPriceTexts(one, isPrice || name === 'price' || name === 'prices')]
      }),
    )
  return value
}

/** A number as a decimal text without an exponent. */
export function decimal(amount: number): string {
  return amount.toFixed(12).replace(/\.?0+$/, '')
}

type AddFault = (path: readonly PropertyKey[], message: string) => void

/** Replaces references by what they refer to. */
function resolveFile(file: Parsed, read: Read, addFault: AddFault): ApplyFile {
  const secretAt = (path: PropertyKey[], given: z.output<typeof secret>) => readSecret(given, read, path, addFault)
  return {
    ...file,
    provider_keys: Object.fromEntries(
      Object.entries(file.provider_keys).map(([name, keys]) => [
        name,
        keys.flatMap((one, index) => secretAt(['provider_keys', name, index], one) ?? []),
      ]),
    ),
    models: Object.fromEntries(
      Object.entries(file.models).map(([id, model]) => [id, resolveModel(model, ['models', id], read, addFault)]),
    ),
    organisations: Object.fromEntries(
      Object.entries(file.organisations).map(([name, one]) => {
        const keys = Object.entries(one.keys).map(([keyName, { secret: given, ...policy }]) => {
          const found = given && secretAt(['organisations', name, 'keys', keyName, 'secret'], given)
          return [keyName, { ...policy, ...(found && { secret: found }) }] as const
        })
        if (one.id === undefined && one.name === undefined)
          addFault(['organisations', name, 'name'], 'is required; or `id` of an organisation that exists')
        if (one.id !== undefined && one.name !== undefined)
          addFault(['organisations', name, 'name'], 'cannot be given together with `id`: the file does not own it')
        return [name, { ...one, keys: Object.fromEntries(keys) }]
      }),
    ),
  }
}

/** A reference to a variable or a file. A key that is written into the file itself is refused. */
function readSecret(
  given: z.output<typeof secret>,
  read: Read,
  path: PropertyKey[],
  addFault: AddFault,
): Secret | null {
  const fail = (message: string) => {
    addFault(path, message)
    return null
  }
  if (typeof given !== 'string') {
    try {
      const text = readBounded(resolve(read.folder, given.file), maxSecretBytes).trim()
      return isSecret(text)
        ? new Secret(text)
        : fail(`the file ${given.file} has no key: printable ASCII without spaces`)
    } catch (error) {
      return fail((error as Error).message)
    }
  }
  if (!given.includes('${'))
    return fail(`must be a reference, \${NAME} or {file: path}: keys do not belong into the file`)
  const missing: string[] = []
  const text = resolveReferences(given, read.variable, name => missing.push(name))
  if (missing.length > 0) return fail(`${missing.join(', ')} is not set`)
  return isSecret(text) ? new Secret(text) : fail('has characters that no key has')
}

const isSecret = (text: string) => /^[\x21-\x7e]{1,4000}$/.test(text)

function resolveModel(
  model: Parsed['models'][string],
  path: PropertyKey[],
  read: Read,
  addFault: AddFault,
): typeof model {
  const resolveHeaders = <Offer extends { headers?: Record<string, string> | undefined }>(
    one: Offer,
    at: PropertyKey[],
  ): Offer => {
    if (!one.headers) return one
    const values = Object.entries(one.headers).map(([name, text]) => {
      const missing: string[] = []
      const value = resolveReferences(text, read.variable, variable => missing.push(variable))
      const headerPath = [...at, 'headers', name]
      if (missing.length > 0) addFault(headerPath, `${missing.join(', ')} is not set`)
      const isReference = text.replaceAll('$${', '').includes('${')
      return [name.toLowerCase(), isReference ? new Secret(value) : value] as const
    })
    const plain = values.map(([name, value]) => [name, value instanceof Secret ? value.value : value] as const)
    for (const issue of deployment.shape.headers.safeParse(Object.fromEntries(plain)).error?.issues ?? [])
      addFault([...at, 'headers', issue.path[0] ?? ''], keyText(issue) ?? issue.message)
    return { ...one, headers: Object.fromEntries(values) as unknown as Record<string, string> }
  }
  if ('providers' in model)
    return {
      ...model,
      providers: model.providers.map((one, index) => resolveHeaders(one, [...path, 'providers', index])),
    }
  if (!('requests' in model) || !model.requests) return model
  const requests = Object.entries(model.requests).map(
    ([name, one]) => [name, resolveHeaders(one, [...path, 'requests', name])] as const,
  )
  return { ...model, requests: Object.fromEntries(requests) }
}
