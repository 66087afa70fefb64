import type { ImageOutput } from '../kinds/image.ts'
import type { WorkKind, WorkKinds } from '../kinds/index.ts'
import type { MediaOutput, ProviderFile } from '../kinds/media.ts'
import type { MeshRole } from '../kinds/mesh.ts'
import type { SoundOutput } from '../kinds/sound.ts'
import { at, invalid, isObject, optionalAmount, optionalLink, refusal } from './fields.ts'
import { mostFiles } from './reports.ts'

/** The files in the output of a model whose fields are its own. `field` names the main one where it is not a common name. */

/** How much of a result is read: its files may stand in it. */
export const mostResultBytes = 64 * 1024 * 1024

/** A video: a URL, a list of which the first counts, or an object with one. Throws a ProviderError `invalid_response`. */
export function videoOutput(output: unknown, field: string | null): MediaOutput<'video'> {
  const url = addressIn(output, field ? [field] : ['video', 'output', 'url', 'videos'])
  if (!url) throw invalid('it has no video')
  return { files: [{ role: 'video', url }], durationS: optionalAmount(output, 'duration') }
}

const formats = ['glb', 'fbx', 'obj', 'mtl', 'usdz'] as const

/** A mesh with what belongs to it; its main file is taken for a GLB. Throws a ProviderError `invalid_response`. */
export function meshOutput(output: unknown, field: string | null): MediaOutput<MeshRole> {
  const files: ProviderFile<MeshRole>[] = []
  const add = (role: MeshRole, url: string | null) => {
    if (url && !files.some(file => 'url' in file && file.url === url)) files.push({ role, url })
  }
  for (const format of formats) add(format, addressOf(at(output, `model_urls.${format}`)))
  if (!files.some(({ role }) => role === 'glb'))
    add('glb', addressIn(output, field ? [field] : ['model_glb', 'model_mesh', 'model_file', 'mesh', 'glb', 'output']))
  if (files.length === 0) throw invalid('it has no mesh')
  add('texture', addressOf(at(output, 'model_urls.texture')))
  for (const name of ['textures', 'texture_urls']) {
    const textures = at(output, name)
    if (Array.isArray(textures)) for (const texture of textures.slice(0, mostFiles)) add('texture', addressOf(texture))
  }
  for (const name of ['thumbnail', 'rendered_image']) add('thumbnail', addressOf(at(output, name)))
  return { files, durationS: null }
}

/**
 * Images: one, a list, or an object with either. Those that a safety checker has blackened are left out. Throws a
 * ProviderError: `content_filter` where that are all, `invalid_response` where there are none.
 */
export function imageOutput(output: unknown, field: string | null): ImageOutput {
  const entries = entriesIn(output, field ? [field] : ['images', 'image', 'output', 'url'])
  const shown = entries.filter((_, i) => at(output, `has_nsfw_concepts.${i}`) !== true)
  if (shown.length === 0 && entries.length > 0)
    throw refusal('content_filter', 'The provider’s safety checker has blackened every image.')
  const images = shown.flatMap(entry => {
    const url = addressOf(entry)
    return url ? [{ ...fileAt(url), revisedPrompt: null }] : []
  })
  if (images.length === 0) throw invalid('it has no image')
  return { images, usage: null }
}

/** Sound: the first of a list counts. Throws a ProviderError `invalid_response` where there is none. */
export function soundOutput(output: unknown, field: string | null): SoundOutput {
  const url = addressIn(output, field ? [field] : ['audio', 'audio_file', 'audio_url', 'output', 'url'])
  if (!url) throw invalid('it has no sound')
  return { sound: fileAt(url), usage: () => null }
}

/** How long finished media is, as its provider says. */
export function secondsOf(output: WorkKinds[WorkKind]['output']): number | null {
  return 'durationS' in output ? output.durationS : null
}

function fileAt(url: string): { url: string } | { bytes: Uint8Array } {
  if (!/^data:/i.test(url)) return { url }
  const comma = url.indexOf(',')
  if (!/;base64$/i.test(url.slice(0, comma))) throw invalid('a file in it is not base64')
  return { bytes: Buffer.from(url.slice(comma + 1), 'base64') }
}

function addressIn(output: unknown, names: string[]): string | null {
  for (const entry of entriesIn(output, names).slice(0, 1)) return addressOf(entry)
  return null
}

/** The files of an output: itself, or what stands under the first of the names that has any. */
function entriesIn(output: unknown, names: string[]): unknown[] {
  if (typeof output === 'string') return [output]
  if (Array.isArray(output)) return output.slice(0, mostFiles)
  for (const name of names) {
    const value = at(output, name)
    const entries = Array.isArray(value) ? value.slice(0, mostFiles) : [value]
    if (addressOf(entries[0])) return entries
  }
  return []
}

/** A URL, or a file object with one. */
function addressOf(value: unknown): string | null {
  return optionalLink(value, isObject(value) ? 'url' : '')
}
