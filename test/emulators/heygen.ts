import { createHmac } from 'node:crypto'
import { json, type Recorded, type Reply, reset } from './emulator.ts'
import { type Desk, isWebUrl, type Json, startWork, unknownField, type Work, type WorkOptions } from './slow-work.ts'

const engines = ['avatar_iii', 'avatar_iv', 'avatar_v']
const resolutions = ['4k', '1080p', '720p', undefined]
const ratios = ['16:9', '9:16', '4:5', '5:4', '1:1', 'auto', undefined]
const shared = ['type', 'script', 'voice_id', 'audio_url', 'aspect_ratio', 'resolution', 'title', 'callback_id']
const known = { avatar: [...shared, 'avatar_id', 'engine'], image: [...shared, 'image'] }

/** The length of the finished video, which does not follow from its script. */
export const realSeconds = 12.5
const lookTypes = ['studio_avatar', 'digital_twin', 'photo_avatar']

/** 5 looks: the fourth is still in the making. */
const looks = Array.from({ length: 5 }, (_, i) => ({
  id: `look_${i}`,
  group_id: 'group_0',
  name: `Look ${i}`,
  avatar_type: lookTypes[i % lookTypes.length],
  gender: i % 2 ? 'male' : null,
  preview_image_url: `https://files.example/look_${i}.webp`,
  preview_video_url: null,
  default_voice_id: i === 0 ? 'voice_0' : null,
  supported_api_engines: ['avatar_iv'],
  tags: [],
  ...(i === 3 && { status: 'processing' }),
}))
const voices = ['English', 'English', 'German'].map((language, i) => ({
  voice_id: `voice_${i}`,
  name: `Voice ${i}`,
  language,
  gender: 'female',
  type: 'public',
  preview_audio_url: `https://files.example/voice_${i}.mp3`,
  support_pause: true,
  support_locale: false,
}))

export type HeygenOptions = WorkOptions & {
  /** Whether the answer to a create request that was carried out is lost on its way. */
  losesAnswer?: () => boolean
}

/** HeyGen's API v3 on a local port. A video or lip sync is made once for each `Idempotency-Key` and path. */
export function startHeygen({ losesAnswer = () => false, ...options }: HeygenOptions = {}) {
  const made = new Map<string, Reply>()
  const route = (request: Recorded, desk: Desk): Reply | null => {
    if (request.method !== 'POST') return replyTo(request, desk)
    const key = request.headers['idempotency-key']?.toString()
    if (key !== undefined && !/^[\w:.-]{1,255}$/.test(key))
      return heygenError(400, 'invalid_parameter', 'Idempotency-Key is invalid')
    const earlier = made.get(`${request.path} ${key}`)
    if (earlier) return earlier
    const count = desk.works.size
    const reply = replyTo(request, desk)
    const isMade = reply !== null && desk.works.size > count
    if (isMade && key !== undefined) made.set(`${request.path} ${key}`, reply)
    return isMade && losesAnswer() ? reset : reply
  }
  return startWork(route, heygenError(404, 'not_found', 'Resource not found'), options)
}

/** An error as HeyGen writes it. */
export function heygenError(status: number, code: string, message: string, param: string | null = null): Reply {
  return json(status, { error: { code, message, param, doc_url: null } })
}

/** An event of the account's endpoint: its headers and body. */
export function heygenEvent(body: object, secret: string, sentAtMs: number) {
  const raw = Buffer.from(JSON.stringify(body))
  const headers = {
    'heygen-signature': createHmac('sha256', secret).update(raw).digest('hex'),
    'heygen-timestamp': String(Math.floor(sentAtMs / 1000)),
    'heygen-event-id': 'evt_1',
  }
  return { headers, raw }
}

function replyTo(request: Recorded, desk: Desk): Reply | null {
  const { method, path, headers, query, body } = request
  const key = headers['x-api-key']
  if (!key || key === 'invalid') return heygenError(401, 'unauthorized', 'Invalid API key')
  if (method === 'POST' && path === '/v3/videos') return videoReply(request, desk)
  if (method === 'POST' && path === '/v3/lipsyncs') {
    const fault = lipsyncFault(body)
    if (fault) return heygenError(400, 'invalid_parameter', fault)
    return json(200, { data: { lipsync_id: desk.add(request).id } })
  }
  if (method !== 'GET') return null
  if (path === '/v3/users/me') return json(200, { data: { username: 'gateway', billing_type: 'wallet' } })
  if (path === '/v3/videos' || path === '/v3/lipsyncs') {
    const part = path === '/v3/videos' ? (query.get('title') ?? '') : ''
    const listed = [...desk.works.values()].filter(work => work.path === path && work.body.title?.includes(part))
    return page(
      listed.map(work => resource(work, desk)),
      query,
      100,
      () => true,
    )
  }
  if (path === '/v3/avatars/looks') return page(looks, query, 50, row => matches(row.avatar_type, query, 'avatar_type'))
  if (path === '/v3/voices') return page(voices, query, 100, row => matches(row.language, query, 'language'))
  const [, kind, id = ''] = /^\/v3\/(videos|lipsyncs)\/([\w-]+)$/.exec(path) ?? []
  const work = desk.poll(id)
  return work && work.path === `/v3/${kind}` ? json(200, { data: resource(work, desk) }) : null
}

function videoReply(request: Recorded, desk: Desk): Reply {
  const fault = videoFault(request.body)
  if (fault) return heygenError(400, 'invalid_parameter', fault)
  if (request.body.avatar_id?.startsWith('missing'))
    return heygenError(404, 'avatar_not_found', 'Avatar look not found')
  return json(200, { data: { video_id: desk.add(request).id, status: 'waiting' } })
}

function videoFault(body: Json): string | null {
  const type: 'avatar' | 'image' = body?.type
  if (!known[type]) return 'type must be avatar or image'
  const extra = unknownField(body, known[type])
  if (extra) return `${extra} is not a parameter of ${type} videos`
  if (type === 'avatar' && !body.avatar_id) return 'avatar_id is required'
  if (type === 'image' && !isAsset(body.image)) return 'image is required'
  if (body.engine && !engines.includes(body.engine.type)) return 'engine.type is not known'
  if (Boolean(body.script) === Boolean(body.audio_url)) return 'Provide exactly one of script and audio_url'
  if (body.script && type === 'image' && !body.voice_id) return 'voice_id is required'
  if (body.audio_url && !isWebUrl(body.audio_url)) return 'audio_url must be a URL'
  if (!resolutions.includes(body.resolution)) return 'resolution is not known'
  return ratios.includes(body.aspect_ratio) ? null : 'aspect_ratio is not known'
}

function isAsset(asset: Json): boolean {
  if (asset?.type === 'url') return isWebUrl(asset.url)
  return asset?.type === 'base64' && Boolean(asset.media_type && asset.data)
}

function lipsyncFault(body: Json): string | null {
  const extra = unknownField(body, ['video', 'audio', 'mode', 'title', 'callback_id', 'callback_url'])
  if (extra) return `${extra} is not a parameter of lip syncs`
  for (const name of ['video', 'audio'])
    if (body?.[name]?.type !== 'url' || !isWebUrl(body[name].url)) return `${name} is required`
  return ['speed', 'precision', undefined].includes(body.mode) ? null : 'mode must be speed or precision'
}

function matches(value: string | undefined, query: URLSearchParams, filter: string): boolean {
  return !query.has(filter) || query.get(filter) === value
}

/** Tokens are opaque: a made-up one is refused. */
function page<Row>(rows: Row[], query: URLSearchParams, max: number, filter: (row: Row) => boolean): Reply {
  const limit = Number(query.get('limit') ?? 20)
  if (!(limit >= 1 && limit <= max)) return heygenError(400, 'invalid_parameter', `limit must be 1 to ${max}`)
  const from = Number(Buffer.from(query.get('token') ?? '', 'base64url').toString() || 0)
  if (!Number.isInteger(from)) return heygenError(400, 'invalid_parameter', 'token is invalid')
  const found = rows.filter(filter)
  const more = from + limit < found.length
  const token = Buffer.from(String(from + limit)).toString('base64url')
  return json(200, { data: found.slice(from, from + limit), has_more: more, next_token: more ? token : null })
}

function resource({ id, status, body, path, polls: seen }: Work, { url }: Desk): object {
  const ended = { finished: 'completed', failed: 'failed' } as const
  const underway = path === '/v3/videos' ? 'processing' : 'running'
  return {
    id,
    title: body.title ?? null,
    callback_id: body.callback_id ?? null,
    status: status === 'pending' ? (seen < 2 ? 'pending' : underway) : ended[status],
    video_url: status === 'finished' ? `${url}/files/${id}/video.mp4` : null,
    duration: status === 'finished' ? realSeconds : null,
    created_at: 1_795_000_000,
    ...(status === 'failed' && {
      failure_code: 'render_failed',
      failure_message: 'The avatar could not be rendered',
    }),
  }
}
