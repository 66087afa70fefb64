import Router from '@koa/router'
import Koa from 'koa'
import { GatewayError } from '../shared/base/errors.ts'
import type { Services } from '../shared/services.ts'
import type { Context, Endpoint, State, Validated } from './endpoint.ts'
import { parseJson, readJsonBody, validate } from './middleware/body.ts'
import { edge } from './middleware/edge.ts'
import { idempotencyKeyOf, type Kept, once } from './middleware/idempotency.ts'
import { provisioningKey, standardKey } from './middleware/key.ts'
import { endpoints } from './routes/index.ts'

/** The HTTP application over opened services. */
export function createApp(services: Services): Koa<State> {
  const app = new Koa<State>()
  app.silent = true
  app.on('error', error => services.log.debug({ err: error }, 'connection'))
  const router = new Router<State>()
  for (const endpoint of endpoints) {
    router[endpoint.method](endpoint.path.replace(/\{(\w+)\}/g, ':$1'), ctx =>
      serve(endpoint, ctx as unknown as Context),
    )
  }
  app.use(edge(services))
  app.use(router.routes() as Koa.Middleware<State>)
  app.use(noRoute(router))
  return app
}

/** One request through an endpoint: who, what, and then the handler. */
async function serve(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { state } = ctx
  const { services } = state
  const { authorization } = ctx.req.headers
  await enter(endpoint, ctx, authorization)
  try {
    if (endpoint.body) {
      state.raw = await readJsonBody(ctx.req)
      state.body = validate(endpoint.body, parseJson(state.raw))
    }
    if (endpoint.query) state.query = validate(endpoint.query, { ...ctx.query })
  } catch (error) {
    // Whatever is wrong with the request, a revoked key hears about the key first.
    if (typeof endpoint.access === 'object' && state.known.fresh === '') await standardKeyConfirmed(ctx, endpoint)
    throw error
  }
  const key = endpoint.method === 'post' ? idempotencyKeyOf(ctx.req.headers['idempotency-key']) : null
  if (key === null || (state.body as { stream?: unknown } | undefined)?.stream === true) return handle(endpoint, ctx)
  const organisationId = state.known?.policy.organisationId ?? state.organisationId
  const kept = await once(services, organisationId, key, [Buffer.from(`${ctx.method} ${ctx.path}\n`), state.raw], () =>
    recorded(endpoint, ctx),
  )
  if (!kept) return
  ctx.respond = false
  state.client.send(kept.status, { ...kept.headers, 'idempotent-replayed': 'true' }, kept.body)
}

async function enter(endpoint: Endpoint, ctx: Context, authorization: string | undefined): Promise<void> {
  const { state } = ctx
  if (endpoint.access === 'public') return
  if (endpoint.access === 'provisioning') {
    state.organisationId = await provisioningKey(state.services, authorization)
    state.wide.organisation = state.organisationId
    return
  }
  state.known = await standardKey(state.services, authorization, endpoint.access.scope)
  state.wide.organisation = state.known.policy.organisationId
  state.wide.key = state.known.policy.keyId
}

async function standardKeyConfirmed(ctx: Context, endpoint: Endpoint): Promise<void> {
  ctx.state.known = await ctx.state.services.policies.confirm(ctx.state.known)
  if (typeof endpoint.access === 'object')
    await standardKey(ctx.state.services, ctx.req.headers.authorization, endpoint.access.scope)
}

async function handle(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { services, known, organisationId, body, raw, query, client, requestId, wide } = ctx.state
  const request: Validated<unknown, unknown> = {
    services,
    known,
    organisationId,
    body,
    raw,
    query,
    params: ctx.params,
    client,
    requestId,
    wide,
    ctx,
  }
  const result = await endpoint.handle(request)
  if (ctx.respond === false || result === undefined) return
  ctx.status = Number(Object.keys(endpoint.answers)[0])
  ctx.body = result
}

/** Runs the handler and gives what it answered, however it did; null when it answered with a failure. */
async function recorded(endpoint: Endpoint, ctx: Context): Promise<Kept | null> {
  let kept: Kept | null = null
  ctx.state.client.onAnswer = (status, headers, body) => {
    kept = { status, headers, body }
  }
  await handle(endpoint, ctx)
  if (kept || ctx.respond === false) return kept
  return { status: ctx.status, headers: {}, body: JSON.stringify(ctx.body) }
}

/** 404, or 405 with `Allow` where the path exists with other methods. */
function noRoute(router: Router<State>): Koa.Middleware<State> {
  return ctx => {
    const methods = new Set(router.match(ctx.path, ctx.method).path.flatMap(layer => layer.methods))
    if (methods.size === 0) throw new GatewayError('not_found', `There is no ${ctx.method} ${ctx.path}.`)
    const allow = [...methods].join(', ')
    throw new GatewayError('method_not_allowed', `${ctx.path} takes ${allow}, not ${ctx.method}.`, {
      headers: { allow },
    })
  }
}
