import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { ProviderRow } from '../catalog/schema.ts'
import { collect, type Dispatcher, ExchangeError, type Timeouts, transportFault } from '../io/http.ts'
import {
  type Protocol,
  type ProviderAnswer,
  type ProviderDownload,
  ProviderError,
  type ProviderLine,
  type ProviderRequest,
} from './contract.ts'
import { type Headers, isObject, parsed } from './fields.ts'

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

/** A line to a provider for slow work: whole answers, JSON mostly. */
export function openLine({ provider, protocol, pool, baseUrl, prefix, timeouts, auth }: LineOptions): ProviderLine {
  const send = async (request: ProviderRequest): Promise<ProviderAnswer> => {
    const { headers, body } = await encoded(request)
    const outgoing = { method: request.method, path: prefix + request.path, headers: { ...headers, ...auth() }, body }
    const {
      status,
      headers: answered,
      body: bytes,
    } = await collect(pool, outgoing, timeouts, mostAnswerBytes).catch(error => {
      throw faultOf(error)
    })
    if ((status < 200 || status > 299) && !request.allow?.includes(status))
      throw failureOf(protocol, status, answered, bytes.toString('utf8', 0, shownBodyBytes))
    const text = bytes.toString()
    return { status, headers: answered, text, json: parsed(text) }
  }
  const open = async (path: string): Promise<ProviderDownload> => {
    const signal = AbortSignal.timeout(downloadMs)
    try {
      const { statusCode, headers, body } = await pool.request({
        method: 'GET',
        path,
        headers: { ...auth(), 'accept-encoding': 'identity' },
        headersTimeout: timeouts.firstByteTimeoutMs,
        bodyTimeout: timeouts.idleTimeoutMs,
        signal,
      })
      body.on('error', () => {}) // Whoever reads it gets it too.
      return { status: statusCode, headers, stream: body }
    } catch (error) {
      const fault = signal.aborted ? 'timeout' : transportFault(error as Error)
      throw faultOf(new ExchangeError(fault, error as Error))
    }
  }
  return { provider, baseUrl, send, open }
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

async function encoded({ headers = {}, json, form }: ProviderRequest) {
  const accepting = { accept: 'application/json', ...headers }
  if (form) {
    const whole = new Response(form)
    const type = whole.headers.get('content-type')!
    return { headers: { ...accepting, 'content-type': type }, body: await buffer(Readable.fromWeb(whole.body!)) }
  }
  if (json === undefined) return { headers: accepting, body: null }
  return { headers: { ...accepting, 'content-type': 'application/json' }, body: JSON.stringify(json) }
}

function faultOf(error: unknown): unknown {
  if (!(error instanceof ExchangeError)) return error
  const { fault, unsent, cause } = error
  if (fault === 'timeout')
    return new ProviderError('timeout', 'The provider did not answer in time.', { unsent, cause })
  return new ProviderError('connection', 'The connection to the provider failed.', { unsent, cause })
}
