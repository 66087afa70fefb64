import { json, type Recorded, type Reply } from './emulator.ts'
import { type Desk, isWebUrl, type Json, startWork, type Work, type WorkOptions } from './slow-work.ts'

const models = ['lipsync-2', 'lipsync-2-pro', 'lipsync-1.9.0-beta', 'react-1', 'sync-3']
const modes = ['cut_off', 'loop', 'bounce', 'silence', 'remap']

/** Sync's API v2 on a local port. */
export function startSync(options: WorkOptions = {}) {
  return startWork(route, syncError(404, 'Not found'), options)
}

/** An error as Sync writes it. */
export function syncError(status: number, message: string | string[]): Reply {
  return json(status, { message, statusCode: status })
}

function route(request: Recorded, desk: Desk): Reply | null {
  const { method, path, headers, body } = request
  const key = headers['x-api-key']
  if (!key || key === 'invalid') return syncError(401, 'Unauthorized')
  if (method === 'POST' && path === '/v2/generate') {
    const fault = faultOf(body)
    return fault ? syncError(400, fault) : json(201, generation(desk.add(request), desk))
  }
  if (method === 'POST' && path === '/v2/analyze/cost')
    return json(200, [{ estimatedFrameCount: 300, estimatedGenerationCost: 0.5 }])
  if (method === 'GET' && path === '/v2/generations')
    return json(
      200,
      [...desk.works.values()].map(work => generation(work, desk)),
    )
  const [, id] = /^\/v2\/generate\/([\w-]+)$/.exec(path) ?? []
  const work = method === 'GET' && id ? desk.poll(id) : undefined
  return work ? json(200, generation(work, desk)) : null
}

function faultOf(body: Json): string[] | null {
  const inputs: Json[] = Array.isArray(body?.input) ? body.input : []
  const faults = [
    !models.includes(body?.model) && `model must be one of ${models.join(', ')}`,
    inputs.filter(({ type }) => type === 'video').length !== 1 && 'input must include one video input item',
    !inputs.some(({ type }) => type === 'audio' || type === 'text') && 'input must include an audio input item',
    inputs.some(({ type, url }) => type !== 'text' && !isWebUrl(url)) && 'input.url must be a URL address',
    body?.options?.sync_mode && !modes.includes(body.options.sync_mode) && 'options.sync_mode is not known',
    body?.outputFileName && !/^[\w-]{1,255}$/.test(body.outputFileName) && 'outputFileName has other characters',
  ].filter(fault => typeof fault === 'string')
  return faults.length > 0 ? faults : null
}

const statuses = { pending: 'PROCESSING', finished: 'COMPLETED', failed: 'FAILED' }

function generation({ id, status, body, polls }: Work, { url }: Desk): object {
  return {
    id,
    createdAt: '2026-11-20T00:00:00Z',
    status: status === 'pending' && polls < 1 ? 'PENDING' : statuses[status],
    model: body.model,
    input: body.input,
    options: body.options ?? {},
    webhookUrl: body.webhookUrl ?? null,
    outputUrl: status === 'finished' ? `${url}/files/${id}/video.mp4` : null,
    outputMediaUrl: status === 'finished' ? `${url}/files/${id}/video.mp4` : null,
    outputDuration: status === 'finished' ? 3.2 : null,
    error: status === 'failed' ? 'Could not process the input video' : null,
    error_code: status === 'failed' ? 'generation_pipeline_failed' : null,
    errorCode: status === 'failed' ? 'generation_pipeline_failed' : null,
  }
}
