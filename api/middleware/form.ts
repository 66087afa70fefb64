import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import type { StoredFile } from '../../shared/jobs/files.ts'
import { storeUpload } from '../../shared/media/uploads.ts'
import type { Services } from '../../shared/services.ts'
import type { Endpoint, Form, Upload } from '../endpoint.ts'
import type { State } from '../state.ts'
import { holdBody } from './body.ts'
import { isMultipart, readMultipart, unknown } from './multipart.ts'

export const isForm: (request: IncomingMessage) => boolean = isMultipart

/**
 * Takes in the form of a request: its files go into storage as they arrive, its fields become the body. Throws 400, 413 and
 * 415 naming the field.
 */
export async function takeForm({ body }: Endpoint, form: Form, state: State): Promise<void> {
  const { services, known } = state
  const { fields, files, digest } = await readMultipart<StoredFile>(state.request, {
    files: Object.fromEntries(form.files.map(({ name, most = 1 }) => [name, most])),
    lists: form.lists ?? [],
    maxFieldBytes: form.maxFieldBytes,
    maxFields: form.maxFields,
    take: part => {
      const { mostBytes } = form.files.find(({ name }) => name === part.name)!
      const storing = form.store
        ? form.store(services, known, part)
        : storeUpload(services, known.policy, part, mostBytes)
      return storing.catch(error => Promise.reject(naming(error, part.name)))
    },
    held: holdBody(state),
    undo: stored => services.files.remove(stored),
  })
  state.raw = digest
  state.uploads = files
  for (const { name, required } of form.files)
    if (required && !files.some(file => file.name === name))
      throw new GatewayError('missing_field', `\`${name}\` is required.`, { param: name })
  for (const [field, name] of Object.entries(form.names ?? {}))
    if (Object.hasOwn(fields, field) && files.some(file => file.name === name)) throw unknown(field)
  if (!form.toBody || !body) for (const name of Object.keys(fields)) throw unknown(name)
  else state.body = await asForm(form, async () => validate(body, await form.toBody!(fields, files, services)))
}

/** The address of a form's file is used at once. */
const addressMs = 5 * 60_000

/** The addresses at which the rest of the gateway finds a form's files of one name. */
export function addressesOf({ blobs, clock }: Services, uploads: readonly Upload[], name: string): Promise<string[]> {
  const files = uploads.filter(upload => upload.name === name).map(({ file }) => file)
  return Promise.all(
    files.map(({ storageKey, contentType }) =>
      blobs.signedUrl({ key: storageKey, contentType }, clock.now() + addressMs),
    ),
  )
}

const number = /^[+-]?\d+(?:\.\d+)?$/
const flags = new Map<unknown, boolean>([
  ['true', true],
  ['false', false],
])

/** A form's texts with those of some fields read as what they mean. One without a meaning stays, so that it is refused. */
export function typed(
  fields: Record<string, unknown>,
  types: { numbers?: string[]; flags?: string[] },
): Record<string, unknown> {
  const read = ([name, value]: [string, unknown]) => {
    if (types.numbers?.includes(name) && number.test(String(value))) return [name, Number(value)]
    return [name, types.flags?.includes(name) ? (flags.get(value) ?? value) : value]
  }
  return Object.fromEntries(Object.entries(fields).map(read))
}

/**
 * A form's texts with an object in place of the fields that write it: `name[key]` for each key, as OpenAI's SDKs do, or one
 * `name` of JSON. Text that is neither stays as it is.
 */
export function withObject(
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
    return { ...rest, [name]: typed(object, types) }
  }
  const text = rest[name]
  return typeof text === 'string' && text.startsWith('{') ? { ...rest, [name]: jsonOf(text) ?? text } : rest
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Runs work over the body that a form stands for: errors name the form's own fields. */
export async function asForm<T>({ names = {} }: Form, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param === null) throw error
    const [first = '', ...rest] = error.param.split('.')
    if (!Object.hasOwn(names, first)) throw error
    const name = names[first]!
    const param = [name, ...rest].join('.')
    throw renamed(error, param, error.message.replaceAll(`\`${error.param}\``, `\`${param}\``))
  }
}

/** Removes the files of a request that came to nothing. */
export async function dropUploads({ services, uploads }: State): Promise<void> {
  if (uploads.length === 0) return
  await services.files
    .remove(uploads.map(({ file }) => file))
    .catch(error => services.log.warn({ err: error }, 'an upload stays until it expires'))
}

function naming(error: unknown, param: string): unknown {
  if (!(error instanceof GatewayError) || error.param !== null) return error
  return renamed(error, param, error.message)
}

function renamed({ code, headers, metadata, cause }: GatewayError, param: string, message: string): GatewayError {
  return new GatewayError(code, message, { param, headers, ...(metadata && { metadata }), cause })
}
