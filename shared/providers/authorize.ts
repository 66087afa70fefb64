import type { Clock } from '../base/time.ts'
import {
  type Dispatcher,
  type Exchange,
  exchange,
  type OutgoingRequest,
  type ResponseSink,
  type Timeouts,
} from '../io/http.ts'
import { authHeader } from './auth.ts'
import type { Connection, Credential } from './connections.ts'
import type { Identity } from './identities/identity.ts'

/** The headers that authorize a request: at once for an API key, later for an identity, which rejects with a ProviderError. */
export function authorize(
  { auth, origin }: Pick<Connection, 'auth' | 'origin'>,
  { secret, identity }: Credential,
  request: OutgoingRequest,
  clock: Clock,
): Record<string, string> | Promise<Record<string, string>> {
  if (!identity) return authHeader(auth, secret, clock.now())
  const { method, path, headers, body } = request
  return identity.authorize({ method, url: origin + path, headers, body })
}

type AuthorizedExchange = { pool: Dispatcher; request: OutgoingRequest; timeouts: Timeouts; sink: ResponseSink }

/** An exchange that begins once its request is authorized; a failure of that is reported as its error. */
export function exchangeAuthorized(
  { identity }: Pick<Credential, 'identity'>,
  authorizing: Promise<Record<string, string>>,
  { pool, request, timeouts, sink }: AuthorizedExchange,
): Exchange {
  let running: Exchange | null = null
  let isPaused = false
  let isAborted = false
  const watched = identity ? watchRefusals(sink, identity) : sink
  authorizing.then(
    headers => {
      if (isAborted) return
      running = exchange(pool, { ...request, headers: { ...request.headers, ...headers } }, timeouts, watched)
      if (isPaused) running.pause()
    },
    (error: Error) => {
      if (!isAborted) sink.onError('connection', error)
    },
  )
  return {
    abort() {
      if (running || isAborted) return running?.abort()
      isAborted = true
      sink.onError('aborted', new Error('aborted by the caller'))
    },
    pause() {
      isPaused = true
      running?.pause()
    },
    resume() {
      isPaused = false
      running?.resume()
    },
  }
}

function watchRefusals(sink: ResponseSink, identity: Identity): ResponseSink {
  return {
    onSent: () => sink.onSent?.(),
    onHead(status, headers) {
      if (identity.isRefusal?.(status, headers) ?? status === 401) identity.recordRefusal()
      sink.onHead(status, headers)
    },
    onData: chunk => sink.onData(chunk),
    onEnd: () => sink.onEnd(),
    onError: (fault, error) => sink.onError(fault, error),
  }
}
