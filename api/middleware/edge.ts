import type { Middleware } from 'koa'
import type { Services } from '../../shared/open-services.ts'
import type { Auth } from '../auth/accounts.ts'
import type { Context } from '../endpoint.ts'
import { closeRequest, failRequest, openRequest } from '../request-lifecycle.ts'
import type { State } from '../state.ts'

/** The outermost middleware: request id, CORS, error responses, one log line. */
export function edgeMiddleware(services: Services, auth: () => Promise<Auth>): Middleware<State> {
  return async (ctx, next) => {
    const state = openRequest(services, ctx.req, ctx.res, ctx.method, ctx.path)
    state.ctx = ctx as unknown as Context
    state.auth = auth
    state.client.watchForeignWrites()
    ctx.state = state
    try {
      if (ctx.method === 'OPTIONS' && ctx.path.startsWith('/v1/')) preflight(ctx)
      else await next()
    } catch (error) {
      ctx.respond = false
      failRequest(state, error)
    }
    if (ctx.respond !== false) ctx.set(state.client.baseHeaders)
    closeRequest(state, ctx.status)
  }
}

function preflight(ctx: Parameters<Middleware<State>>[0]): void {
  ctx.status = 204
  ctx.set({
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers':
      ctx.get('access-control-request-headers') ||
      'authorization, x-api-key, content-type, idempotency-key, x-request-id, x-session-id',
    'access-control-max-age': '86400',
  })
}
