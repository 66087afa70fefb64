import { setImmediate } from 'node:timers/promises'
import Router from '@koa/router'
import Koa from 'koa'
import { GatewayError } from '../shared/base/errors.ts'
import { parseJson, refuseNul } from '../shared/base/json.ts'
import { validate } from '../shared/base/validate.ts'
import { allowedModels } from '../shared/keys/allowlist.ts'
import { authorise, type Scope } from '../shared/keys/policy.ts'
import type { Services } from '../shared/services.ts'
import { openAuth } from './auth/open.ts'
import { dashboard } from './dashboard/door.ts'
import { dashboardEndpoints } from './dashboard/routes/index.ts'
import type { Access, Context, Endpoint, State, Validated } from './endpoint.ts'
import { readJsonBody } from './middleware/body.ts'
import { edge } from './middleware/edge.ts'
import { asForm, dropUploads, isForm, takeForm } from './middleware/form.ts'
import { idempotencyKeyOf, once, type Repeatable } from './middleware/idempotency.ts'
import type { Kept } from './middleware/kept-answer.ts'
import { admitFree, bearer, keyHeader, provisioningKey, standardKey } from './middleware/key.ts'
import { enterSession, type SessionAccess } from './middleware/session.ts'
import { refusedRoute } from './refused-route.ts'
import { endpoints } from './routes/index.ts'

/** Bodies beyond this take milliseconds to parse and to validate. */
const largeBytes = 256 * 1024

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
    router[endpoint.method](pattern, ctx => serve(endpoint, ctx as unknown as Context))
  }
  app.use(edge(services, openAuth(services)))
  app.use(answerProbe)
  // Paths without parameters need no matching, and the busiest ones are among them.
  app.use((ctx, next) => {
    const endpoint = fixed.get(`${ctx.method} ${ctx.path}`)
    return endpoint ? serve(endpoint, ctx as unknown as Context) : next()
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

/** One request through an endpoint: who, what, and then the handler. */
async function serve(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { state } = ctx
  const { headers } = ctx.req
  await enter(endpoint, ctx)
  const organisationId = state.known?.policy.organisationId ?? state.organisationId
  if (organisationId) {
    const held = state.services.budgets.answers.open(organisationId)
    state.held.push(held)
    state.client.countIn(held)
  }
  const form = endpoint.form && (!endpoint.body || endpoint.form.only || isForm(ctx.req)) ? endpoint.form : null
  let key: string | null
  try {
    if (form) {
      await (form.free ? countFree(ctx) : confirmKey(ctx))
      await takeForm(endpoint, form, ctx)
    } else if (endpoint.body) {
      state.raw = await readJsonBody(ctx)
      const value = parseJson(state.raw)
      // Others have a turn between the parts of much work.
      if (state.raw.length > largeBytes) await setImmediate()
      state.body = validate(endpoint.body, value)
      if (state.raw.length > largeBytes) await setImmediate()
    }
    if (endpoint.query) state.query = validate(endpoint.query, { ...ctx.query })
    refuseNul(ctx.params)
    refuseNul(state.query)
    // What provisioning bodies say is stored as it is; the text of a prompt may hold anything.
    if (!isServing(endpoint.access)) refuseNul(state.body)
    key = isRepeatable(endpoint) ? idempotencyKeyOf(headers['idempotency-key']) : null
  } catch (error) {
    // Whatever is wrong with the request, a revoked key hears about the key first.
    await dropUploads(ctx)
    await confirmKey(ctx)
    throw error
  }
  const streaming = (state.body as { stream?: unknown } | undefined)?.stream === true
  const handled = () => (key === null || streaming ? handle(endpoint, ctx) : handleOnce(endpoint, ctx, key))
  try {
    await (form ? asForm(form, handled) : handled())
    if (form?.passing) await dropUploads(ctx)
  } catch (error) {
    await dropUploads(ctx)
    throw error
  }
}

function isServing(access: Access): access is { scope: Scope | null } {
  return typeof access === 'object' && 'scope' in access
}

function isSession(access: Access): access is SessionAccess {
  return access !== 'public' && access !== 'provisioning' && !isServing(access)
}

/** Whether an `Idempotency-Key` counts here. A person sees what came of a click, and a callback says nothing of its caller. */
function isRepeatable({ method, access }: Endpoint): boolean {
  return method === 'post' && access !== 'public' && !isSession(access)
}

async function countFree(ctx: Context): Promise<void> {
  ctx.set(await admitFree(ctx.state.services, ctx.state.known))
}

/** The header that the key of a request is read from. */
function authorizationOf({ access }: Endpoint, { req }: Context): string | undefined {
  return isServing(access) ? keyHeader(req.headers) : req.headers.authorization
}

async function enter(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { state } = ctx
  const authorization = authorizationOf(endpoint, ctx)
  if (endpoint.access === 'public') return
  if (endpoint.access === 'provisioning') {
    const { organisationId, actor } = await provisioningKey(state.services, authorization)
    state.organisationId = organisationId
    state.actor = actor
    state.wide.organisation = state.organisationId
    return
  }
  if (isSession(endpoint.access)) return enterSession(endpoint.access, ctx)
  const { scope } = endpoint.access as { scope: Scope | null }
  state.known = await standardKey(state.services, authorization, scope, endpoint)
  state.wide.organisation = state.known.policy.organisationId
  state.wide.key = state.known.policy.keyId
}

/** Throws 401 or 403 when a standard key that was only remembered no longer allows the request. */
async function confirmKey({ state: { known, services } }: Context): Promise<void> {
  if (known?.fresh !== '') return
  const { policy, scope } = await services.policies.confirm(known)
  authorise(policy, scope, services.clock.now())
}

async function handle(endpoint: Endpoint, ctx: Context): Promise<void> {
  const { services, known, organisationId, person, role, actor, body, raw, uploads = [], query } = ctx.state
  const { client, requestId, wide, keep = keepNothing } = ctx.state
  const request: Validated<unknown, unknown> = {
    services,
    known,
    organisationId,
    person,
    role,
    actor,
    body,
    raw,
    uploads,
    query,
    params: ctx.params ?? {},
    client,
    requestId,
    wide,
    keep,
    ctx,
  }
  const result = await endpoint.handle(request)
  if (ctx.respond === false || result === undefined) return
  ctx.status = statusOf(endpoint)
  ctx.body = result
}

/** The `keep` of a request without an `Idempotency-Key`. */
async function keepNothing(): Promise<void> {}

/** Runs the handler under an `Idempotency-Key`, or gives the answer it gave the first time. */
async function handleOnce(endpoint: Endpoint, ctx: Context, key: string): Promise<void> {
  await confirmKey(ctx)
  const { services, known, client } = ctx.state
  const provisioning = endpoint.access === 'provisioning'
  const request: Repeatable = {
    organisationId: provisioning ? ctx.state.organisationId : known.policy.organisationId,
    key,
    caller: provisioning ? 'provisioning' : known.policy.environment,
    content: [Buffer.from(`${ctx.method} ${ctx.path}\n`), ctx.state.raw ?? Buffer.alloc(0)],
    // What provisioning routes make is secrets.
    sealWith: provisioning || endpoint.secret ? bearer(authorizationOf(endpoint, ctx)) : null,
  }
  const { answer, replayed } = await once(services, request, (lease, hold) => {
    client.hold = hold
    ctx.state.keep = (tx, body) => lease.keepBeside(tx, jsonAnswer(ctx, statusOf(endpoint), body))
    return recorded(endpoint, ctx)
  })
  if (!answer) return
  if (replayed) await dropUploads(ctx)
  if (replayed && !provisioning) assertReplayable(ctx.state, answer.headers['x-gateway-model'])
  if (replayed && !provisioning && !endpoint.form?.free) await countFree(ctx)
  ctx.respond = false
  client.reply(answer.status, { ...answer.headers, ...(replayed && { 'idempotent-replayed': 'true' }) }, answer.body)
}

/** Asserts that a key may use the model of an answer that another key of its organisation got. Throws 403. */
function assertReplayable({ services, known }: State, model: string | undefined): void {
  if (model === undefined || allowedModels(services.catalog, known.policy)?.has(model) !== false) return
  const message = `The first answer to this Idempotency-Key is of \`${model}\`, which this key may not use.`
  throw new GatewayError('model_not_allowed', message, { param: 'Idempotency-Key' })
}

/** Runs the handler and gives what it answered, however it did, instead of sending it; null when nobody waits any more. */
async function recorded(endpoint: Endpoint, ctx: Context): Promise<Kept | null> {
  let kept: Kept | null = null
  ctx.state.client.onAnswer = (status, headers, body) => {
    kept = { status, headers, body }
  }
  await handle(endpoint, ctx)
  if (kept || ctx.respond === false) return kept
  return jsonAnswer(ctx, ctx.status, ctx.body)
}

function jsonAnswer(ctx: Context, status: number, body: unknown): Kept {
  return { status, headers: ownHeaders(ctx), body: JSON.stringify(body) }
}

/** The status of an endpoint's good answers. */
function statusOf({ answers }: Endpoint): number {
  return Number(Object.keys(answers)[0])
}

/** The headers of our own that a handler has set. */
function ownHeaders(ctx: Context): Record<string, string> {
  const own = Object.entries(ctx.response.headers).filter(([name]) => name.startsWith('x-'))
  return Object.fromEntries(own.map(([name, value]) => [name, String(value)]))
}

/** 404, or 405 with `Allow` where the path exists with other methods. */
function noRoute(router: Router<State>): Koa.Middleware<State> {
  return ctx => {
    const methods = new Set(router.match(ctx.path, ctx.method).path.flatMap(layer => layer.methods))
    throw refusedRoute(ctx, [...methods])
  }
}
