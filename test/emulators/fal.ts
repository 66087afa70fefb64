import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { json, type Recorded, type Reply } from './emulator.ts'
import { reporting } from './reports.ts'
import { type Desk, type Json, startWork, unknownField, type Work, type WorkOptions } from './slow-work.ts'

/** What a model takes: `!` = required, `[]` = a list of files, a list = one of these, a pair of numbers = a range. */
type Rule = 'text' | 'text!' | 'file' | 'file!' | 'file[]!' | 'boolean' | 'seed' | readonly string[] | [number, number]
type Model = { input: Record<string, Rule>; output(files: string): object }

const upTo = (most: number, least = 1) => Array.from({ length: most - least + 1 }, (_, i) => String(least + i))
const file = (url: string, content_type: string) => ({
  url,
  content_type,
  file_name: url.split('/').at(-1),
  file_size: 1,
})
const video = (files: string) => ({ video: file(`${files}/video.mp4`, 'video/mp4') })
const hunyuan = (files: string) => ({
  model_glb: file(`${files}/model.glb`, 'model/gltf-binary'),
  model_urls: {
    glb: file(`${files}/model.glb`, 'model/gltf-binary'),
    obj: file(`${files}/model.obj`, 'text/plain'),
    mtl: file(`${files}/model.mtl`, 'text/plain'),
    texture: file(`${files}/texture.png`, 'image/png'),
  },
  thumbnail: file(`${files}/thumbnail.png`, 'image/png'),
  seed: 7,
})

const kling = { negative_prompt: 'text', generate_audio: 'boolean', duration: upTo(15, 3) } as const
const seedance = {
  prompt: 'text!',
  duration: upTo(12, 4),
  resolution: ['480p', '720p', '1080p'],
  aspect_ratio: ['21:9', '16:9', '4:3', '1:1', '3:4', '9:16', 'auto'],
  generate_audio: 'boolean',
  seed: 'seed',
} as const
const hunyuanOptions = { enable_pbr: 'boolean', face_count: [40_000, 1_500_000] } satisfies Model['input']

/** The models of the catalog and some that operators may add, from the schemas that fal publishes. */
const models: Record<string, Model> = {
  'fal-ai/kling-video/v3/pro/text-to-video': {
    input: { ...kling, prompt: 'text', aspect_ratio: ['16:9', '9:16', '1:1'] },
    output: video,
  },
  'fal-ai/kling-video/v3/pro/image-to-video': {
    input: { ...kling, prompt: 'text', start_image_url: 'file!', end_image_url: 'file' },
    output: video,
  },
  'fal-ai/kling-video/v2.5-turbo/pro/image-to-video': {
    input: {
      prompt: 'text!',
      image_url: 'file!',
      tail_image_url: 'file',
      duration: ['5', '10'],
      negative_prompt: 'text',
    },
    output: video,
  },
  'fal-ai/kling-video/v3/pro/motion-control': {
    input: {
      prompt: 'text',
      image_url: 'file!',
      video_url: 'file!',
      character_orientation: ['image', 'video'],
      keep_original_sound: 'boolean',
    },
    output: video,
  },
  'fal-ai/bytedance/seedance/v1.5/pro/text-to-video': { input: seedance, output: video },
  'fal-ai/bytedance/seedance/v1.5/pro/image-to-video': {
    input: { ...seedance, image_url: 'file!', end_image_url: 'file' },
    output: video,
  },
  'fal-ai/minimax/hailuo-2.3/standard/text-to-video': {
    input: { prompt: 'text!', duration: ['6', '10'] },
    output: video,
  },
  'fal-ai/minimax/hailuo-2.3/standard/image-to-video': {
    input: { prompt: 'text!', image_url: 'file!', duration: ['6', '10'] },
    output: video,
  },
  'fal-ai/minimax/hailuo-2.3/pro/text-to-video': { input: { prompt: 'text!' }, output: video },
  'fal-ai/minimax/hailuo-2.3/pro/image-to-video': { input: { prompt: 'text!', image_url: 'file!' }, output: video },
  'fal-ai/bytedance/seedance/v1/lite/reference-to-video': {
    input: { prompt: 'text!', reference_image_urls: 'file[]!', duration: upTo(12, 2) },
    output: video,
  },
  'fal-ai/heygen/avatar4/image-to-video': {
    input: { prompt: 'text', voice: 'text', image_url: 'file!', audio_url: 'file' },
    output: video,
  },
  'half-moon-ai/ai-face-swap/faceswapvideo': {
    input: { source_face_url: 'file!', target_video_url: 'file!' },
    output: video,
  },
  'fal-ai/bytedance/omnihuman/v1.5': {
    input: { prompt: 'text', image_url: 'file!', audio_url: 'file!', resolution: ['720p', '1080p'] },
    output: files => ({ ...video(files), duration: 3.2 }),
  },
  'fal-ai/hunyuan3d-v3/text-to-3d': { input: { ...hunyuanOptions, prompt: 'text!' }, output: hunyuan },
  'fal-ai/hunyuan3d-v3/image-to-3d': {
    input: {
      ...hunyuanOptions,
      input_image_url: 'file!',
      back_image_url: 'file',
      left_image_url: 'file',
      right_image_url: 'file',
    },
    output: hunyuan,
  },
  'fal-ai/trellis': {
    input: { image_url: 'file!', seed: 'seed' },
    output: files => ({ model_mesh: file(`${files}/model.glb`, 'model/gltf-binary'), timings: {} }),
  },
}

const userId = 'user_emulated'

/**
 * fal's queue on a local port, with its keys at `/.well-known/jwks.json`. A wrong input is taken and fails at its end, as
 * there. `finish` and `fail` report to the callback address where one was given; `delivered` waits for those reports.
 */
export async function startFal(options: WorkOptions = {}) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const other = generateKeyPairSync('ed25519')
  const cancelled = new Set<string>()
  const keys = [other.publicKey, publicKey].map(key => ({ ...key.export({ format: 'jwk' }), use: 'sig' }))
  const started = await startWork(
    (request, desk) =>
      request.path === '/.well-known/jwks.json' ? json(200, { keys }) : route(request, desk, cancelled),
    falError(404, 'Path not found'),
    options,
  )
  const callback = (id: string, nowMs = Date.now()) => {
    const work = started.works.get(id)!
    const body = Buffer.from(JSON.stringify(reportOn(work, started.url)))
    return { url: callbackOf(work), body, headers: signed(id, body, privateKey, Math.floor(nowMs / 1000)) }
  }
  return { ...reporting(started, callback), privateKey }
}

/** An error as fal writes it: a text, or a list of places. */
export function falError(status: number, detail: unknown, headers: Record<string, string> = {}): Reply {
  return json(status, { detail }, { 'x-fal-request-id': 'emulated', ...headers })
}

/** The headers of a report signed by fal. */
export function signed(id: string, body: Buffer, key: KeyObject, timestampS: number): Record<string, string> {
  const hash = createHash('sha256').update(body).digest('hex')
  const message = Buffer.from(`${id}\n${userId}\n${timestampS}\n${hash}`)
  return {
    'x-fal-webhook-request-id': id,
    'x-fal-webhook-user-id': userId,
    'x-fal-webhook-timestamp': String(timestampS),
    'x-fal-webhook-signature': sign(null, message, key).toString('hex'),
  }
}

const callbacks = new WeakMap<Work, string>()
const callbackOf = (work: Work) => callbacks.get(work) ?? null

function route(request: Recorded, desk: Desk, cancelled: Set<string>): Reply | null {
  const { method, path, headers, query } = request
  if (!/^Key [\w-]+:[\w-]+$/.test(headers.authorization ?? ''))
    return falError(401, 'Cannot access application. Authentication is required to access this application.')
  const [, app, id, action] = /^\/(.+)\/requests\/([\w-]+)(?:\/(status|cancel))?$/.exec(path) ?? []
  if (app && id) {
    const work = desk.works.get(id)
    // The queue knows a request by the first two segments of its model's name.
    if (!work || work.path.split('/').slice(1, 3).join('/') !== app) return falError(404, 'Request not found')
    return viewOf(method, action, work, desk, cancelled)
  }
  if (method !== 'POST') return null
  if (!models[path.slice(1)]) return falError(404, `Application ${path.slice(1)} not found`)
  const callback = query.get('fal_webhook')
  const work = desk.add(request)
  if (callback !== null) callbacks.set(work, callback)
  return json(200, { ...positionOf(work, desk), gateway_request_id: work.id, status: 'IN_QUEUE', queue_position: 0 })
}

function viewOf(
  method: string,
  action: string | undefined,
  work: Work,
  desk: Desk,
  cancelled: Set<string>,
): Reply | null {
  if (method === 'PUT' && action === 'cancel') {
    if (work.status !== 'pending') return json(400, { status: 'ALREADY_COMPLETED' })
    cancelled.add(work.id)
    desk.end('failed', work.id)
    return json(202, { status: 'CANCELLATION_REQUESTED' })
  }
  if (method !== 'GET') return null
  if (action === 'status') return statusOf(desk.look(work.id)!, desk)
  if (work.status === 'pending') return falError(400, 'Request is still in progress')
  if (cancelled.has(work.id)) return falError(400, 'Request was cancelled')
  const result = resultOf(work, desk.url)
  return json(result.status, result.body, { 'x-fal-request-id': work.id, 'x-fal-billable-units': '0.79' })
}

function positionOf({ id, path }: Work, { url }: Desk) {
  const base = `${url}/${path.split('/').slice(1, 3).join('/')}/requests/${id}`
  return { request_id: id, response_url: base, status_url: `${base}/status`, cancel_url: `${base}/cancel` }
}

function statusOf(work: Work, desk: Desk): Reply {
  const position = positionOf(work, desk)
  if (work.status !== 'pending')
    return json(200, { ...position, status: 'COMPLETED', logs: [], metrics: { inference_time: 3.7 } })
  if (work.looks <= 1) return json(202, { ...position, status: 'IN_QUEUE', queue_position: 2 })
  return json(202, { ...position, status: 'IN_PROGRESS', logs: [] })
}

/** Completed only means over. */
function resultOf({ id, path, body, status }: Work, url: string): { status: number; body: object } {
  const { input, output } = models[path.slice(1)]!
  const faults = faultsOf(body, input)
  if (faults.length > 0) return { status: 422, body: { detail: faults } }
  if (status === 'failed') return { status: 500, body: { detail: 'Internal Server Error' } }
  return { status: 200, body: output(`${url}/files/${id}`) }
}

function reportOn(work: Work, url: string): object {
  const { status, body } = resultOf(work, url)
  const ids = { request_id: work.id, gateway_request_id: work.id }
  if (status === 200) return { ...ids, status: 'OK', payload: body }
  return { ...ids, status: 'ERROR', error: `Unexpected status code: ${status}`, payload: body }
}

function faultsOf(body: Json, rules: Model['input']): object[] {
  const unknown = unknownField(body, Object.keys(rules))
  const faults = unknown ? [fault(unknown, 'Extra inputs are not permitted', 'extra_forbidden')] : []
  for (const [name, rule] of Object.entries(rules)) {
    const value = body?.[name]
    if (value === undefined) {
      if (typeof rule === 'string' && rule.endsWith('!')) faults.push(fault(name, 'Field required', 'missing'))
    } else if (!fits(value, rule)) faults.push(fault(name, 'Input is not what is expected', 'invalid'))
  }
  return faults
}

const fault = (name: string, msg: string, type: string) => ({ loc: ['body', name], msg, type })

function fits(value: Json, rule: Rule): boolean {
  if (rule === 'boolean') return typeof value === 'boolean'
  if (rule === 'seed') return Number.isInteger(value)
  if (rule === 'file[]!') return Array.isArray(value) && value.every(one => fits(one, 'file'))
  if (rule === 'file' || rule === 'file!') return typeof value === 'string' && /^(https?|data):/.test(value)
  if (rule === 'text' || rule === 'text!') return typeof value === 'string' && value !== ''
  const [least, most] = rule
  if (typeof least === 'number') return typeof value === 'number' && value >= least && value <= (most as number)
  return (rule as readonly unknown[]).includes(value)
}
