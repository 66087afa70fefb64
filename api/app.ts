import Router from '@koa/router'
import Koa from 'koa'
import type { Services } from '../shared/services.ts'
import { openAuth } from './auth/open.ts'
import { dashboard } from './dashboard/door.ts'
import { dashboardEndpoints } from './dashboard/routes/index.ts'
import type { Context, Endpoint } from './endpoint.ts'
import { edge } from './middleware/edge.ts'
import { serve, statusOf } from './passage.ts'
import { refusedRoute } from './refused-route.ts'
import { endpoints } from './routes/index.ts'
import type { State } from './state.ts'

/** The HTTP application over opened services. */
export function createApp(services: Services): Koa<State> {
  const app = new Koa<State>()
  app.silent = true
  app.on('error', error => services.log.debug({ err: error }, 'connection'))
  const router = new Router<State>()
  const fixed = new Map<string, Endpoint>()
  for (const endpoint of endpoints)
    if (!endpoint.path.includes('{')) fixed.set(`${endpoint.method.toUpperCase()} ${endpoint.path}`, endpoint)
  for (const endpoint of [...endpoints, ...dashboardEndpoints]) {
    const pattern = endpoint.path.replace(/\{(\w+)\}/g, endpoint.deep ? '*$1' : ':$1')
    router[endpoint.method](pattern, ctx => enter(endpoint, ctx as unknown as Context))
  }
  app.use(edge(services, openAuth(services)))
  app.use(answerProbe)
  // Paths without parameters need no matching, and the busiest ones are among them.
  app.use((ctx, next) => {
    const endpoint = fixed.get(`${ctx.method} ${ctx.path}`)
    return endpoint ? enter(endpoint, ctx as unknown as Context) : next()
  })
  app.use(dashboard(services))
  app.use(router.routes() as Koa.Middleware<State>)
  app.use(noRoute(router))
  return app
}

/** What clients and people ask of the bare address: whether a gateway is there, and where its pages are. */
const answerProbe: Koa.Middleware<State> = (ctx, next) => {
  const { method, path } = ctx
  if (method === 'HEAD' && (path === '/' || path === '/api/hello')) {
    ctx.status = 200
    return
  }
  if (method === 'GET' && path === '/') return ctx.redirect('/dashboard')
  return next()
}

/** Serves an endpoint and leaves what its handler returned to the framework. */
async function enter(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { state } = ctx
  const result = await serve(endpoint, state)
  if (endpoint.direct || ctx.headerSent) ctx.respond = false
  if (ctx.respond === false || result === undefined) return
  ctx.status = statusOf(endpoint)
  ctx.body = result
}

/** 404, or 405 with `Allow` where the path exists with other methods. */
function noRoute(router: Router<State>): Koa.Middleware<State> {
  return ctx => {
    const methods = new Set(router.match(ctx.path, ctx.method).path.flatMap(layer => layer.methods))
    throw refusedRoute(ctx, [...methods])
  }
}
