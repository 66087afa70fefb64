import { type MediaOutput, unsupported } from '../../kinds/media.ts'
import type { MeshInput, MeshRole } from '../../kinds/mesh.ts'
import type { Operation, Protocol, ProviderLine, QueuedAdapter, QueuedCall, Report } from '../contract.ts'
import {
  at,
  type Headers,
  handle,
  invalid,
  optionalAmount,
  optionalLink,
  optionalNumber,
  optionalText,
  parsed,
  text,
} from '../fields.ts'
import { completion, noInvoice, pending } from '../reports.ts'
import { sourcesIn } from '../sources.ts'
import { refusalInWords, workFailure } from '../words.ts'

const mesh: QueuedAdapter<'mesh'> = { poll: { firstMs: 5_000, mostMs: 30_000 }, start, check, cancel }

/**
 * Meshy (docs.meshy.ai). The upstream model is its `ai_model`. A textured mesh from text is two tasks, `preview` and
 * `refine`; everything else is one. Its callbacks are not signed, so it is only asked.
 */
export const meshy: Protocol = { direct: {}, queued: { mesh }, failure }

const longestText = 600
const paths = { text: '/v2/text-to-3d', image: '/v1/image-to-3d', multi_image: '/v1/multi-image-to-3d' } as const
/** Which share of the whole work a task is, in percent: its `offset` and its `size`. */
const shares: Record<string, { offset: number; size: number }> = {
  whole: { offset: 0, size: 100 },
  preview: { offset: 0, size: 50 },
  refine: { offset: 50, size: 50 },
}

async function start(call: QueuedCall<'mesh'>, line: ProviderLine, after: Operation | null): Promise<Operation> {
  const { input } = call
  assertOptions(call)
  const path = paths[input.from]
  const part = after ? 'refine' : input.from === 'text' && input.texture ? 'preview' : 'whole'
  const json = after ? refining(call, after) : await modelling(call)
  const answer = await line.send({ method: 'POST', path, json })
  return { path, part, id: handle(answer.json, 'result') }
}

function assertOptions({ target: { model }, input }: QueuedCall<'mesh'>): void {
  if (input.prompt && input.prompt.length > longestText)
    throw unsupported(model, 'prompt', `takes a prompt of at most ${longestText} characters`)
  if (!input.texture && input.pbr) throw unsupported(model, 'pbr', 'makes PBR maps only with `texture`')
  if (!input.texture && input.texturePrompt)
    throw unsupported(model, 'texture_prompt', 'takes `texture_prompt` only with `texture`')
  if (input.seed !== null) throw unsupported(model, 'seed', 'does not take `seed` at this provider')
}

async function modelling({ target, input, sources }: QueuedCall<'mesh'>): Promise<object> {
  const common = { ai_model: target.deployment.upstream_model, ...shape(input) }
  if (input.from === 'text') return { mode: 'preview', prompt: input.prompt, ...common }
  const textured = { should_texture: input.texture, ...(input.texture && texture(input)) }
  if (input.from === 'image') return { image_url: await sources.get('image_url')!.link(), ...common, ...textured }
  const images = sourcesIn(sources, 'image_urls').map(source => source.link())
  return { image_urls: await Promise.all(images), ...common, ...textured }
}

function refining({ target, input }: QueuedCall<'mesh'>, preview: Operation): object {
  return {
    mode: 'refine',
    preview_task_id: preview.id,
    ai_model: target.deployment.upstream_model,
    ...texture(input),
  }
}

/** Both wishes are honoured only by the remeshing that follows the modelling. */
function shape({ topology, targetPolycount }: MeshInput): object {
  if (topology === null && targetPolycount === null) return {}
  return {
    should_remesh: true,
    ...(topology !== null && { topology }),
    ...(targetPolycount !== null && { target_polycount: targetPolycount }),
  }
}

function texture({ pbr, texturePrompt }: MeshInput): object {
  return { enable_pbr: pbr, ...(texturePrompt !== null && { texture_prompt: texturePrompt }) }
}

async function check(operation: Operation, line: ProviderLine): Promise<Report<'mesh'>> {
  const { json } = await line.send({ method: 'GET', path: `${operation.path}/${operation.id}` })
  const { offset, size } = shares[String(operation.part)]!
  switch (text(json, 'status')) {
    case 'PENDING':
      return pending(offset)
    case 'IN_PROGRESS':
      return pending(offset + ((optionalNumber(json, 'progress') ?? 0) * size) / 100)
    case 'SUCCEEDED':
      if (operation.part === 'preview') return { status: 'next', operation, progress: offset + size }
      return completion(
        () => outputFrom(json),
        () => ({ ...noInvoice, credits: optionalAmount(json, 'consumed_credits') }),
      )
    case 'FAILED':
      return { status: 'failed', error: workFailure(optionalText(json, 'task_error.message')) }
    case 'CANCELED':
      return { status: 'failed', error: workFailure('The task was cancelled at the provider.') }
    default:
      throw invalid('its `status` is unknown')
  }
}

async function cancel({ path, id }: Operation, line: ProviderLine): Promise<void> {
  // A task that is gone needs no stop.
  await line.send({ method: 'DELETE', path: `${path}/${id}`, allow: [404] })
}

const models = ['glb', 'fbx', 'obj', 'mtl', 'usdz'] as const
const maps = ['base_color', 'metallic', 'roughness', 'normal', 'emission']
/** Meshes have one material mostly; more than this are not copied. */
const mostMaterials = 8

/** What was not made has no address, or an empty one. */
function outputFrom(json: unknown): MediaOutput<MeshRole> {
  const found = (role: MeshRole, path: string) => {
    const url = optionalLink(json, path)
    return url === null ? [] : [{ role, url }]
  }
  const meshes = models.flatMap(format => found(format, `model_urls.${format}`))
  if (meshes.length === 0) throw invalid('it has no address in `model_urls`')
  const sets = at(json, 'texture_urls')
  const materials = Array.isArray(sets) ? Math.min(sets.length, mostMaterials) : 0
  const textures = Array.from({ length: materials }, (_, i) =>
    maps.flatMap(map => found('texture', `texture_urls.${i}.${map}`)),
  )
  return { files: [...meshes, ...textures.flat(), ...found('thumbnail', 'thumbnail_url')], durationS: null }
}

/** `{"message":"…"}` */
function failure(status: number, headers: Headers, body: string) {
  return refusalInWords(status, headers, optionalText(parsed(body), 'message') ?? '')
}
