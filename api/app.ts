import Router from '@koa/router'
import Koa from 'koa'
import compress from 'koa-compress'
import type { Services } from '../shared/open-services.ts'
import { openAuth } from './auth/open.ts'
import { dashboard } from './dashboard/middleware.ts'
import { dashboardEndpoints } from './dashboard/routes/index.ts'
import { docsSite } from './docs-site/middleware.ts'
import type { Context, Endpoint } from './endpoint.ts'
import { edgeMiddleware } from './middleware/edge.ts'
import { serveRequest, statusOf } from './request-lifecycle.ts'
import { isAnthropic } from './routes/anthropic-models.ts'
import { endpoints } from './routes/index.ts'
import type { State } from './state.ts'
import { foreignPathError, unmatchedRouteError } from './unmatched-route.ts'

/** Creates the HTTP application over opened services. */
export function createApp(services: Services): Koa<State> {
  const app = new Koa<State>()
  app.silent = true
  app.on('error', error => services.log.debug({ err: error }, 'connection'))
  const router = new Router<State>()
  const staticEndpoints = new Map<string, Endpoint>()
  for (const endpoint of endpoints)
    if (!endpoint.path.includes('{')) staticEndpoints.set(`${endpoint.method.toUpperCase()} ${endpoint.path}`, endpoint)
  for (const endpoint of [...endpoints, ...dashboardEndpoints]) {
    const pattern = endpoint.path.replace(/\{(\w+)\}/g, endpoint.deep ? '*$1' : ':$1')
    router[endpoint.method](pattern, ctx => serveWithKoa(endpoint, ctx as unknown as Context))
  }
  app.use(edgeMiddleware(services, openAuth(services)))
  app.use(answerProbe)
  app.use(compressJson)
  app.use(rejectForeignClients)
  // Paths without parameters, the busiest among them, skip route matching.
  app.use((ctx, next) => {
    const endpoint = staticEndpoints.get(`${ctx.method} ${ctx.path}`)
    return endpoint ? serveWithKoa(endpoint, ctx as unknown as Context) : next()
  })
  app.use(dashboard(services))
  app.use(docsSite(services))
  app.use(router.routes() as Koa.Middleware<State>)
  app.use(rejectUnmatched(router))
  return app
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

/** Throws 404 where Anthropic's clients ask for something else than the route of their path, such as their own files. */
const rejectForeignClients: Koa.Middleware<State> = (ctx, next) => {
  const foreign = isAnthropic(ctx.headers) ? foreignPathError(ctx) : null
  if (foreign) throw foreign
  return next()
}

/** Serves an endpoint and hands the handler's return value to Koa. */
async function serveWithKoa(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { state } = ctx
  const result = await serveRequest(endpoint, state)
  if (endpoint.direct || ctx.headerSent) ctx.respond = false
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
