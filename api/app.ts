import type Router from '@koa/router'
import Koa from 'koa'
import compress from 'koa-compress'
import type { Services } from '../shared/open-services.ts'
import type { Auth } from './auth/accounts.ts'
import { openAuth } from './auth/open.ts'
import { dashboard } from './dashboard/middleware.ts'
import { docsSite } from './docs-site/middleware.ts'
import type { Context, Endpoint } from './endpoint.ts'
import { closeRequest, failRequest, isPublicPath, openRequest, serveRequest, statusOf } from './request-lifecycle.ts'
import { createRouter, fixedPathEndpoints } from './route-table.ts'
import type { State } from './state.ts'
import { foreignClientOf, foreignPathError, unmatchedRouteError } from './unmatched-route.ts'

/** Creates the HTTP application over opened services. */
export function createApp(services: Services): Koa<State> {
  const app = new Koa<State>()
  app.silent = true
  app.on('error', error => services.log.debug({ err: error }, 'connection'))
  const router = createRouter(serveWithKoa)
  app.use(edgeMiddleware(services, openAuth(services)))
  app.use(answerProbe)
  app.use(compressJson)
  app.use(rejectForeignClients)
  app.use(serveFixedPath)
  app.use(dashboard(services))
  app.use(docsSite(services))
  app.use(router.routes() as Koa.Middleware<State>)
  app.use(rejectUnmatched(router))
  return app
}

/** The outermost middleware: request id, CORS, error responses, one log line. */
function edgeMiddleware(services: Services, auth: () => Promise<Auth>): Koa.Middleware<State> {
  return async (ctx, next) => {
    const state = openRequest(services, ctx.req, ctx.res, ctx.method, ctx.path)
    state.ctx = ctx as unknown as Context
    state.auth = auth
    state.client.watchForeignWrites()
    ctx.state = state
    try {
      if (ctx.method === 'OPTIONS' && isPublicPath(ctx.path)) preflight(ctx)
      else await next()
    } catch (error) {
      ctx.respond = false
      failRequest(state, error)
    }
    if (ctx.respond !== false) ctx.set(state.client.baseHeaders)
    closeRequest(state, ctx.status)
  }
}

function preflight(ctx: Parameters<Koa.Middleware<State>>[0]): void {
  ctx.status = 204
  ctx.set({
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers':
      ctx.get('access-control-request-headers') ||
      'authorization, x-api-key, x-goog-api-key, content-type, idempotency-key, x-request-id, x-session-id',
    'access-control-max-age': '86400',
  })
}

const compressed = compress({ filter: type => type === 'application/json', zstd: false })

/** Compresses the JSON that is read, such as lists; what POST requests answer is mostly small, and may be a secret. */
const compressJson: Koa.Middleware<State> = (ctx, next) => (ctx.method === 'GET' ? compressed(ctx, next) : next())

/** Answers liveness probes of the bare address, and redirects browsers to the dashboard. */
const answerProbe: Koa.Middleware<State> = (ctx, next) => {
  const { method, path } = ctx
  if (method === 'HEAD' && (path === '/' || path === '/api/hello')) {
    ctx.status = 200
    return
  }
  if (method === 'GET' && path === '/') return ctx.redirect('/dashboard')
  return next()
}

/** Throws 404 where clients of other APIs ask for something else than the route of their path, such as their own files. */
const rejectForeignClients: Koa.Middleware<State> = (ctx, next) => {
  const foreign = foreignClientOf(ctx.headers) ? foreignPathError(ctx) : null
  if (foreign) throw foreign
  return next()
}

/** Serves the endpoints that need no route matching. */
const serveFixedPath: Koa.Middleware<State> = (ctx, next) => {
  const endpoint = fixedPathEndpoints(ctx.method)?.get(ctx.path)
  return endpoint ? serveWithKoa(endpoint, ctx as unknown as Context) : next()
}

/** Serves an endpoint and hands the handler's return value to Koa. */
async function serveWithKoa(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { state } = ctx
  const result = await serveRequest(endpoint, state)
  if (endpoint.bypassesKoa || ctx.headerSent) ctx.respond = false
  if (ctx.respond === false || result === undefined) return
  ctx.status = statusOf(endpoint)
  ctx.body = result
}

/** Throws 404, or 405 with `Allow` where the path exists with other methods. */
function rejectUnmatched(router: Router<State>): Koa.Middleware<State> {
  return ctx => {
    throw unmatchedRouteError(ctx, path => [
      ...new Set(router.match(path, ctx.method).path.flatMap(layer => layer.methods)),
    ])
  }
}
