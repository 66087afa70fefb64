/**
 * The documentation under /docs, which `npm run build` makes of `docs/` with VitePress: people read the guides of their version
 * where the gateway runs, also where a browser cannot reach the internet. One source: the pages are the repository's Markdown,
 * whose code blocks are tests. `/docs/api/` is Scalar's reader of `/openapi.json`. No other host is asked: the content policy
 * allows the gateway's own scripts, and the theme's two inline ones by their hashes. Starlight would bring a second framework
 * for the same; Swagger UI had no guides and no search. VitePress and Scalar are needed to build, not to run.
 */

import { existsSync, readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import type Koa from 'koa'
import sirv from 'sirv'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Platform } from '../../shared/platform.ts'
import { endWithFile } from '../end-with-file.ts'
import type { State } from '../state.ts'
import { unmatchedRouteError } from '../unmatched-route.ts'

/** The output folder of `npm run build`. */
export const builtDocs = join(import.meta.dirname, 'dist')

const yearS = 365 * 24 * 3_600
/** Paths outside /docs where programs look for files of the site. */
const aliases: Record<string, string> = { '/llms.txt': '/docs/llms.txt', '/llms-full.txt': '/docs/llms-full.txt' }

/** Serves the documentation under /docs, and its lists for language models. */
export function docsSite(services: Platform): Koa.Middleware<State> {
  const serve = existsSync(join(builtDocs, 'built')) ? (site ??= openSite()) : null
  return async (ctx, next) => {
    const path = aliases[ctx.path] ?? ctx.path
    if ((path !== '/docs' && !path.startsWith('/docs/')) || !['GET', 'HEAD'].includes(ctx.method)) return next()
    if (!serve) throw new GatewayError('not_found', 'The documentation is not built: run `npm run build`.')
    // Relative links of the page need the slash.
    if (path === '/docs' || path === '/docs/api') return ctx.redirect(`${path}/`)
    ctx.set('x-content-type-options', 'nosniff')
    ctx.set('x-request-id', ctx.state.requestId)
    const asked = ctx.req.url
    ctx.req.url = path.slice('/docs'.length)
    // Pages are never requested in ranges, and a range that ends before it begins would abort the response.
    delete ctx.req.headers.range
    ctx.respond = false
    endWithFile(ctx.res, services.log)
    await new Promise<void>((resolve, reject) => {
      ctx.res.once('close', resolve)
      serve.file(ctx.req, ctx.res, () => {
        ctx.req.url = asked
        if (isPage(ctx)) return serve.notFound(ctx.res, ctx.method)
        ctx.respond = true
        reject(unmatchedRouteError(ctx))
      })
    })
  }
}

/** Whether a person asked for a page; programs, and pages that lack a part, get JSON. */
function isPage({ path, req }: Koa.Context): boolean {
  return !path.startsWith('/docs/assets/') && /\btext\/html\b/.test(req.headers.accept ?? '')
}

/** Of this process: listing its files takes longer than anything else in opening an application, and tests open many. */
let site: ReturnType<typeof openSite> | undefined

function openSite() {
  const hashes: string[] = JSON.parse(readFileSync(join(builtDocs, 'inline-scripts.json'), 'utf8'))
  const policy = [
    "default-src 'self'",
    `script-src 'self' ${hashes.map(hash => `'${hash}'`).join(' ')}`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
  const setHeaders = (response: ServerResponse, path: string) => {
    const isHashed = path.startsWith('/assets/')
    response.setHeader('cache-control', isHashed ? `public, max-age=${yearS}, immutable` : 'no-cache')
    if (!isHashed) response.setHeader('content-security-policy', policy)
    if (path.endsWith('.md')) response.setHeader('content-type', 'text/markdown; charset=utf-8')
  }
  const lost = readFileSync(join(builtDocs, '404.html'))
  return {
    file: sirv(builtDocs, { gzip: true, brotli: true, etag: true, extensions: ['html'], setHeaders }),
    notFound(response: ServerResponse, method: string): void {
      setHeaders(response, '/404.html')
      response.writeHead(404, { 'content-type': 'text/html; charset=utf-8', 'content-length': lost.length })
      response.end(method === 'HEAD' ? undefined : lost)
    },
  }
}
