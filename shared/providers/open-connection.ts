import { PassThrough, Readable } from 'node:stream'
import { isObject } from '../base/is-object.ts'
import { withoutMark } from '../base/json.ts'
import { withBodyParameters, withHeaders } from '../catalog/request-additions.ts'
import type { Deployment, ProviderRow } from '../catalog/schema.ts'
import { uncompressed } from '../io/content-coding.ts'
import {
  collect,
  type Dispatcher,
  ExchangeError,
  isSuccess,
  type OutgoingRequest,
  type Timeouts,
  transportFault,
} from '../io/http.ts'
import type {
  Protocol,
  ProviderAnswer,
  ProviderConnection,
  ProviderDownload,
  ProviderRequest,
  Source,
} from './contract.ts'
import { ProviderError } from './provider-error.ts'
import { type Headers, parseJsonOrNull } from './toolkit/json-fields.ts'
import { encodeForm } from './toolkit/multipart-form.ts'
import { classifyRefusal } from './toolkit/refusal.ts'

const maxAnswerBytes = 4 * 1024 * 1024
const shownBodyBytes = 64 * 1024
/** Maximum duration of a download. */
const downloadMs = 10 * 60_000

type ConnectionOptions = {
  provider: ProviderRow
  protocol: Protocol
  pool: Dispatcher
  proxy?: string | null
  baseUrl: string
  prefix: string
  timeouts: Timeouts
  /** What the model that is called adds to its requests. */
  additions?: Pick<Deployment, 'headers' | 'parameters'> | null
  /** The headers that authorize a request, as they are made for each one (`authorize`). */
  authorize(request: OutgoingRequest): Record<string, string> | Promise<Record<string, string>>
}

/** Opens the connection to a provider for everything but chat: complete responses, mostly JSON, and streamed files. */
export function openConnection({
  provider,
  protocol,
  pool,
  proxy = null,
  baseUrl,
  prefix,
  timeouts,
  additions = null,
  authorize,
}: ConnectionOptions): ProviderConnection {
  const authorized = async (plain: OutgoingRequest): Promise<OutgoingRequest> => {
    const request = additions ? withAdditions(plain, additions) : plain
    const headers = await authorize(request)
    return { ...request, headers: { ...request.headers, ...headers } }
  }
  const outgoing = (request: ProviderRequest) =>
    authorized({ method: request.method, path: prefix + request.path, ...encodeRequest(request) })
  // A chunked response may do its long-running work between chunks.
  const timeoutsFor = ({ firstByteMs = timeouts.firstByteTimeoutMs }: ProviderRequest) => ({
    ...timeouts,
    firstByteTimeoutMs: firstByteMs,
    idleTimeoutMs: Math.max(timeouts.idleTimeoutMs, firstByteMs),
  })
  const send = async (request: ProviderRequest): Promise<ProviderAnswer> => {
    const max = request.maxBytes ?? maxAnswerBytes
    const {
      status,
      headers,
      body: bytes,
    } = await collect(pool, await outgoing(request), timeoutsFor(request), max, {
      signal: request.signal,
    }).catch(error => {
      throw toProviderError(error)
    })
    const body = withoutMark(bytes)
    if (!isSuccess(status) && !request.allow?.includes(status))
      throw failureOf(protocol, status, headers, body.toString('utf8', 0, shownBodyBytes))
    const text = body.toString()
    return { status, headers, text, json: parseJsonOrNull(text) }
  }
  const receive = async (request: DownloadRequest): Promise<ProviderDownload> => {
    const timeout = AbortSignal.timeout(downloadMs)
    const signal = request.signal ? AbortSignal.any([timeout, request.signal]) : timeout
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
      body.on('error', () => {}) // The reader receives the error too.
      return { status: statusCode, headers, stream: body }
    } catch (error) {
      const fault = timeout.aborted ? 'timeout' : transportFault(error as Error)
      throw toProviderError(new ExchangeError(fault, error as Error))
    }
  }
  const open = async (path: string, signal?: AbortSignal) => {
    const request = await authorized({ method: 'GET', path, headers: { ...uncompressed }, body: null })
    return receive({ ...request, signal })
  }
  const stream = async (request: ProviderRequest): Promise<ProviderDownload> => {
    const sent = await outgoing(request)
    const answer = await receive({ ...sent, signal: request.signal, timeouts: timeoutsFor(request) })
    if (isSuccess(answer.status) || request.allow?.includes(answer.status))
      return { ...answer, stream: withProviderErrors(answer.stream) }
    throw failureOf(protocol, answer.status, answer.headers, await readBeginning(answer.stream))
  }
  return { provider, baseUrl, proxy, send, stream, open }
}

function withAdditions(
  request: OutgoingRequest,
  { headers, parameters }: Pick<Deployment, 'headers' | 'parameters'>,
): OutgoingRequest {
  return {
    ...request,
    headers: headers ? withHeaders(request.headers, headers) : request.headers,
    body: parameters ? withBodyParameters(request.body, parameters) : request.body,
  }
}

type DownloadRequest = OutgoingRequest & { signal?: AbortSignal | undefined; timeouts?: Timeouts }

/** The first bytes of an error response; the rest is not awaited. */
async function readBeginning(stream: Readable): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const part of stream) {
      parts.push(part)
      bytes += part.length
      if (bytes >= shownBodyBytes) break
    }
  } catch {
    // The bytes received so far are sufficient.
  }
  return Buffer.concat(parts).toString('utf8', 0, shownBodyBytes)
}

/** A stream whose errors are ProviderErrors. Destroying it closes the connection at once, even during a wait. */
function withProviderErrors(source: Readable): Readable {
  const stream = new PassThrough()
  stream.on('error', () => {}) // The reader receives the error too.
  stream.once('close', () => source.destroy())
  source.once('error', error =>
    stream.destroy(toProviderError(new ExchangeError(transportFault(error), error)) as Error),
  )
  return source.pipe(stream)
}

/**
 * Classifies a response outside 2xx. A 503 without the provider's JSON comes from a proxy on the way, which may have
 * forwarded the request: it must not count as a refusal.
 */
function failureOf(protocol: Protocol, status: number, headers: Headers, body: string): ProviderError {
  const isForeign = status === 503 && headers['retry-after'] === undefined && !isObject(parseJsonOrNull(body))
  if (!isForeign) return classifyRefusal(protocol, status, headers, body)
  return new ProviderError('server_error', 'The provider answered with status 503.', { status })
}

function encodeRequest({ headers = {}, json, parts, file }: ProviderRequest) {
  const baseHeaders = { accept: 'application/json', ...uncompressed, ...headers }
  if (parts) {
    const { contentType, bytes, body } = encodeForm(parts)
    const bodyHeaders = { 'content-type': contentType, 'content-length': String(bytes) }
    return { headers: { ...baseHeaders, ...bodyHeaders }, body: Readable.from(body(), { objectMode: false }) }
  }
  if (file) {
    const bodyHeaders = { 'content-type': file.contentType, 'content-length': String(file.bytes) }
    return { headers: { ...baseHeaders, ...bodyHeaders }, body: Readable.from(contentOf(file), { objectMode: false }) }
  }
  if (json === undefined) return { headers: baseHeaders, body: null }
  return { headers: { ...baseHeaders, 'content-type': 'application/json' }, body: JSON.stringify(json) }
}

async function* contentOf(file: Source): AsyncIterable<Uint8Array> {
  yield* await file.open()
}

function toProviderError(error: unknown): unknown {
  if (!(error instanceof ExchangeError)) return error
  const { fault, unsent, cause } = error
  if (fault === 'timeout')
    return new ProviderError('timeout', 'The provider did not answer in time.', { unsent, cause })
  if (fault === 'coding') return new ProviderError('invalid_response', 'The answer cannot be decompressed.', { cause })
  return new ProviderError('connection', 'The connection to the provider failed.', { unsent, cause })
}

/** Wraps a connection so that `onSend` runs before each request is sent: from then on the provider may have received it. */
export function trackConnection(connection: ProviderConnection, onSend: () => void): ProviderConnection {
  const track =
    <Request, Answer>(call: (request: Request) => Answer) =>
    (request: Request): Answer => {
      onSend()
      return call(request)
    }
  return { ...connection, send: track(connection.send), stream: track(connection.stream) }
}
