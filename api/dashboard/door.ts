import { existsSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type Koa from 'koa'
import sirv, { type RequestHandler } from 'sirv'
import { GatewayError } from '../../shared/base/errors.ts'
import { parseJson, refuseNul } from '../../shared/base/json.ts'
import { validate } from '../../shared/base/validate.ts'
import type { Logger } from '../../shared/io/log.ts'
import type { Services } from '../../shared/services.ts'
import { addressHeader, authPath } from '../auth/accounts.ts'
import { clientAddress } from '../auth/address.ts'
import { type AuthRoute, authRoutes } from '../auth/routes.ts'
import type { Context } from '../endpoint.ts'
import { readBody } from '../middleware/body.ts'
import { assertOwnOrigin } from '../middleware/session.ts'
import { refusedRoute } from '../refused-route.ts'
import type { State } from '../state.ts'
import { isQueuesPath, queuesBoard } from './queues.ts'

/** Where `npm run build` puts the pages. */
export const builtPages = join(import.meta.dirname, 'dist')

const maxAuthBytes = 64 * 1_024
const yearS = 365 * 24 * 3_600

/** Everything under /dashboard but the routes of `dashboardEndpoints`: accounts, and the pages with what they are made of. */
export function dashboard(services: Services): Koa.Middleware<State> {
  const pages = existsSync(builtPages) ? openPages(services) : null
  const queues = queuesBoard(services)
  return async (ctx, next) => {
    if (ctx.path !== '/dashboard' && !ctx.path.startsWith('/dashboard/')) return next()
    ctx.set('x-content-type-options', 'nosniff')
    ctx.set('referrer-policy', 'same-origin')
    if (services.config.publicUrl.startsWith('https:')) ctx.set('strict-transport-security', `max-age=${yearS}`)
    if (ctx.path.startsWith(`${authPath}/`)) return authenticate(ctx as Context)
    if (isQueuesPath(ctx.path)) return queues(ctx as Context)
    if (ctx.path.startsWith('/dashboard/api/')) {
      ctx.set('cache-control', 'no-store')
      return next()
    }
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return next()
    if (!pages) throw new GatewayError('not_found', 'The dashboard is not built: run `npm run build`.')
    ctx.set('x-request-id', ctx.state.requestId)
    ctx.respond = false
    ctx.req.url = ctx.url.slice('/dashboard'.length) || '/'
    // Nobody needs a part of a page, and a range that ends before it begins would break the answer off.
    delete ctx.req.headers.range
    endWithFile(ctx.res, services.log)
    pages(ctx.req, ctx.res)
  }
}

/** The built pages. An address that is no file is one of the application's own, but for those of assets. */
function openPages(services: Services): RequestHandler {
  return sirv(builtPages, {
    single: true,
    ignores: [/^\/assets\//],
    gzip: true,
    brotli: true,
    etag: true,
    setHeaders: (response, path) => setPageHeaders(response, path, services),
  })
}

/**
 * The file that is sent is closed when its reader leaves before the end, and one that is gone since the start, as after a new
 * build, breaks off its answer and nothing else.
 */
function endWithFile(response: ServerResponse, log: Logger): void {
  response.once('pipe', (file: Readable) => {
    response.once('close', () => file.destroy())
    file.once('error', error => {
      log.error({ err: error }, 'a file of the dashboard cannot be read')
      response.destroy()
    })
  })
}

/** Styles in attributes are what the component kit lives on; scripts come from here alone. */
function contentPolicy({ config }: Services): string {
  // Results may lie in a store elsewhere; it answers at signed addresses only.
  const elsewhere = config.storageUrl.startsWith('s3:') ? ' https:' : ''
  return [
    "default-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    `img-src 'self' data: blob:${elsewhere}`,
    `media-src 'self' data: blob:${elsewhere}`,
    `connect-src 'self' data: blob:${elsewhere}`,
    "script-src 'self' 'wasm-unsafe-eval'",
    "worker-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ')
}

function setPageHeaders(response: ServerResponse, path: string, services: Services): void {
  if (path.startsWith('/assets/'))
    return void response.setHeader('cache-control', `public, max-age=${yearS}, immutable`)
  response.setHeader('cache-control', 'no-cache')
  response.setHeader('content-security-policy', contentPolicy(services))
  response.setHeader('x-frame-options', 'DENY')
}

/** Hands a request that one of `authRoutes` takes to the accounts' library, which speaks fetch. */
async function authenticate(ctx: Context): Promise<void> {
  const { req, state } = ctx
  const isGet = ctx.method === 'GET'
  if (!isGet) assertOwnOrigin(ctx)
  const route = authRoute(ctx)
  const taken = validate(route.takes, isGet ? { ...ctx.query } : parseJson(await readBody(ctx.state, maxAuthBytes)))
  refuseNul(taken)
  const origin = `http://${req.headers.host}`
  if (!URL.canParse(origin)) throw new GatewayError('invalid_request', 'The Host header names no host.')
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) if (value !== undefined) headers.set(name, String(value))
  headers.delete('content-length')
  headers.set(addressHeader, clientAddress(req, state.services.config.trustedProxies))
  const request = new Request(new URL(ctx.path + (isGet ? ctx.search : ''), origin), {
    method: ctx.method,
    headers,
    ...(!isGet && { body: JSON.stringify(taken) }),
  })
  const auth = await state.auth()
  const answer = await auth.handle(request, taken, route.alone ? String(taken.organizationId) : null)
  ctx.status = answer.status
  for (const [name, value] of answer.headers) if (name !== 'set-cookie') ctx.set(name, value)
  const cookies = answer.headers.getSetCookie()
  if (cookies.length > 0) ctx.set('set-cookie', cookies)
  ctx.set('cache-control', 'no-store')
  ctx.body = Buffer.from(await answer.arrayBuffer())
}

/** Which of `authRoutes` a request is for. Throws 404, 405. */
function authRoute(ctx: Context): AuthRoute {
  const route = authRoutes.get(ctx.path.slice(authPath.length))
  if (ctx.method === route?.method) return route
  throw refusedRoute(ctx, route ? [route.method] : [])
}
