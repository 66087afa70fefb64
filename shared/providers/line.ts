import { PassThrough, Readable } from 'node:stream'
import type { ProviderRow } from '../catalog/schema.ts'
import {
  collect,
  type Dispatcher,
  ExchangeError,
  type OutgoingRequest,
  type Timeouts,
  transportFault,
} from '../io/http.ts'
import {
  type Protocol,
  type ProviderAnswer,
  type ProviderDownload,
  ProviderError,
  type ProviderLine,
  type ProviderRequest,
  type Source,
} from './contract.ts'
import { type Headers, isObject, parsed } from './fields.ts'
import { encodeForm } from './form.ts'

const mostAnswerBytes = 4 * 1024 * 1024
const shownBodyBytes = 64 * 1024
/** The longest a file may take. */
const downloadMs = 10 * 60_000

export type LineOptions = {
  provider: ProviderRow
  protocol: Protocol
  pool: Dispatcher
  baseUrl: string
  prefix: string
  timeouts: Timeouts
  /** The header that carries the API key, made anew for each request. */
  auth(): Record<string, string>
}

/** A line to a provider for everything but chat: whole answers, JSON mostly, and files as they come. */
export function openLine({ provider, protocol, pool, baseUrl, prefix, timeouts, auth }: LineOptions): ProviderLine {
  const outgoing = (request: ProviderRequest) => {
    const { headers, body } = encoded(request)
    return { method: request.method, path: prefix + request.path, headers: { ...headers, ...auth() }, body }
  }
  // Of an answer in pieces, the work that takes long may be done between them.
  const patience = ({ firstByteMs = timeouts.firstByteTimeoutMs }: ProviderRequest) => ({
    ...timeouts,
    firstByteTimeoutMs: firstByteMs,
    idleTimeoutMs: Math.max(timeouts.idleTimeoutMs, firstByteMs),
  })
  const send = async (request: ProviderRequest): Promise<ProviderAnswer> => {
    const most = request.mostBytes ?? mostAnswerBytes
    const { status, headers, body } = await collect(
      pool,
      outgoing(request),
      patience(request),
      most,
      request.signal,
    ).catch(error => {
      throw faultOf(error)
    })
    if (!isSuccess(status) && !request.allow?.includes(status))
      throw failureOf(protocol, status, headers, body.toString('utf8', 0, shownBodyBytes))
    const text = body.toString()
    return { status, headers, text, json: parsed(text) }
  }
  const receive = async (request: DownloadRequest): Promise<ProviderDownload> => {
    const over = AbortSignal.timeout(downloadMs)
    const signal = request.signal ? AbortSignal.any([over, request.signal]) : over
    try {
      const { firstByteTimeoutMs, idleTimeoutMs } = request.timeouts ?? timeouts
      const { statusCode, headers, body } = await pool.request({
        method: request.method,
        path: request.path,
        headers: request.headers,
        body: request.body,
        headersTimeout: firstByteTimeoutMs,
        bodyTimeout: idleTimeoutMs,
        signal,
      })
      body.on('error', () => {}) // Whoever reads it gets it too.
      return { status: statusCode, headers, stream: body }
    } catch (error) {
      const fault = over.aborted ? 'timeout' : transportFault(error as Error)
      throw faultOf(new ExchangeError(fault, error as Error))
    }
  }
  const open = (path: string, signal?: AbortSignal) =>
    receive({ method: 'GET', path, headers: { ...auth(), 'accept-encoding': 'identity' }, body: null, signal })
  const stream = async (request: ProviderRequest): Promise<ProviderDownload> => {
    const answer = await receive({ ...outgoing(request), signal: request.signal, timeouts: patience(request) })
    if (isSuccess(answer.status) || request.allow?.includes(answer.status))
      return { ...answer, stream: explained(answer.stream) }
    throw failureOf(protocol, answer.status, answer.headers, await beginning(answer.stream))
  }
  return { provider, baseUrl, send, stream, open }
}

type DownloadRequest = OutgoingRequest & { signal?: AbortSignal | undefined; timeouts?: Timeouts }

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

/** The first bytes of an answer that is a failure; the rest is not waited for. */
async function beginning(stream: Readable): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of stream) {
      parts.push(part)
      bytes += part.length
      if (bytes >= shownBodyBytes) break
    }
  } catch {
    // What came tells as much as there is to know.
  }
  return Buffer.concat(parts).toString('utf8', 0, shownBodyBytes)
}

/** A stream whose failures are the provider's. Who destroys it closes the connection at once, whatever it waits for. */
function explained(source: Readable): Readable {
  const stream = new PassThrough()
  stream.on('error', () => {}) // Whoever reads it gets it too.
  stream.once('close', () => source.destroy())
  source.once('error', error => stream.destroy(faultOf(new ExchangeError(transportFault(error), error)) as Error))
  return source.pipe(stream)
}

/**
 * What the protocol makes of an answer that is not 2xx. A 503 that does not speak the provider's JSON is that of a proxy
 * on the way, which may have passed the request on: nobody may take it for a refusal.
 */
function failureOf(protocol: Protocol, status: number, headers: Headers, body: string): ProviderError {
  const isForeign = status === 503 && headers['retry-after'] === undefined && !isObject(parsed(body))
  if (!isForeign) return protocol.failure(status, headers, body)
  return new ProviderError('server_error', 'The provider answered with status 503.', { status })
}

function encoded({ headers = {}, json, parts, file }: ProviderRequest) {
  const accepting = { accept: 'application/json', ...headers }
  if (parts) {
    const { contentType, bytes, body } = encodeForm(parts)
    const own = { 'content-type': contentType, 'content-length': String(bytes) }
    return { headers: { ...accepting, ...own }, body: Readable.from(body(), { objectMode: false }) }
  }
  if (file) {
    const own = { 'content-type': file.contentType, 'content-length': String(file.bytes) }
    return { headers: { ...accepting, ...own }, body: Readable.from(contentOf(file), { objectMode: false }) }
  }
  if (json === undefined) return { headers: accepting, body: null }
  return { headers: { ...accepting, 'content-type': 'application/json' }, body: JSON.stringify(json) }
}

async function* contentOf(file: Source): AsyncIterable<Uint8Array> {
  yield* await file.open()
}

function faultOf(error: unknown): unknown {
  if (!(error instanceof ExchangeError)) return error
  const { fault, unsent, cause } = error
  if (fault === 'timeout')
    return new ProviderError('timeout', 'The provider did not answer in time.', { unsent, cause })
  return new ProviderError('connection', 'The connection to the provider failed.', { unsent, cause })
}
