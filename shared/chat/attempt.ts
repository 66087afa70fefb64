import type { ResponseHeaders, TransportFault } from '../io/http.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type Call, type DirectAdapter, type Protocol, ProviderError } from '../providers/contract.ts'
import type { Environment, Upstreams } from '../providers/upstreams.ts'
import type { Client } from './client.ts'
import type { KeepAlive, Silent } from './keep-alive.ts'
import type { Relay } from './relay.ts'

const mostAnswerBytes = 64 * 1024 * 1024
const mostErrorBytes = 64 * 1024

/** A call that reached its provider. */
export type Attempt<K extends DirectKind> = {
  upstreams: Upstreams
  environment: Environment
  adapter: DirectAdapter<K>
  protocol: Protocol
  call: Call<K>
  client: Client
}

/** The client left while the provider worked. */
export class ClientGone extends Error {
  override name = 'ClientGone'
}

/** Sends a call and resolves with the parsed whole answer. Rejects with a ProviderError, ClientGone, or the adapter's GatewayError. */
export function wholeAnswer<K extends DirectKind>(attempt: Attempt<K>, onFirstByte: () => void): Promise<unknown> {
  const { upstreams, environment, adapter, protocol, call, client } = attempt
  return new Promise((resolve, reject) => {
    let status = 0
    let headers: ResponseHeaders = {}
    const parts: Buffer[] = []
    let bytes = 0
    const exchange = upstreams.send(call.target, environment, adapter.request(call), {
      onHead(code, head) {
        status = code
        headers = head
        onFirstByte()
      },
      onData(chunk) {
        bytes += chunk.length
        const failed = status < 200 || status > 299
        if (!failed && bytes > mostAnswerBytes) {
          exchange.abort()
          reject(new ProviderError('invalid_response', 'the answer is larger than 64 MB'))
        } else if (!failed || bytes <= mostErrorBytes) parts.push(chunk)
      },
      onEnd() {
        const body = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
        if (status < 200 || status > 299) return reject(protocol.failure(status, headers, body.toString()))
        try {
          resolve(JSON.parse(body.toString()))
        } catch (cause) {
          reject(new ProviderError('invalid_response', 'the answer is not JSON', { status, cause }))
        }
      },
      onError: (fault, error) => reject(transportError(fault, error, client)),
    })
    client.onGone(() => exchange.abort())
  })
}

/** What a streaming attempt came to once bytes had been written, or before. */
export type Streamed = { started: boolean; error: Error | null }

/**
 * Sends a call and relays its events to the client as they come. `open` is called before the first write. Resolves when
 * the provider has finished or failed; an error before anything was written leaves the client untouched.
 */
export function streamAnswer<K extends DirectKind>(
  attempt: Attempt<K>,
  relay: Relay,
  keepAlive: KeepAlive,
  open: () => void,
  onFirstByte: () => void,
): Promise<Streamed> {
  const { upstreams, environment, adapter, protocol, call, client } = attempt
  return new Promise((resolve, reject) => {
    let status = 0
    let headers: ResponseHeaders = {}
    let started = false
    let errorBody = ''
    const silent: Silent = {
      ticks: 0,
      keepAlive() {
        start()
        client.write(': keep-alive\n\n', 'latin1')
      },
    }
    const start = () => {
      if (started) return
      started = true
      open()
    }
    const finish = (error: Error | null) => {
      keepAlive.unwatch(silent)
      resolve({ started, error })
    }
    const guarded = (step: () => string) => {
      try {
        const text = step()
        if (text === '') return
        start()
        silent.ticks = 0
        if (client.write(text, relay.encoding)) return
        exchange.pause()
        client.onDrain(() => exchange.resume())
      } catch (error) {
        exchange.abort()
        finish(error as Error)
      }
    }
    let request: ReturnType<typeof adapter.request>
    try {
      request = adapter.request(call)
    } catch (error) {
      return reject(error)
    }
    keepAlive.watch(silent)
    const exchange = upstreams.send(call.target, environment, request, {
      onHead(code, head) {
        status = code
        headers = head
        onFirstByte()
      },
      onData(chunk) {
        if (status === 200) guarded(() => relay.feed(chunk))
        else if (errorBody.length < mostErrorBytes) errorBody += chunk.toString()
      },
      onEnd() {
        if (status !== 200) return finish(protocol.failure(status, headers, errorBody))
        guarded(() => relay.close())
        finish(null)
      },
      onError: (fault, error) => finish(transportError(fault, error, client)),
    })
    client.onGone(() => exchange.abort())
  })
}

function transportError(fault: TransportFault, cause: Error, client: Client): Error {
  if (client.gone) return new ClientGone('the client went away')
  if (fault === 'timeout') return new ProviderError('timeout', 'the provider took too long', { cause })
  return new ProviderError('connection', 'the connection to the provider failed', { cause })
}
