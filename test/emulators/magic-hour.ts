import { json, type Recorded, type Reply } from './emulator.ts'
import { type Desk, type Json, startWork, unknownField, type Work, type WorkOptions } from './slow-work.ts'

/** Frames are charged at 30 a second when a video is queued, at its own rate once it is complete. */
const estimatedRate = 30
export const realRate = 24

/** Magic Hour's face swap on a local port. */
export function startMagicHour(options: WorkOptions = {}) {
  return startWork(route, magicHourError(404, 'Not Found'), options)
}

/** An error as Magic Hour writes it. */
export function magicHourError(status: number, message: string): Reply {
  return json(status, { message })
}

function route(request: Recorded, desk: Desk): Reply | null {
  const { method, path, headers, body } = request
  if (!/^Bearer (?!invalid$)\S+$/.test(headers.authorization ?? '')) return magicHourError(401, 'Unauthorized')
  if (method === 'POST' && path === '/v1/face-swap') {
    const fault = faultOf(body)
    if (fault) return magicHourError(400, fault)
    const work = desk.add(request)
    const credits = creditsOf(work, estimatedRate)
    return json(200, { id: work.id, credits_charged: credits, estimated_frame_cost: credits })
  }
  const [, id = ''] = /^\/v1\/video-projects\/([\w-]+)$/.exec(path) ?? []
  if (method === 'DELETE' && desk.works.delete(id)) return (_request, response) => void response.writeHead(204).end()
  const work = method === 'GET' ? desk.poll(id) : undefined
  return work ? json(200, project(work, desk)) : null
}

function faultOf(body: Json): string | null {
  const { assets = {}, style = {} } = body ?? {}
  const extra = unknownField(body, ['name', 'start_seconds', 'end_seconds', 'height', 'width', 'assets', 'style'])
  if (extra) return `Unrecognized key: ${extra}`
  if (!(body?.start_seconds >= 0)) return 'start_seconds is required'
  if (!(body.end_seconds > 0.1 && body.end_seconds > body.start_seconds)) return 'end_seconds must be greater than 0.1'
  if (assets.video_source !== 'file' || !assets.video_file_path) return 'assets.video_file_path is required'
  if (!['all-faces', 'individual-faces', undefined].includes(assets.face_swap_mode))
    return 'assets.face_swap_mode is not known'
  if (assets.face_swap_mode !== 'individual-faces' && !assets.image_file_path)
    return 'assets.image_file_path is required'
  return ['default', 'v1', 'v2', undefined].includes(style.version) ? null : 'style.version is not known'
}

function creditsOf({ body }: Work, framesPerSecond: number): number {
  return Math.ceil((body.end_seconds - body.start_seconds) * framesPerSecond)
}

const statuses = { pending: 'rendering', finished: 'complete', failed: 'error' }
const rates = { pending: estimatedRate, finished: realRate, failed: 0 }

function project(work: Work, { url }: Desk): object {
  const { id, status, body, polls } = work
  const file = { url: `${url}/files/${id}/video.mp4`, expires_at: '2026-11-21T00:00:00Z' }
  const credits = creditsOf(work, rates[status])
  return {
    id,
    name: body.name ?? null,
    status: status === 'pending' && polls < 2 ? 'queued' : statuses[status],
    type: 'FACE_SWAP',
    created_at: '2026-11-20T00:00:00Z',
    width: 160,
    height: 90,
    fps: realRate,
    start_seconds: body.start_seconds,
    end_seconds: body.end_seconds,
    enabled: true,
    credits_charged: credits,
    total_frame_cost: credits,
    download: status === 'finished' ? file : null,
    downloads: status === 'finished' ? [file] : [],
    error:
      status === 'failed' ? { code: 'no_source_face', message: 'Please use an image with a detectable face' } : null,
  }
}
