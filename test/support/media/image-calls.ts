import type { ImageInput } from '../../../shared/kinds/image.ts'
import type { Source } from '../../../shared/providers/contract.ts'
import { sourceOf } from '../jobs/sources.ts'
import { png } from './png.ts'

/** An image as an adapter is asked for it when nothing but the prompt is given. */
export const plainImage: ImageInput = {
  prompt: 'a fox in the snow',
  n: 1,
  size: null,
  resolution: null,
  aspectRatio: null,
  quality: null,
  background: null,
  format: null,
  compression: null,
  seed: null,
  references: 0,
  masked: false,
  fidelity: null,
  moderation: null,
  user: null,
  safetyIdentifier: null,
  previews: 0,
}

/** The same with these changes, and with as many references as there are sources beside the mask. */
export function imageInput(more: Partial<ImageInput>, sources: Record<string, Source> = {}): ImageInput {
  const references = Object.keys(sources).filter(field => field !== 'mask').length
  return { ...plainImage, references, masked: 'mask' in sources, ...more }
}

/** A picture at an address, which can be decoded. */
export function pictureSource(name: string): Source {
  return sourceOf(`https://files.example/${name}`, 'image/png', null, Buffer.from(png(32)))
}
