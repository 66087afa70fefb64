import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { parseJson } from '../../shared/base/json.ts'
import { unknownFieldError, validateRequest } from '../../shared/base/validate.ts'
import type { StoredFile } from '../../shared/files/files.ts'
import { storeUpload } from '../../shared/files/uploads.ts'
import { closeBody, peek } from '../../shared/io/bytes.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Endpoint, Form, Upload } from '../endpoint.ts'
import type { State } from '../state.ts'
import { type Fields, type FilePart, readMultipart, textError } from './multipart.ts'
import { holdBody } from './read-body.ts'

/**
 * Reads the form of a request: files are stored as they arrive, fields become the body. Throws 400, 413 and 415 naming
 * the field.
 */
export async function receiveForm({ body }: Endpoint, form: Form, state: State): Promise<void> {
  const { services, apiKey } = state
  const {
    fields: sent,
    files,
    digest,
  } = await readMultipart<StoredFile>(state.request, {
    files: Object.fromEntries(form.files.map(({ name, max = 1 }) => [name, max])),
    lists: form.lists ?? [],
    single: body instanceof z.ZodObject ? new Set(Object.keys(body.shape)) : undefined,
    maxFieldBytes: form.maxFieldBytes,
    maxFields: form.maxFields,
    take: async sent => {
      const part = await chosenFile(sent)
      if (part === null) return null
      const { maxBytes } = form.files.find(({ name }) => name === part.name)!
      const stored = form.store
        ? form.store(services, apiKey, part)
        : storeUpload(services, apiKey.policy, part, maxBytes)
      return stored.catch(error => Promise.reject(withParam(error, part.name)))
    },
    held: holdBody(state),
    instead: form.instead,
    undo: stored => services.files.remove(stored),
  })
  const fields = withoutEmpty(sent)
  state.raw = digest
  state.uploads = files
  const hasUrl = form.hasUrl?.(fields) === true
  for (const { name, required } of form.files) {
    if (!required || hasUrl || files.some(file => file.name === name)) continue
    if (Object.hasOwn(fields, name)) throw textError(name)
    throw new GatewayError('missing_field', `\`${name}\` is required.`, { param: name })
  }
  for (const [field, name] of Object.entries(form.names ?? {}))
    if (Object.hasOwn(fields, field) && files.some(file => file.name === name)) throw unknownFieldError(field, null)
  if (!form.toBody || !body) for (const name of Object.keys(fields)) throw unknownFieldError(name, null)
  else
    state.body = await withFormNames(form, async () => {
      const given = await form.toBody!(fields, files, services)
      return validateRequest(body, given, null).body
    })
}

/**
 * Null for the part that pages send of a file field in which nothing was chosen: empty, and without a name
 * (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#constructing-the-form-data-set).
 */
async function chosenFile(part: FilePart): Promise<FilePart | null> {
  if (part.filename !== '') return part
  const { head, body } = await peek(part.body, 1)
  if (head.length > 0) return { name: part.name, filename: '', contentType: part.contentType, body }
  await closeBody(body)
  return null
}

/** Clients of typed languages write all fields of a form, those that are not set as empty text (go-openai, image.go). */
function withoutEmpty(fields: Fields): Fields {
  const given = Object.entries(fields).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.filter(text => text !== '') : value,
  ])
  return Object.fromEntries(given.filter(([, value]) => value!.length > 0))
}

/** The URL of a form's file is used immediately. */
const urlLifetimeMs = 5 * 60_000

/** The URLs at which the gateway itself reads a form's files of one name. */
export function uploadUrls({ blobs, clock }: Platform, uploads: readonly Upload[], name: string): Promise<string[]> {
  const files = uploads.filter(upload => upload.name === name).map(({ file }) => file)
  return Promise.all(
    files.map(({ storageKey, contentType }) =>
      blobs.signedUrl({ key: storageKey, contentType }, clock.now() + urlLifetimeMs),
    ),
  )
}

const number = /^[+-]?\d+(?:\.\d+)?$/
/** Python's `requests` writes `True` and `False`, others numbers. */
const flags = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
])

/** Parses some text fields of a form to their types. Values that do not parse stay, so that validation rejects them. */
export function parseFields(
  fields: Record<string, unknown>,
  types: { numbers?: string[]; flags?: string[] },
): Record<string, unknown> {
  const parse = ([name, value]: [string, unknown]) => {
    if (types.numbers?.includes(name) && number.test(String(value))) return [name, Number(value)]
    return [name, types.flags?.includes(name) ? (flags.get(String(value).toLowerCase()) ?? value) : value]
  }
  return Object.fromEntries(Object.entries(fields).map(parse))
}

/**
 * Merges the form fields of an object into one: `name[key]` for each key, as OpenAI's SDKs send it, or one `name` with
 * JSON. Text in neither form stays as it is.
 */
export function mergeObjectField(
  fields: Record<string, unknown>,
  name: string,
  types: { numbers?: string[] } = {},
): Record<string, unknown> {
  const isPart = (field: string) => field.startsWith(`${name}[`) && field.endsWith(']')
  const { parts = [], others = [] } = Object.groupBy(Object.entries(fields), ([field]) =>
    isPart(field) ? 'parts' : 'others',
  )
  const rest = Object.fromEntries(others)
  if (parts.length > 0) {
    const object = Object.fromEntries(parts.map(([field, value]) => [field.slice(name.length + 1, -1), value]))
    return { ...rest, [name]: parseFields(object, types) }
  }
  const text = rest[name]
  return typeof text === 'string' && text.startsWith('{') ? { ...rest, [name]: jsonOf(text) ?? text } : rest
}

/** Null for text that is not JSON, or beyond the limits of a body. */
function jsonOf(text: string): unknown {
  try {
    return parseJson(Buffer.from(text), 'The field')
  } catch {
    return null
  }
}

/** Runs work over the JSON body of a form: errors name the form's own fields. */
export function withFormNames<T>({ names = {} }: Form, work: () => T | Promise<T>): Promise<T> {
  return withFieldNames(names, work)
}

/** Runs work whose errors name fields by the names that the caller sent them under. */
export async function withFieldNames<T>(names: Record<string, string>, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param === null) throw error
    const [first = '', ...rest] = error.param.split('.')
    if (!Object.hasOwn(names, first)) throw error
    const name = names[first]!
    const param = [name, ...rest].join('.')
    throw copyWithParam(error, param, error.message.replaceAll(`\`${error.param}\``, `\`${param}\``))
  }
}

/** Deletes the files of a failed request. */
export async function deleteUploads({ services, uploads }: State): Promise<void> {
  if (uploads.length === 0) return
  await services.files
    .remove(uploads.map(({ file }) => file))
    .catch(error => services.log.warn({ err: error }, 'an upload stays until it expires'))
}

function withParam(error: unknown, param: string): unknown {
  if (!(error instanceof GatewayError) || error.param !== null) return error
  return copyWithParam(error, param, error.message)
}

function copyWithParam({ code, headers, metadata, cause }: GatewayError, param: string, message: string): GatewayError {
  return new GatewayError(code, message, { param, headers, ...(metadata && { metadata }), cause })
}
