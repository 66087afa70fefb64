import { anthropicReply, failed } from './anthropic.ts'
import {
  type Batch,
  BatchDesk,
  type BatchEmulator,
  type BatchRequest,
  type BatchResult,
  type BatchScript,
  type Json,
  limitOf,
} from './batches.ts'
import { Emulator, json, type Recorded, type Reply, reset } from './emulator.ts'

const root = '/v1/messages/batches'
const maxRequests = 100_000
const maxBytes = 256_000_000

/** Anthropic's Messages, and Message Batches of them. */
export async function startAnthropicBatches({
  port,
  ...script
}: Partial<BatchScript> & { port?: number } = {}): Promise<BatchEmulator> {
  const reply = anthropicReply()
  const desk = new BatchDesk(reply, script)
  const emulator = await Emulator.start(
    async (request, response) => ((await route(request, desk)) ?? reply)(request, response),
    port,
  )
  return { emulator, url: emulator.url, script: desk.script, batches: desk.batches, close: () => emulator.close() }
}

async function route(request: Recorded, desk: BatchDesk): Promise<Reply | null> {
  const { method, path, headers } = request
  if (path !== root && !path.startsWith(`${root}/`)) return null
  if (!headers['x-api-key'] && !/^Bearer \S+$/.test(headers.authorization ?? ''))
    return failed(401, 'authentication_error', 'x-api-key header is required')
  if (!/^20\d\d-\d\d-\d\d$/.test(String(headers['anthropic-version'] ?? '')))
    return failed(400, 'invalid_request_error', 'anthropic-version: header is required')
  if (path === root) return method === 'POST' ? created(request, desk) : listed(request, desk)
  const [, id, verb] = /^\/(\w+)(?:\/(\w+))?$/.exec(path.slice(root.length)) ?? []
  const batch = desk.batches.get(id ?? '')
  if (!batch) return failed(404, 'not_found_error', 'Not found')
  if (method === 'POST' && verb === 'cancel') return cancelled(batch, request)
  if (method === 'GET' && verb === 'results') return resultsOf(batch, desk)
  if (method === 'DELETE' && !verb) return deleted(batch, desk)
  if (method !== 'GET' || verb) return null
  await desk.poll(batch)
  return json(200, batchObject(batch, request))
}

function created(request: Recorded, desk: BatchDesk): Reply {
  const refusal = desk.script.refusals.shift()
  if (refusal) return refusal
  if (request.raw.length > maxBytes) return failed(413, 'request_too_large', 'Request exceeds the maximum size')
  const found = requestsIn(request.body)
  if (typeof found === 'string') return failed(400, 'invalid_request_error', found)
  const batch = desk.add('msgbatch_', request, found)
  if (desk.script.lost === 0) return json(200, batchObject(batch, request))
  desk.script.lost -= 1
  return reset
}

/** The requests of a body, or what is wrong with it. The parameters of the requests are not checked before they are run. */
function requestsIn(body: Json): BatchRequest[] | string {
  if (typeof body !== 'object' || body === null) return 'The request body is not valid JSON'
  const { requests, ...others } = body
  const [other] = Object.keys(others)
  if (other) return `${other}: Extra inputs are not permitted`
  if (!Array.isArray(requests) || requests.length === 0) return 'requests: List should have at least 1 item'
  if (requests.length > maxRequests) return `requests: List should have at most ${maxRequests} items`
  const ids = new Set<string>()
  for (const [index, { custom_id: id, params, ...more }] of requests.entries()) {
    const [extra] = Object.keys(more)
    if (extra) return `requests.${index}.${extra}: Extra inputs are not permitted`
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(id))
      return `requests.${index}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'`
    if (ids.has(id)) return `requests.${index}.custom_id: must be unique`
    if (typeof params !== 'object' || params === null) return `requests.${index}.params: Field required`
    if (params.stream === true) return `requests.${index}.params.stream: not supported in a batch`
    ids.add(id)
  }
  return requests.map(({ custom_id, params }) => ({ id: custom_id, path: '/v1/messages', body: params }))
}

function listed(request: Recorded, desk: BatchDesk): Reply {
  const { data, more } = desk.page(request.query.get('after_id'), Math.min(limitOf(request, 20), 1_000))
  const objects = data.map(batch => batchObject(batch, request))
  return json(200, {
    data: objects,
    has_more: more,
    first_id: objects[0]?.id ?? null,
    last_id: objects.at(-1)?.id ?? null,
  })
}

function cancelled(batch: Batch, request: Recorded): Reply {
  if (batch.status === 'running') batch.status = 'stopping'
  else if (batch.status !== 'stopping') return failed(400, 'invalid_request_error', 'The batch has ended.')
  return json(200, batchObject(batch, request))
}

function deleted({ id, results }: Batch, desk: BatchDesk): Reply {
  if (results.length === 0) return failed(400, 'invalid_request_error', 'The batch is still being processed.')
  desk.batches.delete(id)
  return json(200, { id, type: 'message_batch_deleted' })
}

function resultsOf(batch: Batch, { script }: BatchDesk): Reply {
  if (batch.results.length === 0) return failed(404, 'not_found_error', 'The batch has no results yet.')
  const lines = batch.results.map(
    result => `${JSON.stringify({ custom_id: result.id, result: resultOf(result, batch) })}\n`,
  )
  return (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/binary' }).end(script.lines(lines).join(''))
}

function resultOf({ answer }: BatchResult, { status }: Batch): Json {
  if (!answer) return { type: status === 'cancelled' ? 'canceled' : 'expired' }
  return answer.status === 200 ? { type: 'succeeded', message: answer.body } : { type: 'errored', error: answer.body }
}

/** Until the batch has ended, every request counts as one that is being processed. */
function batchObject(batch: Batch, { headers }: Recorded): Json {
  const ended = batch.results.length > 0
  const counted = { processing: ended ? 0 : batch.requests.length, succeeded: 0, errored: 0, canceled: 0, expired: 0 }
  for (const result of batch.results) counted[resultOf(result, batch).type as keyof typeof counted] += 1
  return {
    id: batch.id,
    type: 'message_batch',
    processing_status: ended ? 'ended' : batch.status === 'stopping' ? 'canceling' : 'in_progress',
    request_counts: counted,
    created_at: '2026-11-20T00:00:00Z',
    expires_at: '2026-11-21T00:00:00Z',
    ended_at: ended ? '2026-11-20T01:00:00Z' : null,
    cancel_initiated_at: batch.status === 'stopping' || batch.status === 'cancelled' ? '2026-11-20T00:30:00Z' : null,
    archived_at: null,
    results_url: ended ? `http://${headers.host}${root}/${batch.id}/results` : null,
  }
}
