import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { nanoFromPico, type PicoPerUnit, picoPerUnit, withMargin } from '../base/money.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'

/** What the kinds of slow work have in common: their references, limits and prices. */

export type MediaType = 'image' | 'audio' | 'video'

/** A URL in a body: where it stands, and what must be behind it. `measured` = its duration is needed before the start. */
export type ReferenceField = {
  field: string
  url: string
  type: MediaType
  measured: boolean
  /** Where it may be larger or must be smaller than files of its type usually. */
  mostBytes?: number
}

/** The file behind a reference once it lies in our storage. `durationS` only where it was measured. */
export type Reference = {
  storageKey: string
  contentType: string
  bytes: number
  filename: string
  durationS: number | null
}
/** By the field they came from, e.g. `start_image_url`, `input_references.0`. */
export type References = { [field: string]: Reference }

/** A finished file at a provider: behind a URL, or in the answer itself. */
export type ProviderFile<Role extends string = string> = { role: Role } & (
  | { url: string }
  | { bytes: Uint8Array; contentType: string }
)
/** What finished work gives. `durationS` as the provider states it, null where it does not. */
export type MediaOutput<Role extends string = string> = { files: ProviderFile<Role>[]; durationS: number | null }

/** A price for a job: charged at creation, or held until the end shows what it costs. Nano-dollars. */
export type Quote = { chargeNano: bigint } | { holdNano: bigint }

/** What the end of a held job shows: a length in seconds, or the provider's invoice in its credits. */
export type Invoice = { seconds: number | null; credits: number | null }

/** One kind of slow work. Pure: everything alive is handed in. */
export type QueuedKindRow<Request, Input> = {
  /** `object` of its jobs. */
  object: string
  idPrefix: 'job' | 'mesh'
  path: string
  type: ModelRow['type']
  /** Validates the route's body; the OpenAPI document is made from it. */
  request: z.ZodObject & z.ZodType<Request>
  /** Every URL in the body. */
  references(request: Request): ReferenceField[]
  /**
   * The body as one model takes it, its defaults filled in. Throws a GatewayError 400 naming the field the model cannot
   * take. Called before the references are there (`references` null) to choose a model, and again with them.
   */
  input(request: Request, model: ModelRow, references: References | null): Input
  quote(input: Input, deployment: Deployment, marginPpm: bigint, references: References): Quote
  /** What a held job costs, in nano-dollars; null where the invoice does not tell. Kinds charged at creation have none. */
  cost?(input: Input, deployment: Deployment, marginPpm: bigint, invoice: Invoice): bigint | null
  /** Fields of the kind's own model list beside `id`. */
  listed: readonly string[]
}

const longestUrl = 14_000_000

const referenceIds = { image: 'ImageReference', audio: 'AudioReference', video: 'VideoReference' }
const references = { image: reference('image'), audio: reference('audio'), video: reference('video') }

/** An https URL, an upload's URL or a data: URI; as a string, or as OpenRouter writes it. */
export function referenceTo(type: MediaType) {
  return references[type]
}

function reference(type: MediaType) {
  const url = z.string().min(1).max(longestUrl)
  const part = z.strictObject({
    type: z.literal(`${type}_url`),
    [`${type}_url`]: z.strictObject({ url }),
  })
  const read = (value: unknown) =>
    typeof value === 'string' ? value : (value as Record<string, { url: string }>)[`${type}_url`]!.url
  return z
    .union([url, part])
    .transform(read)
    .meta({ id: referenceIds[type], description: 'An https URL, an upload’s URL, or a `data:` URI.' })
}

export const mostReferences = 10

/** Text that is kept with a job: Postgres stores no NUL. */
const kept = z.string().refine(text => !text.includes('\0'), 'has a NUL character')

/** Of a JSON Schema: exactly one of these sets of fields is there. Checked by each kind's `input`. */
export function exactlyOneOf(...sets: string[][]): { required: string[] }[] {
  return sets.map(required => ({ required }))
}

const maxPairs = 16

export const common = {
  model: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('A slug of the route’s model list. Without it, the first that takes the input.'),
  webhook_url: kept.min(1).max(2_048).optional().describe('Where the finished job is pushed to.'),
  metadata: z
    .record(kept.min(1).max(64), kept.max(512))
    .refine(pairs => Object.keys(pairs).length <= maxPairs, `at most ${maxPairs} pairs`)
    .meta({ maxProperties: maxPairs, description: 'Your own labels, kept with the object.' })
    .optional(),
}

/** One field's reference, when the body has it. */
export function fieldOf(field: string, url: string | undefined, type: MediaType, measured = false): ReferenceField[] {
  return url === undefined ? [] : [{ field, url, type, measured }]
}

/** The references of a list. */
export function fieldsOf(field: string, urls: string[] | undefined, type: MediaType): ReferenceField[] {
  return (urls ?? []).map((url, i) => ({ field: `${field}.${i}`, url, type, measured: false }))
}

export function unsupported(model: ModelRow, param: string, problem: string): GatewayError {
  return new GatewayError('unsupported_capability', `${model.id} ${problem}.`, { param })
}

/** A list of the model's own row, e.g. its `resolutions`; empty where it has none. */
export function listOf<T = string>(model: ModelRow, name: string): T[] {
  const value = model.kind?.[name]
  return Array.isArray(value) ? (value as T[]) : []
}

/** The wanted choice of a model's list, or its first. Throws 400 naming the field when the list does not have it. */
export function choice(model: ModelRow, list: string, field: string, wanted: string | undefined): string | null {
  const offered = listOf(model, list)
  if (wanted === undefined) return offered[0] ?? null
  if (offered.includes(wanted)) return wanted
  const problem = offered.length > 0 ? `takes ${field} ${offered.join(', ')}` : `does not take \`${field}\``
  throw unsupported(model, field, problem)
}

/** Asserts that a measured length is within the model's limit. Throws 400 naming the field. */
export function withinLength(model: ModelRow, field: string, seconds: number): number {
  const most = model.kind?.max_duration_s
  if (typeof most === 'number' && seconds > most) throw unsupported(model, field, `takes at most ${most} s`)
  return seconds
}

/** The measured length of a reference in seconds; 0 while it is not there yet. */
export function lengthOf(references: References | null, field: string): number {
  return references?.[field]?.durationS ?? 0
}

/** What `seconds` (to the millisecond, rounded up) cost at a price per second, margin included. Throws for another unit. */
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

/** A price per unit times a number of units that may have three decimals. */
export function scaledNano(pico: PicoPerUnit, units: number): bigint {
  return nanoFromPico((pico * BigInt(Math.ceil(Math.round(units * 1e6) / 1e3))) / 1_000n)
}
