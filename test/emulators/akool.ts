import { json, type Recorded, type Reply } from './emulator.ts'
import { type Desk, isWebUrl, type Json, startWork, type Work, type WorkOptions } from './slow-work.ts'

const styles = ['realistic', 'beautify', 'lossless', undefined]
const statuses = { pending: 2, finished: 3, failed: 4 }

/** Akool's face swap on a local port: every answer has status 200 and a `code`. */
export function startAkool(options: WorkOptions = {}) {
  return startWork(route, json(404, { message: 'Not Found' }), options)
}

/** A refusal as Akool writes it. */
export function akoolError(code: number, msg: string): Reply {
  return json(200, { code, msg })
}

function route(request: Recorded, desk: Desk): Reply | null {
  const { method, path, headers, query, body } = request
  const key = headers['x-api-key']
  if (!key || key === 'invalid') return akoolError(1101, 'Invalid authorization or The request token has expired')
  if (method === 'POST' && path === '/api/open/v4/faceswap/faceswapPlusByImage') {
    const fault = faultOf(body)
    if (fault) return akoolError(1003, fault)
    const { id } = desk.add(request)
    return json(200, { code: 1000, msg: 'OK', data: { _id: id, url: '', job_id: `job-${id}` } })
  }
  if (method !== 'GET' || path !== '/api/open/v3/faceswap/result/listbyids') return null
  const ids = query.get('_ids')
  if (!ids) return akoolError(1003, '_ids cannot be empty')
  const found = ids.split(',').flatMap(id => desk.poll(id) ?? [])
  return json(200, { code: 1000, msg: 'OK', data: { result: found.map(work => result(work, desk)) } })
}

function faultOf(body: Json): string | null {
  if (!isWebUrl(body?.source_url)) return 'source_url cannot be empty'
  if (!isWebUrl(body.target_url)) return 'target_url cannot be empty'
  if (!styles.includes(body.model_style)) return 'model_style is not known'
  if (body.single_face_mode !== true && !Array.isArray(body.face_mapping)) return 'face_mapping cannot be empty'
  return null
}

function result({ id, status, polls }: Work, { url }: Desk): object {
  return {
    _id: id,
    faceswap_type: 1,
    faceswap_status: status === 'pending' && polls < 2 ? 1 : statuses[status],
    url: status === 'finished' ? `${url}/files/${id}/video.mp4` : '',
    deduction_status: status === 'finished' ? 2 : 1,
    deduction_duration: status === 'finished' ? 11 : 0,
    video_duration: 10.5,
    createdAt: '2026-11-20T00:00:00.000Z',
  }
}
