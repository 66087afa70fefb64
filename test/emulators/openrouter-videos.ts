import { createHmac } from 'node:crypto'
import { json, type Recorded, type Reply } from './emulator.ts'
import { reporting } from './reports.ts'
import { type Desk, type Json, startWork, unknownField, type Work, type WorkOptions } from './slow-work.ts'

export const workspaceSecret = 'the signing secret of the workspace'

type Ending = 'cancelled' | 'expired'

/** OpenRouter's `/api/v1/videos` on a local port. `finish` and `fail` report to the job's `callback_url`. */
export async function startOpenRouterVideos(options: WorkOptions = {}) {
  const endings = new Map<string, Ending>()
  const started = await startWork(
    (request, desk) => route(request, desk, endings),
    openRouterError(404, 'Not found'),
    options,
  )
  const callback = (id: string, nowMs = Date.now()) => {
    const work = started.works.get(id)!
    const data = view(work, started.url, endings)
    const type = `video.generation.${data.status}`
    const body = Buffer.from(JSON.stringify({ type, created_at: '2026-11-20T00:00:00Z', data }))
    return { url: work.body.callback_url ?? null, body, headers: signed(`${id}-${data.status}`, body, nowMs) }
  }
  return {
    ...reporting(started, callback),
    endAs(id: string, ending: Ending) {
      endings.set(id, ending)
      started.fail(id)
    },
  }
}

/** An error as OpenRouter writes it. */
export function openRouterError(status: number, message: string): Reply {
  return json(status, { error: { code: status, message } })
}

export function signed(key: string, body: Buffer, nowMs: number, secret = workspaceSecret): Record<string, string> {
  const timestamp = Math.floor(nowMs / 1000)
  const hmac = createHmac('sha256', secret).update(`${timestamp},`).update(body).digest('hex')
  return { 'x-openrouter-idempotency-key': key, 'x-openrouter-signature': `t=${timestamp},v1=${hmac}` }
}

function route(request: Recorded, desk: Desk, endings: Map<string, Ending>): Reply | null {
  const { method, path, headers, body } = request
  if (!headers.authorization?.startsWith('Bearer ')) return openRouterError(401, 'No auth credentials found')
  if (method === 'POST' && path === '/api/v1/videos') {
    const fault = faultOf(body)
    if (fault) return openRouterError(400, fault)
    const work = desk.add(request)
    return json(202, { id: work.id, polling_url: `${desk.url}/api/v1/videos/${work.id}`, status: 'pending' })
  }
  const [, id, content] = /^\/api\/v1\/videos\/([\w-]+)(\/content)?$/.exec(path) ?? []
  if (method !== 'GET' || !id || !desk.works.has(id)) return null
  if (!content) return json(200, view(desk.poll(id)!, desk.url, endings))
  if (desk.works.get(id)!.status !== 'finished') return openRouterError(400, 'The video is not ready')
  const location = `${desk.url}/files/${id}/video.mp4`
  return (_request, response) => void response.writeHead(302, { location }).end()
}

const fields = [
  'model',
  'prompt',
  'duration',
  'resolution',
  'aspect_ratio',
  'size',
  'frame_images',
  'input_references',
  'generate_audio',
  'seed',
  'callback_url',
  'previous_job_id',
  'provider',
]
const resolutions = ['360p', '480p', '720p', '768p', '1080p', '1K', '2K', '4K']

function faultOf(body: Json): string | null {
  const unknown = unknownField(body, fields)
  if (unknown) return `Unrecognized key: ${unknown}`
  if (typeof body?.model !== 'string') return 'model: Required'
  if (!body.prompt) return 'prompt: Required'
  if (body.duration !== undefined && !Number.isInteger(body.duration)) return 'duration: Expected integer'
  if (body.resolution !== undefined && !resolutions.includes(body.resolution)) return 'resolution: Invalid value'
  if (body.callback_url !== undefined && !/^https?:\/\//.test(body.callback_url)) return 'callback_url: Invalid URL'
  for (const frame of body.frame_images ?? [])
    if (!hasUrl(frame, ['image_url']) || !['first_frame', 'last_frame'].includes(frame.frame_type))
      return 'frame_images: Invalid input'
  for (const reference of body.input_references ?? [])
    if (!hasUrl(reference, ['image_url', 'audio_url', 'video_url'])) return 'input_references: Invalid input'
  return null
}

function hasUrl(part: Json, types: string[]): boolean {
  return types.includes(part?.type) && /^(https?|data):/.test(part[part.type]?.url ?? '')
}

function view({ id, status, polls }: Work, url: string, endings: Map<string, Ending>) {
  const pending = polls > 1 ? 'in_progress' : 'pending'
  const shown = endings.get(id) ?? { pending, finished: 'completed', failed: 'failed' }[status]
  return {
    id,
    polling_url: `${url}/api/v1/videos/${id}`,
    status: shown,
    ...(status === 'finished' && {
      generation_id: `gen-${id}`,
      unsigned_urls: [`${url}/files/${id}/video.mp4`],
      usage: { cost: 0.5, is_byok: false },
    }),
    ...(shown === 'failed' && { error: 'The model could not make this video' }),
  }
}
