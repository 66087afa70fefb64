import { json, type Recorded, type Reply } from './emulator.ts'
import { type Desk, type Json, startWork, unknownField, type Work, type WorkOptions } from './slow-work.ts'

const models = ['meshy-5', 'meshy-6', 'meshy-7', 'meshy-7.1', 'latest', undefined]
const topologies = ['triangle', 'quad', undefined]
const shape = ['ai_model', 'topology', 'target_polycount', 'should_remesh']
const texture = ['enable_pbr', 'texture_prompt']
const known: Record<string, string[]> = {
  preview: ['mode', 'prompt', ...shape],
  refine: ['mode', 'preview_task_id', 'ai_model', ...texture],
  'image-to-3d': ['image_url', 'should_texture', ...shape, ...texture],
  'multi-image-to-3d': ['image_urls', 'should_texture', ...shape, ...texture],
}

/** Meshy's API on a local port. */
export function startMeshy(options: WorkOptions = {}) {
  return startWork(route, meshyError(404, 'Not found'), options)
}

/** An error as Meshy writes it. */
export function meshyError(status: number, message: string): Reply {
  return json(status, { message })
}

function route(request: Recorded, desk: Desk): Reply | null {
  const { method, path, headers, body } = request
  if (!/^Bearer (?!invalid$)\S+$/.test(headers.authorization ?? '')) return meshyError(401, 'Invalid API key')
  const [, kind, id = ''] =
    /^\/openapi\/(?:v2\/(?=text-)|v1\/(?!text-))((?:text|image|multi-image)-to-3d)(?:\/([\w-]+))?$/.exec(path) ?? []
  if (!kind) return null
  if (method === 'POST' && !id) {
    const fault = faultOf(kind, body, desk)
    return fault ? meshyError(400, fault) : json(202, { result: desk.add(request).id })
  }
  if (!desk.works.get(id)?.path.endsWith(`/${kind}`)) return meshyError(404, 'Task not found')
  if (method === 'DELETE') {
    desk.works.delete(id)
    return json(200, {})
  }
  return method === 'GET' ? json(200, task(kind, desk.poll(id)!, desk)) : null
}

function faultOf(kind: string, body: Json, desk: Desk): string | null {
  const extra = unknownField(body, known[kind === 'text-to-3d' ? body?.mode : kind] ?? [])
  if (extra) return `Invalid parameter: ${extra}`
  if (!models.includes(body?.ai_model)) return 'Invalid values: ai_model'
  if (!topologies.includes(body.topology)) return 'Invalid values: topology'
  const polygons = body.target_polycount ?? 30_000
  if (!(polygons >= 100 && polygons <= 300_000)) return 'Invalid values: target_polycount'
  if (body.texture_prompt?.length > 600) return 'Invalid values: texture_prompt'
  if (body.should_texture === false && body.enable_pbr) return 'Invalid values: enable_pbr'
  if (body.mode === 'preview') return body.prompt?.length > 0 && body.prompt.length <= 600 ? null : 'Invalid prompt'
  if (body.mode === 'refine')
    return desk.works.get(body.preview_task_id)?.status === 'finished' ? null : 'Preview task is not succeeded'
  const images: unknown[] = body.image_urls ?? [body.image_url]
  const wrong = images.some(url => !/^(https?:\/\/|data:image\/(png|jpeg);base64,)/.test(String(url)))
  return images.length < 1 || images.length > 4 || wrong ? 'Invalid image_url' : null
}

const statuses = { pending: 'IN_PROGRESS', finished: 'SUCCEEDED', failed: 'FAILED' }

function task(kind: string, { id, status, polls, body }: Work, { url }: Desk): object {
  const waiting = status === 'pending' && polls < 2
  const textured = body.mode === 'refine' || body.should_texture === true
  const file = (name: string) => `${url}/files/${id}/${name}?Expires=1795000000`
  // Of the text's tasks a list of materials, of the others one (meshy-dev/meshy-mcp-server, src/types.ts).
  const shown = (material: object) => (kind === 'text-to-3d' ? [material] : material)
  const maps = body.enable_pbr ? ['base_color', 'metallic', 'roughness', 'normal'] : ['base_color']
  return {
    id,
    type: kind === 'text-to-3d' ? `${kind}-${body.mode}` : kind,
    ai_model: body.ai_model,
    status: waiting ? 'PENDING' : statuses[status],
    progress: status === 'finished' ? 100 : waiting ? 0 : 40,
    prompt: body.prompt ?? '',
    ...(status === 'finished' && {
      model_urls: {
        glb: file('model.glb'),
        fbx: file('model.fbx'),
        obj: file('model.obj'),
        usdz: '',
        ...(textured && { mtl: file('model.mtl') }),
      },
      texture_urls: textured ? shown(Object.fromEntries(maps.map(map => [map, file('texture.png')]))) : null,
      thumbnail_url: file('thumbnail.png'),
    }),
    preceding_tasks: waiting ? 3 : 0,
    consumed_credits: status === 'finished' ? 20 : 0,
    created_at: 1_795_000_000_000,
    started_at: waiting ? 0 : 1_795_000_001_000,
    finished_at: status === 'pending' ? 0 : 1_795_000_002_000,
    expires_at: 1_795_300_000_000,
    task_error: { message: status === 'failed' ? 'The prompt could not be turned into a mesh' : '' },
  }
}
