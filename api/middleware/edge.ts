import type { Middleware } from 'koa'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { isOutage, unavailable } from '../../shared/io/outage.ts'
import type { Services } from '../../shared/services.ts'
import type { Auth } from '../auth/accounts.ts'
import type { State } from '../endpoint.ts'
import { HttpClient } from '../http-client.ts'
import { releaseWhenSent } from './body.ts'

/** Our id of a request: a valid one that came with it, else a new one. */
export function requestIdOf(inbound: unknown): string {
  return typeof inbound === 'string' && validRequestId.test(inbound) ? inbound : newId('req')
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/

/** Pages of any origin may call and may read every header (contract §1): /v1 takes keys, never the dashboard's cookies. */
export const corsHeaders = { 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' }

/** The outermost layer: request id, CORS, errors to bodies, one log line. */
export function edge(services: Services, auth: () => Promise<Auth>): Middleware<State> {
  return async (ctx, next) => {
    const { clock, log } = services
    const requestId = requestIdOf(ctx.req.headers['x-request-id'])
    const open = ctx.path.startsWith('/v1/')
    const headers: Record<string, string> = open
      ? { 'x-request-id': requestId, ...corsHeaders }
      : { 'x-request-id': requestId }
    const { state } = ctx
    state.services = services
    state.auth = auth
    state.requestId = requestId
    state.startedMs = clock.now()
    state.wide = {}
    state.client = new HttpClient(ctx.res, headers)
    state.held = []
    try {
      if (open && ctx.method === 'OPTIONS') preflight(ctx)
      else await next()
    } catch (error) {
      const failure = publicError(error)
      if (failure.status >= 500)
        log[failure.code === 'internal_error' ? 'error' : 'warn'](
          { requestId, code: failure.code, err: failure.cause ?? error },
          failure.message,
        )
      state.wide.errorCode = failure.code
      respondWithError(ctx, failure)
    }
    if (ctx.respond !== false) ctx.set(headers)
    releaseWhenSent(ctx.res, state.held)
    logLine(ctx, services)
  }
}

type EdgeContext = Parameters<Middleware<State>>[0]

function preflight(ctx: EdgeContext): void {
  ctx.status = 204
  ctx.set({
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers':
      ctx.get('access-control-request-headers') ||
      'authorization, x-api-key, content-type, idempotency-key, x-request-id, x-session-id',
    'access-control-max-age': '86400',
  })
}

/** What the client may know of an error: ours as they are, anything else as an internal error. */
export function publicError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  if (isOutage(error)) return unavailable(error)
  return new GatewayError(
    'internal_error',
    'Something went wrong on our side. Quote the request id when you report it.',
    { cause: error },
  )
}

function respondWithError(ctx: EdgeContext, failure: GatewayError): void {
  if (ctx.res.headersSent) return void ctx.res.destroy()
  ctx.respond = true
  ctx.status = failure.status
  ctx.body = failure.body
  ctx.set(failure.headers)
  if (failure.status === 401) ctx.set('www-authenticate', 'Bearer')
  if (failure.status === 409) ctx.set('x-should-retry', String(failure.code === 'idempotency_in_progress'))
}

function logLine(ctx: EdgeContext, { clock, log }: Services): void {
  const { requestId, startedMs, wide, client } = ctx.state
  const status = client.gone && !ctx.res.writableEnded ? 499 : ctx.res.headersSent ? ctx.res.statusCode : ctx.status
  if (ctx.path === '/healthz' || ctx.path === '/readyz') return
  log.info(
    { requestId, method: ctx.method, path: ctx.path, status, durationMs: clock.now() - startedMs, ...wide },
    'request',
  )
}
