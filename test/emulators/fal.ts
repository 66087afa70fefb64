import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { json, type Recorded, type Reply } from './emulator.ts'
import { models } from './fal-models.ts'
import { faultsOf } from './fal-rules.ts'
import { reporting } from './reports.ts'
import { type Desk, startWork, type Work, type WorkOptions } from './slow-work.ts'

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
  if (action === 'status') return statusOf(desk.poll(work.id)!, desk)
  if (work.status === 'pending') return falError(400, 'Request is still in progress')
  if (cancelled.has(work.id)) return json(499, { detail: 'Request was cancelled', error_type: 'client_cancelled' })
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
  if (work.polls <= 1) return json(202, { ...position, status: 'IN_QUEUE', queue_position: 2 })
  return json(202, { ...position, status: 'IN_PROGRESS', logs: [] })
}

const refusedByPolicy = {
  loc: ['body', 'prompt'],
  msg: 'The content could not be processed because it was flagged by a content checker.',
  type: 'content_policy_violation',
}

/** Completed only means over. A prompt with the word `forbidden` is against the rules. */
function resultOf({ id, path, body, status }: Work, url: string): { status: number; body: object } {
  const { input, output } = models[path.slice(1)]!
  const faults = faultsOf(body, input)
  if (faults.length > 0) return { status: 422, body: { detail: faults } }
  if (/forbidden/.test(body.prompt)) return { status: 422, body: { detail: [refusedByPolicy] } }
  if (status === 'failed') return { status: 500, body: { detail: 'Internal Server Error' } }
  return { status: 200, body: output(`${url}/files/${id}`, body) }
}

function reportOn(work: Work, url: string): object {
  const { status, body } = resultOf(work, url)
  const ids = { request_id: work.id, gateway_request_id: work.id }
  if (status === 200) return { ...ids, status: 'OK', payload: body }
  return { ...ids, status: 'ERROR', error: `Unexpected status code: ${status}`, payload: body }
}
