import type { IServerAdapter } from '@bull-board/api/typings/app'
import type Koa from 'koa'
import type { GatewayError } from '../../shared/base/errors.ts'
import type { Services } from '../../shared/services.ts'
import type { Context } from '../endpoint.ts'
import { authenticateSession } from '../middleware/session.ts'
import type { State } from '../state.ts'

/** The path of the queue board for operators. */
const queuesPath = '/dashboard/operator/queues'

/** Scripts come from here alone. The board sets its own folder as base URL, and its editor runs in a worker. */
const contentPolicy = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "worker-src 'self' blob:",
  "object-src 'none'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Replaces fonts that the board's page would fetch from another host. */
const foreignLinks = /<link[^>]+href="https?:[^>]*>/g

const fonts = {
  'font-sans': '-apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  'font-mono': 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
}

/** Whether a path belongs to the board. */
export function isQueuesPath(path: string): boolean {
  return path === queuesPath || path.startsWith(`${queuesPath}/`)
}

/**
 * The queue board (Bull Board), for operators only: every request needs an operator's session and, if it changes
 * anything, our own origin. Created on first use. Queue entries are ids, so the board shows no request data.
 */
export function queuesBoard(services: Services): (ctx: Context) => Promise<void> {
  let opening: Promise<Koa.Middleware<State>> | null = null
  const open = () => {
    opening ??= createBoard(services).catch(error => {
      opening = null
      throw error
    })
    return opening
  }
  return async ctx => {
    try {
      await authenticateSession('operator', ctx)
    } catch (error) {
      if (isPage(ctx) && (error as GatewayError).code === 'not_signed_in')
        return ctx.redirect(`/dashboard/sign-in?next=${encodeURIComponent(ctx.url)}`)
      throw error
    }
    const board = await open()
    ctx.set({
      'content-security-policy': contentPolicy,
      'x-frame-options': 'DENY',
      'cache-control': ctx.path.startsWith(`${queuesPath}/static/`) ? 'private, no-cache' : 'no-store',
    })
    await board(ctx as Parameters<typeof board>[0], async () => {})
    if (typeof ctx.body === 'string') ctx.body = ctx.body.replace(foreignLinks, '')
  }
}

function isPage(ctx: Context): boolean {
  return ctx.method === 'GET' && ctx.get('accept').includes('text/html')
}

/** Its packages are large and most processes never show it, so they are loaded on first use. */
async function createBoard({ queues }: Services): Promise<Koa.Middleware<State>> {
  const [{ createBullBoard }, { BullMQAdapter }, { KoaAdapter }] = await Promise.all([
    import('@bull-board/api'),
    import('@bull-board/api/bullMQAdapter'),
    import('@bull-board/koa'),
  ])
  const serverAdapter = new KoaAdapter().setBasePath(queuesPath)
  createBullBoard({
    queues: Object.values(queues).map(queue => new BullMQAdapter(queue)),
    // Its types come from its own copy of `@bull-board/api`.
    serverAdapter: serverAdapter as unknown as IServerAdapter,
    options: {
      uiConfig: {
        boardTitle: 'Queues',
        miscLinks: [{ text: 'Operator area', url: '/dashboard/operator' }],
        hideDocsLink: true,
        theme: { light: fonts, dark: fonts },
      },
    },
  })
  return serverAdapter.registerPlugin() as Koa.Middleware<State>
}
