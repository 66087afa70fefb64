import { createHmac } from 'node:crypto'
import { json, type Recorded, type Reply } from './emulator.ts'
import { reporting } from './reports.ts'
import { type Desk, type Json, startWork, unknownField, type Work, type WorkOptions } from './slow-work.ts'

export const accountSecret = `whsec_${Buffer.from('the secret of the account').toString('base64')}`

type Ending = 'canceled' | 'aborted' | 'removed'
type Options = WorkOptions & {
  /** The output of a finished prediction, given where its files are and what went in. */
  output?: (files: string, input: Json) => unknown
}

/** A model whose schema is known; of others any input is taken. */
const flux = '/v1/models/black-forest-labs/flux-schnell/predictions'
const fluxSizes: Record<string, string> = {
  '1:1': '1024x1024',
  '16:9': '1344x768',
  '9:16': '768x1344',
  '21:9': '1536x640',
  '9:21': '640x1536',
  '3:2': '1216x832',
  '2:3': '832x1216',
  '4:3': '1152x896',
  '3:4': '896x1152',
  '5:4': '1088x896',
  '4:5': '896x1088',
}
const fluxRules: Record<string, (value: Json) => boolean> = {
  prompt: value => typeof value === 'string' && value !== '',
  aspect_ratio: value => Object.hasOwn(fluxSizes, value),
  num_outputs: value => Number.isInteger(value) && value >= 1 && value <= 4,
  num_inference_steps: value => Number.isInteger(value) && value >= 1 && value <= 4,
  seed: Number.isInteger,
  output_format: value => ['webp', 'jpg', 'png'].includes(value),
  output_quality: value => Number.isInteger(value) && value >= 0 && value <= 100,
  disable_safety_checker: value => typeof value === 'boolean',
  go_fast: value => typeof value === 'boolean',
  megapixels: value => ['1', '0.25'].includes(value),
}

function fluxFault(input: Json): string | undefined {
  const stranger = unknownField(input, Object.keys(fluxRules))
  if (stranger) return `input: Additional property ${stranger} is not allowed`
  if (input.prompt === undefined) return 'input: prompt is required'
  const wrong = Object.keys(input).find(name => !fluxRules[name]!(input[name]))
  return wrong && `input.${wrong}: Invalid value`
}

function fluxImages(files: string, { aspect_ratio = '1:1', num_outputs = 1, output_format = 'webp' }: Json): string[] {
  const type = output_format === 'jpg' ? 'jpeg' : output_format
  const size = fluxSizes[aspect_ratio]
  return Array.from({ length: num_outputs }, (_, i) => `${files}/image-${size}-${i}.${type}`)
}

/** Replicate's API on a local port, under `/v1`. `finish` and `fail` report to the prediction's `webhook`. */
export async function startReplicate({ output = files => `${files}/video.mp4`, ...options }: Options = {}) {
  const endings = new Map<string, Ending>()
  const outputOf = (work: Work) => (work.path === flux ? fluxImages : output)
  const view = (work: Work, url: string) => prediction(work, url, endings.get(work.id), outputOf(work))
  const started = await startWork(
    (request, desk) => route(request, desk, endings, view),
    replicateError(404, 'Not found.'),
    options,
  )
  const callback = (id: string, nowMs = Date.now()) => {
    const work = started.works.get(id)!
    const body = Buffer.from(JSON.stringify(view(work, started.url)))
    return { url: work.body.webhook ?? null, body, headers: signed(id, body, nowMs) }
  }
  return {
    ...reporting(started, callback),
    /** Ends a prediction in another way. */
    endAs(id: string, ending: Ending) {
      endings.set(id, ending)
      started[ending === 'removed' ? 'finish' : 'fail'](id)
    },
  }
}

/** An error as Replicate writes it. */
export function replicateError(status: number, detail: string): Reply {
  return json(status, { title: 'Error', detail, status })
}

/** The headers of a report signed by Replicate (Standard Webhooks). */
export function signed(id: string, body: Buffer, nowMs: number, secret = accountSecret): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signature = createHmac('sha256', key).update(`msg_${id}.${timestamp}.`).update(body).digest('base64')
  return { 'webhook-id': `msg_${id}`, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}

type View = (work: Work, url: string) => object

function route(request: Recorded, desk: Desk, endings: Map<string, Ending>, view: View): Reply | null {
  const { method, path, headers } = request
  if (!headers.authorization?.startsWith('Bearer '))
    return replicateError(401, 'You did not pass an authentication token')
  if (method === 'GET' && path === '/v1/webhooks/default/secret') return json(200, { key: accountSecret })
  if (method === 'GET' && path === '/v1/predictions')
    return json(200, {
      previous: null,
      next: null,
      results: [...desk.works.values()].map(work => view(work, desk.url)),
    })
  if (method === 'POST' && createPaths.some(create => create.test(path))) return created(request, desk, view)
  const [, id, action] = /^\/v1\/predictions\/([\w-]+)(?:\/(cancel))?$/.exec(path) ?? []
  if (!id || !desk.works.has(id)) return null
  if (method === 'POST' && action === 'cancel') {
    if (desk.works.get(id)!.status === 'pending') endings.set(id, 'canceled')
    if (endings.has(id)) desk.end('failed', id)
    return json(200, view(desk.works.get(id)!, desk.url))
  }
  return method === 'GET' && !action ? json(200, view(desk.poll(id)!, desk.url)) : null
}

const createPaths = [/^\/v1\/predictions$/, /^\/v1\/(models|deployments)\/[\w.-]+\/[\w.-]+\/predictions$/]
const events = ['start', 'output', 'logs', 'completed']

const noVersion = json(422, {
  title: 'Invalid version or not permitted',
  detail: "The specified version does not exist (or perhaps you don't have permission to use it?)",
  status: 422,
})

function created(request: Recorded, desk: Desk, view: View): Reply {
  const { body, path } = request
  const versioned = path === '/v1/predictions'
  if (versioned && !/^[\da-f]{64}$/.test(body?.version ?? '')) return noVersion
  const faults = [
    (typeof body?.input !== 'object' || body.input === null) && 'input is required',
    !versioned && body?.version && 'version: is not allowed here',
    body?.webhook && !/^https?:\/\//.test(body.webhook) && 'webhook: must be a URL',
    body?.webhook_events_filter?.some((event: string) => !events.includes(event)) &&
      'webhook_events_filter: unknown event',
    path === flux && fluxFault(body?.input ?? {}),
  ].filter(fault => typeof fault === 'string')
  if (faults.length > 0) return replicateError(422, `- ${faults.join('\n- ')}\n`)
  return json(201, view(desk.add(request), desk.url))
}

function prediction(
  work: Work,
  url: string,
  ending: Ending | undefined,
  output: NonNullable<Options['output']>,
): object {
  const { id, path, body, status, polls } = work
  const at = '2026-11-20T00:00:00Z'
  const finished = status === 'finished'
  const statuses = { pending: polls > 1 ? 'processing' : 'starting', finished: 'succeeded', failed: 'failed' }
  const shown = ending === 'canceled' || ending === 'aborted' ? ending : statuses[status]
  return {
    id,
    model: path.split('/').slice(3, 5).join('/') || 'o/m',
    version: body.version ?? 'hidden',
    status: shown,
    input: ending === 'removed' ? {} : body.input,
    output: finished && ending !== 'removed' ? output(`${url}/files/${id}`, body.input) : null,
    error: shown === 'failed' ? 'CUDA out of memory' : null,
    logs: '',
    metrics: finished ? { predict_time: 12.5, total_time: 14.1 } : {},
    urls: { get: `${url}/v1/predictions/${id}`, cancel: `${url}/v1/predictions/${id}/cancel` },
    created_at: at,
    ...(status !== 'pending' && { started_at: at, completed_at: at }),
    data_removed: ending === 'removed',
    ...(body.webhook && { webhook: body.webhook }),
  }
}
