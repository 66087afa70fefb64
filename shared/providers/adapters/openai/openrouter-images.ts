import { sizeName } from '../../../kinds/image.ts'
import type { Source } from '../../contract.ts'
import { valueAt } from '../../toolkit/json-fields.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { type ImageDialect, refuseFields } from './image-dialect.ts'

/** The provider fetches larger ones. */
const maxInlineBytes = 4 * 1024 * 1024
const ours = [
  ...['prompt', 'n', 'size', 'resolution', 'aspect_ratio', 'quality', 'background', 'output_format'],
  ...['output_compression', 'input_references', 'seed', 'user'],
]

/** OpenRouter's `POST /images`: references in addition to the prompt make it an edit. */
export const openrouterImages: ImageDialect = {
  fields: Object.fromEntries(ours.map(name => [name, name])),
  async request(call) {
    const { input, sources, target } = call
    refuseFields(call, {
      mask: input.masked,
      input_fidelity: input.fidelity !== null,
      moderation: input.moderation === 'low',
      quality: input.quality === 'standard' || input.quality === 'hd',
    })
    const references = await Promise.all(sourcesIn(sources, 'input_references').map(part))
    const formFields = {
      model: target.deployment.upstream_model,
      prompt: input.prompt,
      n: input.n === 1 ? null : input.n,
      size: input.size && sizeName(input),
      resolution: input.resolution,
      aspect_ratio: input.aspectRatio,
      quality: input.quality,
      background: input.background,
      output_format: input.format,
      output_compression: input.compression,
      seed: input.seed,
      user: input.user,
      input_references: references.length > 0 ? references : null,
    }
    return {
      path: '/images',
      json: Object.fromEntries(Object.entries(formFields).filter(([, value]) => value !== null)),
    }
  },
  usage: answer => valueAt(answer, 'usage'),
}

async function part(source: Source) {
  const url = source.bytes <= maxInlineBytes ? await source.link() : await source.url()
  return { type: 'image_url', image_url: { url } }
}
