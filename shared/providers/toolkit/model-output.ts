import { isDataUri, parseDataUri } from '../../base/data-uri.ts'
import { isObject } from '../../base/is-object.ts'
import type { ImageOutput } from '../../kinds/image.ts'
import type { WorkKind, WorkKinds } from '../../kinds/index.ts'
import type { MediaOutput, ProviderFile } from '../../kinds/media.ts'
import type { MeshRole } from '../../kinds/mesh.ts'
import type { SoundOutput } from '../../kinds/sound.ts'
import { invalidResponse, readOptionalAmount, readOptionalLink, readOptionalText, valueAt } from './json-fields.ts'
import { maxFiles } from './poll-reports.ts'
import { refusal } from './refusal.ts'

/**
 * The files in the output of a model with its own field names. `field` names the main one if its name is not common.
 */

/** Maximum size of a result: files may be inlined in it. */
export const maxResultBytes = 64 * 1024 * 1024

/**
 * A video: a URL, a list (the first entry counts), or an object with one. Throws a ProviderError `invalid_response`.
 */
export function videoOutput(output: unknown, field: string | null): MediaOutput<'video'> {
  const url = addressIn(output, field ? [field] : ['video', 'output', 'url', 'videos'])
  if (!url) throw invalidResponse('it has no video')
  return { files: [{ role: 'video', url }], durationS: readOptionalAmount(output, 'duration') }
}

const formats = ['glb', 'fbx', 'obj', 'mtl', 'usdz'] as const

/** A mesh with its textures; the main file is assumed to be a GLB. Throws a ProviderError `invalid_response`. */
export function meshOutput(output: unknown, field: string | null): MediaOutput<MeshRole> {
  const files: ProviderFile<MeshRole>[] = []
  const add = (role: MeshRole, url: string | null) => {
    if (url && !files.some(file => 'url' in file && file.url === url)) files.push({ role, url })
  }
  for (const format of formats) add(format, addressOf(valueAt(output, `model_urls.${format}`)))
  if (!files.some(({ role }) => role === 'glb'))
    add('glb', addressIn(output, field ? [field] : ['model_glb', 'model_mesh', 'model_file', 'mesh', 'glb', 'output']))
  if (files.length === 0) throw invalidResponse('it has no mesh')
  add('texture', addressOf(valueAt(output, 'model_urls.texture')))
  for (const name of ['textures', 'texture_urls']) {
    const textures = valueAt(output, name)
    if (Array.isArray(textures)) for (const texture of textures.slice(0, maxFiles)) add('texture', addressOf(texture))
  }
  for (const name of ['thumbnail', 'rendered_image']) add('thumbnail', addressOf(valueAt(output, name)))
  return { files, durationS: null }
}

/**
 * Images: one, a list, or an object with either. Images that a safety checker blacked out are omitted. Throws a
 * ProviderError: `content_filter` if that leaves none, or if the list is empty and the model says something in its place (the
 * `description` of fal-ai/nano-banana), `invalid_response` if there were none.
 */
export function imageOutput(output: unknown, field: string | null): ImageOutput {
  const entries = entriesIn(output, field ? [field] : ['images', 'image', 'output', 'url'])
  const shown = entries.filter((_, i) => valueAt(output, `has_nsfw_concepts.${i}`) !== true)
  if (shown.length === 0 && entries.length > 0)
    throw refusal('content_filter', 'The provider’s safety checker has blackened every image.')
  const images = shown.flatMap(entry => {
    const url = addressOf(entry)
    return url ? [{ ...fileAt(url), revisedPrompt: null }] : []
  })
  if (images.length > 0) return { images, usage: null }
  const said = isEmptyList(valueAt(output, 'images')) && readOptionalText(output, 'description')
  throw said ? refusal('content_filter', `The model drew nothing: ${said}`) : invalidResponse('it has no image')
}

/** Audio: the first entry of a list counts. Throws a ProviderError `invalid_response` if there is none. */
export function soundOutput(output: unknown, field: string | null): SoundOutput {
  const url = addressIn(output, field ? [field] : ['audio', 'audio_file', 'audio_url', 'output', 'url'])
  if (!url) throw invalidResponse('it has no sound')
  return { sound: fileAt(url), usage: () => null }
}

/** The duration of completed media, as reported by the provider. */
export function secondsOf(output: WorkKinds[WorkKind]['output']): number | null {
  return 'durationS' in output ? output.durationS : null
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

/** The file of a URL, or of a `data:` URI. Throws a ProviderError `invalid_response` for one without base64. */
export function fileAt(url: string): { url: string } | { bytes: Uint8Array } {
  if (!isDataUri(url)) return { url }
  const file = parseDataUri(url)
  if (!file) throw invalidResponse('a file in it is not base64')
  return { bytes: Buffer.from(file.data, 'base64') }
}

function addressIn(output: unknown, names: string[]): string | null {
  for (const entry of entriesIn(output, names).slice(0, 1)) return addressOf(entry)
  return null
}

/** The files of an output: the output itself, or the value of the first of the names that has any. */
function entriesIn(output: unknown, names: string[]): unknown[] {
  if (typeof output === 'string') return [output]
  if (Array.isArray(output)) return output.slice(0, maxFiles)
  for (const name of names) {
    const value = valueAt(output, name)
    const entries = Array.isArray(value) ? value.slice(0, maxFiles) : [value]
    if (addressOf(entries[0])) return entries
  }
  return []
}

/** A URL, or that of a file object. */
function addressOf(value: unknown): string | null {
  return readOptionalLink(value, isObject(value) ? 'url' : '')
}
