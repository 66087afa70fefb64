import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { nanoFromPico, type PicoPerUnit, picoPerUnit, withMargin } from '../base/money.ts'
import { alsoTaking } from '../base/other-forms.ts'
import { mediaProviderPreferences } from '../catalog/provider-preferences.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'

/** Shared parts of the media kinds: references, limits and prices. */

export type MediaType = 'image' | 'audio' | 'video' | 'document'

/**
 * A URL in a body: its field and expected media type; a document may be an image as well. `measured` = its duration, or the
 * number of its pages, is needed before the start.
 */
export type ReferenceField = {
  field: string
  url: string
  type: MediaType
  measured: boolean
  /** Overrides the usual size limit of its media type. */
  maxBytes?: number
  /** For audio: whether any format with sound is accepted, also a video; otherwise the usual ones without a picture. */
  anySound?: boolean
}

/**
 * The file of a reference, copied to our storage. `durationS` and `pages` are set only if they were measured; for `pages`
 * null also means that they cannot be counted.
 */
export type Reference = {
  storageKey: string
  contentType: string
  bytes: number
  filename: string
  durationS: number | null
  pages?: number | null
}
/** By field name, e.g. `start_image_url`, `input_references.0`. */
export type References = { [field: string]: Reference }

/** An output file of a provider: a URL, or inline bytes. */
export type ProviderFile<Role extends string = string> = { role: Role } & (
  | { url: string }
  | { bytes: Uint8Array; contentType: string }
)
/** The output of finished work. `durationS` as the provider states it, otherwise null. */
export type MediaOutput<Role extends string = string> = { files: ProviderFile<Role>[]; durationS: number | null }

/** The price of a job: charged at creation, or held until its final cost is known. Nano-dollars. */
export type Quote = { chargeNano: bigint } | { holdNano: bigint }

/** The billed quantity of a held job: a length in seconds, or the provider's invoice in its credits. */
export type Invoice = { seconds: number | null; credits: number | null }

/** A queued media kind. Pure: dependencies are passed in. */
export type QueuedKindRow<Request, Input> = {
  /** `object` of its jobs. */
  object: string
  idPrefix: 'job' | 'mesh'
  path: string
  /** The route that lists its models. */
  modelsPath: string
  type: ModelRow['type']
  /** Validates the route's body; also the source of the OpenAPI document. */
  request: z.ZodObject & z.ZodType<Request>
  /** Every URL in the body. */
  references(request: Request): ReferenceField[]
  /**
   * Converts the body to one model's input, with defaults applied. Throws a GatewayError 400 naming the field the model
   * does not support. Called without references (`references` null) to choose a model, and again with them.
   */
  input(request: Request, model: ModelRow, references: References | null): Input
  quote(input: Input, deployment: Deployment, marginPpm: bigint, references: References): Quote
  /**
   * The cost of a held job, in nano-dollars; null if the invoice does not determine it. Absent for kinds charged at
   * creation.
   */
  cost?(input: Input, deployment: Deployment, marginPpm: bigint, invoice: Invoice): bigint | null
  /** Fields of the kind's own model list beside `id`. */
  listed: readonly string[]
}

/** OpenAI's limit of an `image_url` (`ImageRefParam` of https://github.com/openai/openai-openapi). */
const maxUrlLength = 20_971_520
/** An upload's id in place of its URL. */
export const uploadId = /^upl_\w+$/
/** The id of a file of `/v1/files`, in place of the URL of a document. */
export const documentId = /^file-\w+$/

const referenceIds = { image: 'ImageReference', audio: 'AudioReference', video: 'VideoReference' }
const references = { image: reference('image'), audio: reference('audio'), video: reference('video') }

/**
 * The schema of a reference: an https URL, an upload's URL or id, or a data: URI; as a string, in OpenRouter's object form
 * (`{type: 'image_url', image_url: {url}}`), or in OpenAI's (`{image_url}` or `{file_id}`).
 */
export function referenceTo(type: keyof typeof references) {
  return references[type]
}

function reference(type: keyof typeof referenceIds) {
  const url = z.string().min(1).max(maxUrlLength)
  const name = `${type}_url` as const
  const part = z
    .strictObject({
      type: z.literal(name).optional(),
      [name]: z.union([url, z.strictObject({ url })]).optional(),
      file_id: z.string().max(200).regex(uploadId, 'must be the id of an upload').optional(),
    })
    .refine(value => (value[name] === undefined) !== (value.file_id === undefined), {
      message: `must have either \`${name}\` or \`file_id\``,
    })
  const read = (value: string | z.infer<typeof part>) => {
    if (typeof value === 'string') return value
    const link = (value[name] ?? value.file_id) as string | { url: string }
    return typeof link === 'string' ? link : link.url
  }
  return z
    .union([url, part])
    .transform(read)
    .meta({ id: referenceIds[type], description: 'An https URL, an upload’s URL or id, or a `data:` URI.' })
}

export const maxReferences = 10

/** Text stored with a job: Postgres cannot store NUL. */
const storedText = z.string().refine(text => !text.includes('\0'), 'has a NUL character')

/** For JSON Schema: exactly one of these sets of fields is required. Enforced by each kind's `input`. */
export function exactlyOneOf(...sets: string[][]): { required: string[] }[] {
  return sets.map(required => ({ required }))
}

const maxPairs = 16

/**
 * What OpenRouter's clients send to every route of media (@openrouter/sdk, models/imagegenerationrequest.ts and others):
 * preferences, and members that only name a request there.
 */
export const ofOpenRouter = {
  provider: mediaProviderPreferences.optional().describe('Provider preferences.'),
  session_id: z.string().max(1_000).optional().meta({ 'x-internal': true }),
  trace: z.record(z.string(), z.unknown()).optional().meta({ 'x-internal': true }),
}

export type OfOpenRouter = { [Name in keyof typeof ofOpenRouter]?: z.infer<(typeof ofOpenRouter)[Name]> }

/** The members of a media request that have no effect, and of which its answer says so. */
export function membersWithoutEffect({ provider, session_id, trace }: OfOpenRouter): string[] {
  const given = { session_id, trace, 'provider.options': provider?.options }
  return Object.entries(given).flatMap(([name, value]) => (value ? [name] : []))
}

/**
 * The resolution of a video. Others write it in capitals: `4K` (@openrouter/sdk, VideoGenerationRequest), `1080P`
 * (platform.minimax.io, video generation).
 */
export const resolution = alsoTaking(z.string().regex(/^\d{3,4}p$|^[248]k$/, 'such as 720p, 1080p, 4k'), value =>
  typeof value === 'string' ? value.toLowerCase() : value,
)

export const common = {
  ...ofOpenRouter,
  model: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('A slug of the route’s model list. Without it, the first that takes the input.'),
  webhook_url: storedText.min(1).max(2_048).optional().describe('Where the finished job is pushed to.'),
  metadata: z
    .record(storedText.min(1).max(64), storedText.max(512))
    .refine(pairs => Object.keys(pairs).length <= maxPairs, `must have at most ${maxPairs} pairs`)
    .meta({ maxProperties: maxPairs, description: 'Your own labels, kept with the object.' })
    .optional(),
}

/** The reference of one field, if the body has it. */
export function fieldOf(field: string, url: string | undefined, type: MediaType, measured = false): ReferenceField[] {
  return url === undefined ? [] : [{ field, url, type, measured }]
}

/** The references of a list field. */
export function fieldsOf(field: string, urls: string[] | undefined, type: MediaType): ReferenceField[] {
  return (urls ?? []).map((url, i) => ({ field: `${field}.${i}`, url, type, measured: false }))
}

export function unsupported(model: ModelRow, param: string, problem: string): GatewayError {
  return new GatewayError('unsupported_capability', `${model.id} ${problem}.`, { param })
}

/** A list in the model's row, e.g. its `resolutions`; empty if it has none. */
export function listOf<T = string>(model: ModelRow, name: string): T[] {
  const value = (model.kind as Record<string, unknown> | undefined)?.[name]
  return Array.isArray(value) ? (value as T[]) : []
}

/** What is wrong with a value that a model does not offer: names those that it does. */
export function notOffered(field: string, offered: readonly (string | number)[]): string {
  return `accepts only these values of \`${field}\`: ${offered.join(', ')}`
}

/**
 * Returns the requested option of a model's list, or its first. Throws 400 naming the field if the list does not
 * contain it.
 */
export function chooseOption(model: ModelRow, list: string, field: string, wanted: string | undefined): string | null {
  const offered = listOf(model, list)
  if (wanted === undefined) return offered[0] ?? null
  if (offered.includes(wanted)) return wanted
  const problem = offered.length > 0 ? notOffered(field, offered) : `does not take \`${field}\``
  throw unsupported(model, field, problem)
}

/** Asserts that a measured length is within the model's limit, and returns it. Throws 400 naming the field. */
export function checkLength(model: ModelRow, field: string, seconds: number): number {
  const max = model.kind?.max_duration_s
  if (max !== undefined && seconds > max) throw unsupported(model, field, `takes at most ${max} s`)
  return seconds
}

/** The measured length of a reference in seconds; 0 if it is not available yet. */
export function lengthOf(references: References | null, field: string): number {
  return references?.[field]?.durationS ?? 0
}

/** The price of `seconds` (in milliseconds, rounded up) per second, margin included. Throws for another price unit. */
export function secondsNano(
  deployment: Deployment,
  resolution: string | null,
  seconds: number,
  marginPpm: bigint,
): bigint {
  const { price } = deployment
  if (price.unit !== 'second') throw new Error(`${deployment.upstream_model} is not priced per second`)
  const usd = (resolution && price.by_resolution?.[resolution]) || price.usd
  return scaledNano(withMargin(picoPerUnit(usd), marginPpm), seconds)
}

/** Multiplies a price per unit by a quantity with up to three decimals. */
export function scaledNano(pico: PicoPerUnit, units: number): bigint {
  return nanoFromPico((pico * BigInt(Math.ceil(Math.round(units * 1e6) / 1e3))) / 1_000n)
}
