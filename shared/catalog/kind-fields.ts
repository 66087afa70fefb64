import { z } from 'zod'
import { isObject } from '../base/is-object.ts'
import { nearestName } from '../base/near-misses.ts'

const flag = z.boolean()
const text = z.string().min(1)
const texts = z.array(text)
const count = z.int().positive()
const seconds = z.number().positive()

const image = {
  max_n: count,
  sizes: texts,
  aspect_ratios: texts,
  resolutions: texts,
  qualities: texts,
  mask: flag,
  max_references: count,
  max_reference_mib: count,
  references_required: flag,
  partial_images: flag,
  input_fidelity: z.literal('high'),
}

/** The fields of `kind` in a row of the catalog, by the row's type. What they mean is in docs/decisions/catalog.md. */
const fieldsOfType = {
  chat: image,
  embeddings: { dimensions: count, max_inputs: count },
  rerank: { max_documents: count },
  moderation: {},
  ocr: { max_pages: count },
  image,
  speech: {
    formats: texts,
    voices: texts,
    default_voice: text,
    voice_id_length: count,
    max_characters: count,
    instructions: flag,
  },
  transcription: {
    formats: texts,
    stream: flag,
    prompt: flag,
    temperature: flag,
    keywords: flag,
    languages: flag,
    chunking: flag,
    known_speakers: flag,
    logprobs: flag,
    translates: flag,
    max_duration_s: seconds,
  },
  music: {
    min_duration_s: seconds,
    max_duration_s: seconds,
    default_duration_s: seconds,
    lyrics: flag,
    formats: texts,
  },
  sfx: { min_duration_s: seconds, max_duration_s: seconds, formats: texts },
  realtime: {},
  live_video: {},
  video: {
    modes: z.array(z.enum(['text', 'image', 'reference', 'motion_control', 'video'])),
    durations: z.array(seconds),
    max_duration_s: seconds,
    resolutions: texts,
    aspect_ratios: texts,
    audio: z.union([flag, z.literal('always')]),
    end_image: flag,
    negative_prompt: flag,
    seed: flag,
    prompt: z.enum(['required', 'none']),
    references: z.array(z.enum(['image', 'video', 'audio'])),
    max_references: count,
  },
  lipsync: { takes: z.enum(['image', 'video']), prompt: flag, resolutions: texts, max_duration_s: seconds },
  face_swap: { max_duration_s: seconds },
  avatar: {
    sources: z.array(z.enum(['avatar_id', 'image_url'])),
    resolutions: texts,
    aspect_ratios: texts,
    max_duration_s: seconds,
  },
  mesh: {
    inputs: z.array(z.enum(['text', 'image', 'multi_image'])),
    options: z.array(z.enum(['texture', 'pbr', 'texture_prompt', 'target_polycount', 'topology', 'seed'])),
    formats: texts,
    max_images: count,
  },
} satisfies Record<string, z.ZodRawShape>

const fieldsOfAll = { endpoints: texts }

/** In the name of a video row's field: the mode that it is for, and the resolution or the last frame that a list of lengths is for. */
const modePrefix = /^(?:text|image|reference|motion_control|video)_(?=[a-z])/
const lengthsOfSome = /^durations_\w+$/

type FieldsOfType = typeof fieldsOfType
type Shape = FieldsOfType[keyof FieldsOfType] | typeof fieldsOfAll
type NameIn<S> = S extends unknown ? keyof S : never
type FieldIn<S, Name> = S extends { [N in Name & string]: infer Field extends z.ZodType } ? z.infer<Field> : never

/** What the row of a model says of its kind: the union of the fields of all types. */
type KindFields = { [Name in NameIn<Shape>]?: FieldIn<Shape, Name> }

type Fault = { path: PropertyKey[]; message: string }

/** What is wrong with the `kind` of a row of this type: unknown names, and values of another form. */
export function faultsOfKind(type: keyof FieldsOfType, kind: object): Fault[] {
  const fields = new Map<string, z.ZodType>(Object.entries({ ...fieldsOfType[type], ...fieldsOfAll }))
  return Object.entries(kind).flatMap(([name, value]) => {
    const field = fields.get(name) ?? (type === 'video' ? fields.get(generalVideoField(name)) : undefined)
    if (!field) return [{ path: [name], message: unknownName(name, fields.keys()) }]
    const issues = field.safeParse(value).error?.issues ?? []
    return issues.map(({ path, message }) => ({ path: [name, ...path], message }))
  })
}

/** The field of all modes, resolutions and requests, of which this one is for some. */
function generalVideoField(name: string): string {
  const unprefixed = name.replace(modePrefix, '')
  return lengthsOfSome.test(unprefixed) ? 'durations' : unprefixed
}

function unknownName(name: string, known: Iterable<string>): string {
  const meant = nearestName(name, known, 4)
  return `Unrecognized key: "${name}"${meant === null ? '' : ` (did you mean "${meant}"?)`}`
}

/** The schema of `kind` itself; its fields are checked where the type is known (`faultsOfKind`). */
export const kindFields = z.custom<KindFields>(isObject, 'must be an object')
