import { createHmac } from 'node:crypto'
import type { Clock } from '../base/time.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import {
  type Dispatcher,
  type Exchange,
  exchange,
  type OutgoingRequest,
  type ResponseSink,
  type Timeouts,
} from '../io/http.ts'
import type { Connection, Credential } from './access.ts'
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

/** Lifetime of a signed token, and the tolerated clock skew of the provider. */
const tokenSeconds = 1_800
const skewSeconds = 5

/** The header that carries an API key, in the form that the provider's row names. */
export function authHeader(auth: ProviderRow['auth'], secret: string, nowMs: number): Record<string, string> {
  switch (auth) {
    case 'none':
      return secret ? { authorization: `Bearer ${secret}` } : {}
    case 'bearer':
      return { authorization: `Bearer ${secret}` }
    case 'jwt':
      return { authorization: `Bearer ${signedToken(secret, nowMs)}` }
    case 'key':
      return { authorization: `Key ${secret}` }
    case 'token':
      return { authorization: `Token ${secret}` }
    default:
      return { [auth]: secret }
  }
}

/** A JSON Web Token (RFC 7519, HS256) from an API key of the form `<access key>:<secret key>`. */
function signedToken(secret: string, nowMs: number): string {
  const [issuer, key = ''] = secret.split(/:(.*)/s)
  const now = Math.floor(nowMs / 1000)
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { iss: issuer, exp: now + tokenSeconds, nbf: now - skewSeconds }
  const unsigned = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${unsigned}.${createHmac('sha256', key).update(unsigned).digest('base64url')}`
}
