import { type MediaOutput, unsupported } from '../../../kinds/media.ts'
import type { MeshInput, MeshRole } from '../../../kinds/mesh.ts'
import type { Operation, PollReport, Protocol, ProviderConnection, QueuedAdapter, QueuedCall } from '../../contract.ts'
import { classifyResponse, classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import {
  type Headers,
  invalidResponse,
  parseJsonOrNull,
  readHandle,
  readOptionalAmount,
  readOptionalLink,
  readOptionalNumber,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { completedReport, noInvoice, pendingReport } from '../../toolkit/poll-reports.ts'

const mesh: QueuedAdapter<'mesh'> = { poll: { firstMs: 5_000, maxMs: 30_000 }, start, check, cancel }

/**
 * Meshy (docs.meshy.ai). The upstream model is its `ai_model`. A textured mesh from text takes two tasks, `preview` and
 * `refine`; everything else takes one. Its callbacks are not signed, so the work is only polled.
 */
export const meshy: Protocol = {
  direct: {},
  queued: { mesh },
  credentialCheck: () => ({ path: '/v1/balance' }),
  failure,
}

const maxText = 600
const paths = { text: '/v2/text-to-3d', image: '/v1/image-to-3d', multi_image: '/v1/multi-image-to-3d' } as const
/** Each task's portion of the total progress, in percent: its `offset` and its `size`. */
const progressShares: Record<string, { offset: number; size: number }> = {
  whole: { offset: 0, size: 100 },
  preview: { offset: 0, size: 50 },
  refine: { offset: 50, size: 50 },
}

async function start(
  call: QueuedCall<'mesh'>,
  connection: ProviderConnection,
  after: Operation | null,
): Promise<Operation> {
  const { input } = call
  assertOptions(call)
  const path = paths[input.from]
  const part = after ? 'refine' : input.from === 'text' && input.texture ? 'preview' : 'whole'
  const json = after ? refining(call, after) : await modelling(call)
  const answer = await connection.send({ method: 'POST', path, json })
  return { path, part, id: readHandle(answer.json, 'result') }
}

function assertOptions({ target: { model }, input }: QueuedCall<'mesh'>): void {
  if (input.prompt && input.prompt.length > maxText)
    throw unsupported(model, 'prompt', `takes a prompt of at most ${maxText} characters`)
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

/** Both options apply only to the remeshing after the modelling. */
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

async function check(operation: Operation, connection: ProviderConnection): Promise<PollReport<'mesh'>> {
  const { json } = await connection.send({ method: 'GET', path: `${operation.path}/${operation.id}` })
  const { offset, size } = progressShares[String(operation.part)]!
  switch (readText(json, 'status')) {
    case 'PENDING':
      return pendingReport(offset)
    case 'IN_PROGRESS':
      return pendingReport(offset + ((readOptionalNumber(json, 'progress') ?? 0) * size) / 100)
    case 'SUCCEEDED':
      if (operation.part === 'preview') return { status: 'next', operation, progress: offset + size }
      return completedReport(
        () => outputFrom(json),
        () => ({ ...noInvoice, credits: readOptionalAmount(json, 'consumed_credits') }),
      )
    case 'FAILED':
      return { status: 'failed', error: classifyWorkFailure(readOptionalText(json, 'task_error.message')) }
    case 'CANCELED':
      return { status: 'failed', error: classifyWorkFailure('The task was cancelled at the provider.') }
    default:
      throw invalidResponse('its `status` is unknown')
  }
}

async function cancel({ path, id }: Operation, connection: ProviderConnection): Promise<void> {
  // A missing task needs no cancellation.
  await connection.send({ method: 'DELETE', path: `${path}/${id}`, allow: [404] })
}

const models = ['glb', 'fbx', 'obj', 'mtl', 'usdz'] as const
const maps = ['base_color', 'metallic', 'roughness', 'normal', 'emission', 'ao']
/** Maximum number of materials copied; most meshes have one. */
const maxMaterials = 8

/** Files that were not produced have no URL, or an empty one. */
function outputFrom(json: unknown): MediaOutput<MeshRole> {
  const fileAt = (role: MeshRole, path: string) => {
    const url = readOptionalLink(json, path)
    return url === null ? [] : [{ role, url }]
  }
  const meshes = models.flatMap(format => fileAt(format, `model_urls.${format}`))
  if (meshes.length === 0) throw invalidResponse('it has no address in `model_urls`')
  // A list of materials, or one (meshy-dev/meshy-mcp-server, src/types.ts).
  const sets = valueAt(json, 'texture_urls')
  const materials = Array.isArray(sets)
    ? Array.from({ length: Math.min(sets.length, maxMaterials) }, (_, i) => `texture_urls.${i}`)
    : ['texture_urls']
  const textures = materials.flatMap(material => maps.flatMap(map => fileAt('texture', `${material}.${map}`)))
  return { files: [...meshes, ...textures, ...fileAt('thumbnail', 'thumbnail_url')], durationS: null }
}

/** `{"message":"…"}` */
function failure(status: number, headers: Headers, body: string) {
  return classifyResponse(status, headers, readOptionalText(parseJsonOrNull(body), 'message') ?? '')
}
