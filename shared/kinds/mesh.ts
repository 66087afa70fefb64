import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { nanoFromPico, picoPerUnit, withMargin } from '../base/money.ts'
import {
  common,
  exactlyOneOf,
  fieldOf,
  fieldsOf,
  listOf,
  maxReferences,
  type QueuedKindRow,
  referenceTo,
  unsupported,
} from './media.ts'

const meshRequest = z
  .strictObject({
    ...common,
    prompt: z
      .string()
      .min(1)
      .max(2_000)
      .optional()
      .describe('Text to 3D. Exactly one of `prompt`, `image_url` and `image_urls` is needed.'),
    image_url: referenceTo('image').optional().describe('Image to 3D.'),
    image_urls: z
      .array(referenceTo('image'))
      .min(1)
      .max(maxReferences)
      .optional()
      .describe('Views of one object, front first.'),
    texture: z.boolean().optional().meta({ default: true, description: 'Whether the mesh has a texture.' }),
    pbr: z.boolean().optional().meta({ default: false, description: 'Metallic, roughness and normal maps.' }),
    texture_prompt: z.string().min(1).max(600).optional().describe('What the texture is like.'),
    target_polycount: z.int().min(100).max(300_000).optional().describe('About how many faces.'),
    topology: z.enum(['triangle', 'quad']).optional().describe('Of the faces; without it, the model’s own.'),
    seed: z.int().min(0).max(4_294_967_295).optional().describe('For meshes that can be repeated.'),
  })
  .meta({ id: 'CreateMeshRequest', oneOf: exactlyOneOf(['prompt'], ['image_url'], ['image_urls']) })
type MeshRequest = z.infer<typeof meshRequest>

export type MeshRole = 'glb' | 'fbx' | 'obj' | 'mtl' | 'usdz' | 'texture' | 'thumbnail'

/** Adapter input of a mesh; images are passed separately as `image_url` or `image_urls.<n>`. */
export type MeshInput = {
  from: 'text' | 'image' | 'multi_image'
  prompt: string | null
  images: number
  texture: boolean
  pbr: boolean
  texturePrompt: string | null
  targetPolycount: number | null
  topology: 'triangle' | 'quad' | null
  seed: number | null
}

/** Fields that a model supports only if its row lists them as `options`. */
const options = ['texture', 'pbr', 'texture_prompt', 'target_polycount', 'topology', 'seed'] as const
const sources = { text: 'prompt', image: 'image_url', multi_image: 'image_urls' } as const

export const mesh: QueuedKindRow<MeshRequest, MeshInput> = {
  object: 'mesh.job',
  idPrefix: 'mesh',
  path: '/v1/meshes',
  modelsPath: '/v1/meshes/models',
  type: 'mesh',
  request: meshRequest,
  listed: ['inputs'],
  references: body => [
    ...fieldOf('image_url', body.image_url, 'image'),
    ...fieldsOf('image_urls', body.image_urls, 'image'),
  ],
  input(body, model) {
    const given = (Object.keys(sources) as MeshInput['from'][]).filter(from => body[sources[from]] !== undefined)
    if (given.length === 0)
      throw new GatewayError('missing_field', 'Send `prompt`, `image_url` or `image_urls`.', { param: 'prompt' })
    if (given.length > 1)
      throw new GatewayError('invalid_request', 'Send one of `prompt`, `image_url` and `image_urls`.', {
        param: sources[given[1]!],
      })
    const from = given[0]!
    if (!listOf(model, 'inputs').includes(from))
      throw unsupported(model, sources[from], `does not take \`${sources[from]}\``)
    const max = model.kind?.max_images ?? maxReferences
    if ((body.image_urls?.length ?? 0) > max) throw unsupported(model, 'image_urls', `takes at most ${max} images`)
    for (const option of options)
      if (body[option] !== undefined && !listOf(model, 'options').includes(option))
        throw unsupported(model, option, `does not take \`${option}\``)
    return {
      from,
      prompt: body.prompt ?? null,
      images: body.image_url ? 1 : (body.image_urls?.length ?? 0),
      texture: body.texture ?? true,
      pbr: body.pbr ?? false,
      texturePrompt: body.texture_prompt ?? null,
      targetPolycount: body.target_polycount ?? null,
      topology: body.topology ?? null,
      seed: body.seed ?? null,
    }
  },
  quote(input, { price, upstream_model }, marginPpm) {
    if (price.unit !== 'flat') throw new Error(`${upstream_model} is not priced per mesh`)
    const option = input.pbr ? 'pbr' : input.texture ? 'textured' : 'untextured'
    return { chargeNano: nanoFromPico(withMargin(picoPerUnit(price.by_option?.[option] ?? price.usd), marginPpm)) }
  },
}
