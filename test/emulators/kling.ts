import { createHmac } from 'node:crypto'
import { json, type Recorded, type Reply, reset } from './emulator.ts'
import {
  type Desk,
  type Json,
  startWork,
  unknownField,
  type Work,
  type WorkEmulator,
  type WorkOptions,
} from './slow-work.ts'

type KlingOptions = WorkOptions & {
  /** Secret keys by access key. */
  accounts?: Record<string, string>
  /** What a failed task says. */
  failure?: string
  /** Whether the answer to a create request that was carried out is lost on its way. */
  losesAnswer?: () => boolean
}

const common = ['model_name', 'mode', 'prompt', 'external_task_id', 'callback_url']
const fields: Record<string, { required: string[]; taken: string[] }> = {
  text2video: {
    required: ['prompt'],
    taken: ['negative_prompt', 'cfg_scale', 'aspect_ratio', 'duration', 'sound', 'camera_control'],
  },
  image2video: {
    required: ['image'],
    taken: ['image_tail', 'negative_prompt', 'cfg_scale', 'duration', 'sound', 'static_mask', 'dynamic_masks'],
  },
  'multi-image2video': {
    required: ['image_list', 'prompt'],
    taken: ['negative_prompt', 'aspect_ratio', 'duration'],
  },
  'motion-control': {
    required: ['image_url', 'video_url', 'character_orientation', 'mode'],
    taken: ['keep_original_sound', 'element_list'],
  },
}
const values: Record<string, string[]> = {
  mode: ['std', 'pro'],
  aspect_ratio: ['16:9', '9:16', '1:1'],
  duration: Array.from({ length: 13 }, (_, i) => String(i + 3)),
  sound: ['on', 'off'],
  character_orientation: ['image', 'video'],
  keep_original_sound: ['yes', 'no'],
}

const testAccount = { 'secret-key-of-the-gateway': 'and-its-other-half' }

/** Kling's API on a local port, under `/v1`. Tokens are checked, `external_task_id` is unique. */
export function startKling({
  accounts = testAccount,
  failure = 'Generation failed, please try again.',
  losesAnswer = () => false,
  ...options
}: KlingOptions = {}): Promise<WorkEmulator> {
  const externals = new Map<string, string>()
  const create = (name: string, request: Recorded, desk: Desk): Reply => {
    const fault = faultOf(name, request.body)
    if (fault) return klingError(400, 1201, fault)
    const external = request.body.external_task_id
    if (externals.has(external)) return klingError(400, 1201, 'external_task_id must be unique')
    const work = desk.add(request)
    if (external !== undefined) externals.set(external, work.id)
    return losesAnswer() ? reset : envelope({ ...shown(work, desk.url), task_status: 'submitted' })
  }
  const shown = ({ id, status, body }: Work, url: string): object => ({
    task_id: id,
    task_status: { pending: 'processing', finished: 'succeed', failed: 'failed' }[status],
    task_info: { external_task_id: body.external_task_id ?? '' },
    created_at: 1_722_769_557_708,
    updated_at: 1_722_769_557_708,
    ...(status === 'failed' && { task_status_msg: failure }),
    ...(status === 'finished' && {
      task_result: { videos: [{ id: `video-${id}`, url: `${url}/files/${id}/video.mp4`, duration: '5.1' }] },
      final_unit_deduction: '3.5',
    }),
  })
  const read = (name: string, id: string, desk: Desk): Reply => {
    const work = desk.poll(externals.get(id) ?? id)
    if (work?.path.endsWith(`/${name}`)) return envelope(shown(work, desk.url))
    return klingError(404, 1203, 'The requested resource does not exist')
  }
  const provider = (request: Recorded, desk: Desk): Reply | null => {
    const [code, problem = ''] = tokenFault(request.headers.authorization, accounts) ?? []
    if (code) return klingError(401, code, problem)
    const [, name = '', id] = /^\/v1\/videos\/([\w-]+)(?:\/([\w-]+))?$/.exec(request.path) ?? []
    if (!fields[name] || request.method !== (id ? 'GET' : 'POST')) return null
    return id ? read(name, id, desk) : create(name, request, desk)
  }
  return startWork(provider, klingError(404, 1202, 'The requested method is invalid'), options)
}

function envelope(data: object): Reply {
  return json(200, { code: 0, message: 'SUCCEED', request_id: 'a-request', data })
}

/** Kling's form of an error, which may come with any status, 200 too. */
export function klingError(status: number, code: number, message: string): Reply {
  return json(status, { code, message, request_id: 'a-request' })
}

function faultOf(name: string, body: Json): string | null {
  if (typeof body !== 'object' || body === null) return 'Request body is invalid'
  const { required, taken } = fields[name]!
  const missing = ['model_name', ...required].find(field => body[field] === undefined || body[field] === '')
  if (missing) return `${missing} must not be empty`
  const stranger = unknownField(body, [...common, ...required, ...taken])
  if (stranger) return `${stranger} is not supported`
  const odd = Object.entries(values).find(([field, list]) => body[field] !== undefined && !list.includes(body[field]))
  if (odd) return `${odd[0]} value '${body[odd[0]]}' is invalid`
  if ((body.prompt?.length ?? 0) > 2_500) return 'prompt is too long'
  const list = body.image_list ?? []
  if (list.length > 4) return 'image_list has more than 4 images'
  const images = [body.image, body.image_tail, body.image_url, ...list.map(({ image }: Json) => image)]
  const isOdd = (image: string) => !/^https?:\/\//.test(image) && !/^[A-Za-z0-9+/]+={0,2}$/.test(image)
  if (images.filter(image => image !== undefined).some(isOdd)) return 'File is not in a valid base64 format'
  return body.video_url !== undefined && !/^https?:\/\//.test(body.video_url) ? 'video_url is invalid' : null
}

/** What is wrong with a JSON Web Token (RFC 7519, HS256), read by hand: Kling's code and words. */
export function tokenFault(
  authorization: string | undefined,
  accounts: Record<string, string>,
  nowS = Date.now() / 1000,
): [number, string] | null {
  const [, head, claims, signature] = /^Bearer ([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(authorization ?? '') ?? []
  if (!head || !claims) return [1001, 'Authorization is empty']
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as Json
  const { alg, typ } = read(head)
  const { iss, exp, nbf } = read(claims)
  const key = accounts[iss]
  const expected = createHmac('sha256', key ?? '')
    .update(`${head}.${claims}`)
    .digest('base64url')
  if (alg !== 'HS256' || typ !== 'JWT' || !key || signature !== expected)
    return [1002, 'Authorization signature is invalid']
  if (nbf > nowS) return [1003, 'Authorization is not yet valid']
  return exp > nowS ? null : [1004, 'Authorization has expired']
}
