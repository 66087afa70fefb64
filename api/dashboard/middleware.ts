import { existsSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import type Koa from 'koa'
import sirv, { type RequestHandler } from 'sirv'
import { GatewayError } from '../../shared/base/errors.ts'
import { parseJson, rejectNul } from '../../shared/base/json.ts'
import { validate } from '../../shared/base/validate.ts'
import type { Platform } from '../../shared/platform.ts'
import { addressHeader, authPath } from '../auth/accounts.ts'
import { clientAddress } from '../auth/address.ts'
import { type AuthRoute, authRoutes } from '../auth/routes.ts'
import { assertOwnOrigin } from '../auth/session.ts'
import { readBody } from '../body/read-body.ts'
import { endWithFile } from '../end-with-file.ts'
import type { Context } from '../endpoint.ts'
import type { State } from '../state.ts'
import { unmatchedRouteError } from '../unmatched-route.ts'
import { openPageLinks } from './page-links.ts'

/** The output folder of `npm run build`. */
export const builtPages = join(import.meta.dirname, 'dist')

const maxAuthBytes = 64 * 1_024
const yearS = 365 * 24 * 3_600

/** Serves everything under /dashboard except the routes of `dashboardEndpoints`: accounts, pages and their assets. */
export function dashboard(services: Platform): Koa.Middleware<State> {
  const pages = existsSync(builtPages) ? openPages(services) : null
  return async (ctx, next) => {
    if (ctx.path !== '/dashboard' && !ctx.path.startsWith('/dashboard/')) return next()
    ctx.set('x-content-type-options', 'nosniff')
    ctx.set('referrer-policy', 'same-origin')
    if (services.config.publicUrl.startsWith('https:')) ctx.set('strict-transport-security', `max-age=${yearS}`)
    if (ctx.path.startsWith(`${authPath}/`)) return authenticate(ctx as Context)
    if (ctx.path.startsWith('/dashboard/api/')) {
      ctx.set('cache-control', 'no-store')
      return next()
    }
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return next()
    if (!pages) throw new GatewayError('not_found', 'The dashboard is not built: run `npm run build`.')
    ctx.set('x-request-id', ctx.state.requestId)
    ctx.respond = false
    ctx.req.url = ctx.url.slice('/dashboard'.length) || '/'
    // Pages are never requested in ranges, and a range that ends before it begins would abort the response.
    delete ctx.req.headers.range
    endWithFile(ctx.res, services.log)
    pages(ctx.req, ctx.res)
  }
}

/** Serves the built pages. A path that is not a file belongs to the client-side router, except below assets. */
function openPages(services: Platform): RequestHandler {
  const linksOf = openPageLinks(builtPages, services.clock)
  return sirv(builtPages, {
    single: true,
    ignores: [/^\/assets\//],
    gzip: true,
    brotli: true,
    etag: true,
    setHeaders: (response, path) => {
      setPageHeaders(response, path, services)
      const search = response.req.url?.slice(path.length) ?? ''
      if (!/\.\w+$/.test(path)) response.setHeader('link', linksOf(path, search))
    },
  })
}

/** The component kit needs inline style attributes; scripts come from here alone. */
function contentPolicy({ config }: Platform): string {
  // Results may be stored elsewhere, at signed URLs only.
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

function setPageHeaders(response: ServerResponse, path: string, services: Platform): void {
  if (path.startsWith('/assets/'))
    return void response.setHeader('cache-control', `public, max-age=${yearS}, immutable`)
  response.setHeader('cache-control', 'no-cache')
  response.setHeader('content-security-policy', contentPolicy(services))
  response.setHeader('x-frame-options', 'DENY')
}

/** Hands a request for one of `authRoutes` to the accounts library, which uses fetch types. */
async function authenticate(ctx: Context): Promise<void> {
  const { req, state } = ctx
  const isGet = ctx.method === 'GET'
  if (!isGet) assertOwnOrigin(ctx)
  const route = authRoute(ctx)
  const input = validate(route.takes, isGet ? { ...ctx.query } : await readAuthBody(state))
  rejectNul(input)
  const origin = `http://${req.headers.host}`
  if (!URL.canParse(origin)) throw new GatewayError('invalid_request', 'The Host header has no valid host.')
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) if (value !== undefined) headers.set(name, String(value))
  headers.delete('content-length')
  headers.set(addressHeader, clientAddress(req, state.services.config.trustedProxies))
  const request = new Request(new URL(ctx.path + (isGet ? ctx.search : ''), origin), {
    method: ctx.method,
    headers,
    ...(!isGet && { body: JSON.stringify(input) }),
  })
  const auth = await state.auth()
  const answer = await auth.handle(request, input, route.alone)
  ctx.status = answer.status
  for (const [name, value] of answer.headers) if (name !== 'set-cookie') ctx.set(name, value)
  const cookies = answer.headers.getSetCookie()
  if (cookies.length > 0) ctx.set('set-cookie', cookies)
  ctx.set('cache-control', 'no-store')
  ctx.body = Buffer.from(await answer.arrayBuffer())
}

async function readAuthBody(state: State): Promise<unknown> {
  return parseJson(await readBody(state, maxAuthBytes), 'The body', maxAuthBytes, state.heldBody)
}

/** The route of `authRoutes` that a request is for. Throws 404, 405. */
function authRoute(ctx: Context): AuthRoute {
  const route = authRoutes.get(ctx.path.slice(authPath.length))
  if (ctx.method === route?.method) return route
  throw unmatchedRouteError(ctx, () => (route ? [route.method] : []))
}
