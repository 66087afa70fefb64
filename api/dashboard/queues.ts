import type { IServerAdapter } from '@bull-board/api/typings/app'
import type Koa from 'koa'
import type { GatewayError } from '../../shared/base/errors.ts'
import type { Services } from '../../shared/services.ts'
import type { Context } from '../endpoint.ts'
import { enterSession } from '../middleware/session.ts'
import type { State } from '../state.ts'

/** Where operators look into the queues. */
const queuesPath = '/dashboard/operator/queues'

/** Scripts come from here alone. The board names its own folder as the base of its addresses, and its editor works in a worker. */
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

/** Fonts that the board's page would fetch from elsewhere. */
const foreignLinks = /<link[^>]+href="https?:[^>]*>/g

const fonts = {
  'font-sans': '-apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  'font-mono': 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
}

/** Whether an address is one of the board's. */
export function isQueuesPath(path: string): boolean {
  return path === queuesPath || path.startsWith(`${queuesPath}/`)
}

/**
 * A board of the queues (Bull Board), for operators alone: every request is held to the session and, where it changes
 * anything, to our own origin. Made when it is first asked for. Entries of queues are ids, so it shows nothing of a request.
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
      await enterSession('operator', ctx)
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

/** Its packages are large and few processes ever show it, so they are read when they are needed. */
async function createBoard({ queues }: Services): Promise<Koa.Middleware<State>> {
  const [{ createBullBoard }, { BullMQAdapter }, { KoaAdapter }] = await Promise.all([
    import('@bull-board/api'),
    import('@bull-board/api/bullMQAdapter'),
    import('@bull-board/koa'),
  ])
  const serverAdapter = new KoaAdapter().setBasePath(queuesPath)
  createBullBoard({
    queues: Object.values(queues).map(queue => new BullMQAdapter(queue)),
    // Its types are those of a copy of `@bull-board/api` that it brings along.
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
