import { randomUUID } from 'node:crypto'
import {
  type Batch,
  BatchDesk,
  type BatchEmulator,
  type BatchRequest,
  type BatchScript,
  type Json,
  limitOf,
} from './batches.ts'
import { Emulator, json, type Recorded, type Reply, reset } from './emulator.ts'
import { invalidKey, reply } from './openai.ts'

type File = { id: string; bytes: Buffer; filename: string; purpose: string; expiresAt: number | null }
type Fault = { code: string; line: number | null; message: string; param: string | null }
/** What OpenAI has besides the work itself. */
type Office = { desk: BatchDesk; files: Map<string, File>; details: Map<string, Details>; refusal: Fault | null }
type Details = { fields: Json; faults: Fault[]; outputFileId: string | null; errorFileId: string | null }

/** `refuse`: the coming batches fail their validation in these words, whatever is in their files. */
export type OpenAiBatchEmulator = BatchEmulator & {
  files: ReadonlyMap<string, File>
  refuse(fault: Fault | null): void
}

const now = 1_795_132_800
const endpoints = ['/v1/chat/completions', '/v1/embeddings', '/v1/completions', '/v1/responses', '/v1/moderations']
const maxRequests = 50_000
const maxBytes = 200_000_000

/** OpenAI's chat, completions and embeddings, and the files and batches of them; `url` is without the `/v1`. */
export async function startOpenAiBatches({
  port,
  ...script
}: Partial<BatchScript> & { port?: number } = {}): Promise<OpenAiBatchEmulator> {
  const office: Office = { desk: new BatchDesk(reply, script), files: new Map(), details: new Map(), refusal: null }
  const emulator = await Emulator.start(
    async (request, response) => ((await route(request, office)) ?? reply)(request, response),
    port,
  )
  return {
    emulator,
    url: emulator.url,
    script: office.desk.script,
    batches: office.desk.batches,
    files: office.files,
    refuse(fault) {
      office.refusal = fault
    },
    close: () => emulator.close(),
  }
}

function refused(status: number, message: string, param: string | null = null): Reply {
  return json(status, { error: { message, type: 'invalid_request_error', param, code: null } })
}

async function route(request: Recorded, office: Office): Promise<Reply | null> {
  const { method, path, headers } = request
  const [, collection, id, verb] = /^\/v1\/(files|batches)(?:\/([\w-]+))?(?:\/(\w+))?$/.exec(path) ?? []
  if (!collection) return null
  if (!/^Bearer \S+/.test(headers.authorization ?? '')) return invalidKey
  if (collection === 'files') {
    if (method === 'POST' && !id) return uploaded(request, office)
    const file = office.files.get(id ?? '')
    if (!file) return refused(404, `No such File object: ${id}`, 'id')
    if (method === 'GET' && verb === 'content') return contentOf(file)
    if (method === 'GET' && !verb) return json(200, fileObject(file))
    if (method === 'DELETE' && !verb) return deleted(file, office)
    return null
  }
  if (method === 'POST' && !id) return created(request, office)
  if (method === 'GET' && !id) return listed(request, office)
  const batch = office.desk.batches.get(id ?? '')
  if (!batch) return refused(404, `No batch found with id '${id}'.`)
  if (method === 'POST' && verb === 'cancel') return cancelled(batch, office)
  return method === 'GET' && !verb ? polled(batch, office) : null
}

const formFields = ['file', 'purpose', 'expires_after[anchor]', 'expires_after[seconds]']

async function uploaded({ raw, headers }: Recorded, { files }: Office): Promise<Reply> {
  const type = headers['content-type'] ?? ''
  const form = await new Response(new Uint8Array(raw), { headers: { 'content-type': type } })
    .formData()
    .catch(() => null)
  if (!form) return refused(400, 'Could not parse multipart form')
  const unknown = [...form.keys()].find(name => !formFields.includes(name))
  if (unknown) return refused(400, `Unknown parameter: '${unknown}'.`, unknown)
  const [file, purpose, anchor, seconds] = formFields.map(name => form.get(name))
  if (!file || typeof file === 'string') return refused(400, "Missing required parameter: 'file'.", 'file')
  if (purpose !== 'batch') return refused(400, `'${purpose}' is not one of ['batch'] - 'purpose'`, 'purpose')
  if (!file.name.endsWith('.jsonl')) return refused(400, `Invalid file format for Batch API. Must be .jsonl`, 'file')
  if (file.size > maxBytes) return refused(413, 'The file is too large for the Batch API.', 'file')
  const isLife = Number(seconds) >= 3_600 && Number(seconds) <= 2_592_000
  if ((anchor !== null || seconds !== null) && (anchor !== 'created_at' || !isLife))
    return refused(400, "Invalid 'expires_after'.", 'expires_after')
  const bytes = Buffer.from(await file.arrayBuffer())
  const stored = stock(files, bytes, file.name, 'batch', seconds === null ? null : now + Number(seconds))
  return json(200, fileObject(stored))
}

function stock(
  files: Office['files'],
  bytes: Buffer,
  filename: string,
  purpose: string,
  expiresAt: number | null,
): File {
  const file = { id: `file-${randomUUID().replaceAll('-', '')}`, bytes, filename, purpose, expiresAt }
  files.set(file.id, file)
  return file
}

function fileObject({ id, bytes, filename, purpose, expiresAt }: File): Json {
  const states = { status: 'processed', status_details: null, expires_at: expiresAt }
  return { id, object: 'file', bytes: bytes.length, created_at: now, filename, purpose, ...states }
}

function contentOf({ bytes }: File): Reply {
  return (_request, response) =>
    void response
      .writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes.length })
      .end(bytes)
}

function deleted({ id }: File, { files }: Office): Reply {
  files.delete(id)
  return json(200, { id, object: 'file', deleted: true })
}

const createFields = ['input_file_id', 'endpoint', 'completion_window', 'metadata', 'output_expires_after']

function created(request: Recorded, office: Office): Reply {
  const { desk, files, details } = office
  const refusal = desk.script.refusals.shift()
  if (refusal) return refusal
  const fields = request.body ?? {}
  const unknown = Object.keys(fields).find(name => !createFields.includes(name))
  if (unknown) return refused(400, `Unknown parameter: '${unknown}'.`, unknown)
  const { input_file_id: inputFileId, endpoint, completion_window: window, metadata } = fields
  const file = files.get(inputFileId)
  if (file?.purpose !== 'batch') return refused(400, 'Invalid input file.', 'input_file_id')
  if (!endpoints.includes(endpoint)) return refused(400, "Invalid value for 'endpoint'.", 'endpoint')
  if (window !== '24h') return refused(400, "Invalid value for 'completion_window'.", 'completion_window')
  if (!isMetadata(metadata)) return refused(400, "Invalid 'metadata'.", 'metadata')
  const { requests, faults } = requestsIn(file.bytes, endpoint)
  const batch = desk.add('batch_', request, requests)
  const own = office.refusal ? [office.refusal] : faults
  details.set(batch.id, { fields, faults: own, outputFileId: null, errorFileId: null })
  if (desk.script.lost === 0) return json(200, batchObject(batch, office))
  desk.script.lost -= 1
  return reset
}

function isMetadata(metadata: Json): boolean {
  const pairs = Object.entries(metadata ?? {})
  return (
    pairs.length <= 16 &&
    pairs.every(([name, text]) => name.length <= 64 && typeof text === 'string' && text.length <= 512)
  )
}

/** The requests of a file, and what its validation finds. */
function requestsIn(bytes: Buffer, endpoint: string): { requests: BatchRequest[]; faults: Fault[] } {
  const requests: BatchRequest[] = []
  const faults: Fault[] = []
  const ids = new Set<string>()
  const lines = bytes.toString().replace(/\n$/, '').split('\n')
  for (const [index, text] of lines.entries()) {
    const fault = (code: string, message: string, param: string | null = null) =>
      faults.push({ code, line: index + 1, message, param })
    const { custom_id: id, method, url, body, ...others } = parsed(text) ?? {}
    if (!parsed(text)) fault('invalid_json_line', 'This line is not parseable as valid JSON.')
    else if (typeof id !== 'string' || id === '')
      fault('missing_required_parameter', "Missing 'custom_id'.", 'custom_id')
    else if (ids.has(id)) fault('duplicate_custom_id', `The custom_id '${id}' was used before.`, 'custom_id')
    else if (method !== 'POST') fault('invalid_method', "The method must be 'POST'.", 'method')
    else if (url !== endpoint) fault('url_mismatch', "The url does not match the batch's endpoint.", 'url')
    else if (typeof body !== 'object' || body === null) fault('missing_required_parameter', "Missing 'body'.", 'body')
    else if (body.stream === true)
      fault('invalid_request', 'Streaming is not supported in the Batch API.', 'body.stream')
    else if (body.model !== (requests[0]?.body.model ?? body.model))
      fault('model_mismatch', 'One model per file.', 'body.model')
    else if (Object.keys(others).length > 0) fault('unknown_parameter', `Unknown: ${Object.keys(others)}`)
    else requests.push({ id, path: url, body })
    ids.add(id)
  }
  if (bytes.length === 0)
    return { requests, faults: [{ code: 'empty_file', line: null, message: 'The file is empty.', param: null }] }
  if (lines.length > maxRequests)
    faults.push({ code: 'too_many_tasks', line: null, message: 'Too many requests.', param: null })
  return { requests, faults }
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function listed(request: Recorded, office: Office): Reply {
  const { data, more } = office.desk.page(request.query.get('after'), Math.min(limitOf(request, 20), 100))
  const objects = data.map(batch => batchObject(batch, office))
  return json(200, {
    object: 'list',
    data: objects,
    first_id: objects[0]?.id,
    last_id: objects.at(-1)?.id,
    has_more: more,
  })
}

async function polled(batch: Batch, office: Office): Promise<Reply> {
  const own = office.details.get(batch.id)!
  if (own.faults.length > 0) batch.polls += 1
  else await office.desk.poll(batch)
  if (batch.results.length > 0 && !own.outputFileId && !own.errorFileId) writeResults(batch, own, office)
  return json(200, batchObject(batch, office))
}

/** Answers of status 2xx go to the output file, all else to the error file. */
function writeResults(batch: Batch, own: Details, { desk, files }: Office): void {
  const output: string[] = []
  const errors: string[] = []
  for (const [index, { id, answer }] of batch.results.entries()) {
    const response = answer && { status_code: answer.status, request_id: `req_${index}`, body: answer.body }
    const error = answer ? null : notRun[batch.status === 'cancelled' ? 'cancelled' : 'expired']
    const line = JSON.stringify({ id: `batch_req_${index}`, custom_id: id, response, error })
    if (answer?.status === 200) output.push(`${line}\n`)
    else errors.push(`${line}\n`)
  }
  const file = (lines: string[], name: string) =>
    lines.length > 0
      ? stock(files, Buffer.from(desk.script.lines(lines).join('')), `${batch.id}_${name}.jsonl`, 'batch_output', null)
          .id
      : null
  own.outputFileId = file(output, 'output')
  own.errorFileId = file(errors, 'error')
}

const notRun = {
  expired: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
  cancelled: { code: 'batch_cancelled', message: 'This request was not executed because the batch was cancelled.' },
}

function cancelled(batch: Batch, office: Office): Reply {
  if (batch.status !== 'running') return refused(409, `Cannot cancel a batch with status '${statusOf(batch, office)}'.`)
  batch.status = 'stopping'
  return json(200, batchObject(batch, office))
}

function statusOf({ id, status, polls }: Batch, { desk, details }: Office): string {
  if (status === 'stopping') return 'cancelling'
  if (status !== 'running') return status
  if (polls === 0) return 'validating'
  if (details.get(id)!.faults.length > 0) return 'failed'
  return polls === desk.script.polls - 1 && polls > 1 ? 'finalizing' : 'in_progress'
}

function batchObject(batch: Batch, office: Office): Json {
  const { fields, faults, outputFileId, errorFileId } = office.details.get(batch.id)!
  const status = statusOf(batch, office)
  const answered = batch.results.filter(({ answer }) => answer)
  const completed = answered.filter(({ answer }) => answer?.status === 200).length
  const isFailed = status === 'failed'
  return {
    id: batch.id,
    object: 'batch',
    endpoint: fields.endpoint,
    errors: isFailed ? { object: 'list', data: faults } : null,
    input_file_id: fields.input_file_id,
    completion_window: fields.completion_window,
    status,
    output_file_id: outputFileId,
    error_file_id: errorFileId,
    created_at: now,
    in_progress_at: status === 'validating' || isFailed ? null : now + 60,
    expires_at: now + 24 * 60 * 60,
    finalizing_at: null,
    completed_at: status === 'completed' ? now + 3_600 : null,
    failed_at: isFailed ? now + 60 : null,
    expired_at: status === 'expired' ? now + 24 * 60 * 60 : null,
    cancelling_at: null,
    cancelled_at: status === 'cancelled' ? now + 3_600 : null,
    request_counts: isFailed
      ? { total: 0, completed: 0, failed: 0 }
      : { total: batch.requests.length, completed, failed: answered.length - completed },
    metadata: fields.metadata ?? null,
  }
}
