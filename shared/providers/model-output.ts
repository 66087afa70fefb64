import type { MediaOutput, ProviderFile } from '../kinds/media.ts'
import type { MeshRole } from '../kinds/mesh.ts'
import { at, invalid, isObject, optionalAmount, optionalLink } from './fields.ts'
import { mostFiles } from './reports.ts'

/** The files in the output of a model whose fields are its own. `field` names the main one where it is not a common name. */

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

function addressIn(output: unknown, names: string[]): string | null {
  if (typeof output === 'string') return addressOf(output)
  if (Array.isArray(output)) return addressOf(output[0])
  for (const name of names) {
    const value = at(output, name)
    const url = addressOf(Array.isArray(value) ? value[0] : value)
    if (url) return url
  }
  return null
}

/** A URL, or a file object with one. */
function addressOf(value: unknown): string | null {
  return optionalLink(value, isObject(value) ? 'url' : '')
}
