import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../shared/base/errors.ts'
import { newId } from '../shared/base/ids.ts'
import { parseJson, refuseNul } from '../shared/base/json.ts'
import { validate } from '../shared/base/validate.ts'
import { requestLines } from '../shared/io/log.ts'
import { isOutage, unavailable } from '../shared/io/outage.ts'
import { allowedModels } from '../shared/keys/allowlist.ts'
import type { Known } from '../shared/keys/policies.ts'
import { authorise, type Scope } from '../shared/keys/policy.ts'
import type { Services } from '../shared/services.ts'
import type { Access, Context, Direct, Endpoint, Validated } from './endpoint.ts'
import { readJsonBody, releaseWhenSent } from './middleware/body.ts'
import { asForm, dropUploads, isForm, takeForm } from './middleware/form.ts'
import { idempotencyKeyOf, once, type Repeatable } from './middleware/idempotency.ts'
import type { Kept } from './middleware/kept-answer.ts'
import { admitFree, bearer, keyHeader, provisioningKey, standardKey } from './middleware/key.ts'
import { enterSession, type SessionAccess } from './middleware/session.ts'
import { State } from './state.ts'

// The way of every request through the gateway: opened, served or failed, closed. It has two entrances: the framework (app.ts) for
// whatever needs a query, parameters, cookies or files, and the lane (lane.ts) past it.

/** Bodies beyond this take milliseconds to parse and to validate. */
const largeBytes = 256 * 1024

/** Our id of a request: a valid one that came with it, else a new one. */
export function requestIdOf(inbound: unknown): string {
  return typeof inbound === 'string' && validRequestId.test(inbound) ? inbound : newId('req')
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/

/** The headers of every answer to a request; pages of any origin may call /v1 and may read every header (contract §1). */
export function baseHeaders(requestId: string, isPublic: boolean): Record<string, string> {
  if (!isPublic) return { 'x-request-id': requestId }
  return {
    'x-request-id': requestId,
    'access-control-allow-origin': '*',
    'access-control-expose-headers': '*',
  }
}

/** Begins the way of a request. */
export function openPassage(
  services: Services,
  request: IncomingMessage,
  response: ServerResponse,
  method: string,
  path: string,
): State {
  const requestId = requestIdOf(request.headers['x-request-id'])
  // /v1 takes keys, never the dashboard's cookies.
  const headers = baseHeaders(requestId, path.startsWith('/v1/'))
  return new State({ services, request, response, method, path, requestId, headers })
}

/** Answers with an error, of which the client may know only what is meant for it, and tells the log. */
export function failPassage({ services: { log }, client, response, requestId, wide }: State, error: unknown): void {
  const failure = publicError(error)
  if (failure.status >= 500)
    log[failure.code === 'internal_error' ? 'error' : 'warn'](
      { requestId, code: failure.code, err: failure.cause ?? error },
      failure.message,
    )
  wide.errorCode = failure.code
  if (response.headersSent) response.destroy()
  else if (!client.gone) client.reply(failure.status, errorHeaders(failure), JSON.stringify(failure.body))
}

function errorHeaders({ headers, status, code }: GatewayError): Record<string, string> {
  if (status === 401) return { ...headers, 'www-authenticate': 'Bearer' }
  if (status === 409) return { ...headers, 'x-should-retry': String(code === 'idempotency_in_progress') }
  return headers
}

/** What the client may know of an error: ours as they are, anything else as an internal error. */
export function publicError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  if (isOutage(error)) return unavailable(error)
  return new GatewayError(
    'internal_error',
    'Something went wrong on our side. Quote the request id when you report it.',
    { cause: error },
  )
}

/** Ends the way of a request with its one log line. `status`: of an answer that has not left yet. */
export function closePassage(state: State, status: number): void {
  const { services, client, response, held, requestId, method, path, startedMs, wide } = state
  releaseWhenSent(client, held)
  if (path === '/healthz' || path === '/readyz') return
  const sent = response.headersSent ? response.statusCode : status
  requestLines(services.log)({
    requestId,
    method,
    path,
    status: client.gone && !response.writableEnded ? 499 : sent,
    durationMs: services.clock.now() - startedMs,
    ...wide,
  })
}

/**
 * One request through an endpoint: who, what, and then the handler. Gives what the handler returned, to be sent as JSON; undefined
 * where the request is answered already. Throws what `failPassage` answers with.
 */
export async function serve(endpoint: Endpoint, state: State): Promise<unknown> {
  const { services, request, ctx } = state
  const identified = identify(endpoint, state)
  if (identified) await identified
  const organisationId = state.known?.policy.organisationId ?? state.organisationId
  if (organisationId) {
    const held = services.budgets.answers.open(organisationId)
    state.held.push(held)
    state.client.countIn(held)
  }
  const form = endpoint.form && (!endpoint.body || endpoint.form.only || isForm(request)) ? endpoint.form : null
  let key: string | null
  try {
    if (form) {
      if (form.free) ctx!.set(await admitFree(services, state.known))
      else await confirmKey(state)
      await takeForm(endpoint, form, state)
    } else if (endpoint.body) {
      state.raw = await readJsonBody(state)
      const value = parseJson(state.raw)
      // Others have a turn between the parts of much work.
      if (state.raw.length > largeBytes) await setImmediate()
      state.body = validate(endpoint.body, value)
      if (state.raw.length > largeBytes) await setImmediate()
    }
    if (endpoint.query) state.query = validate(endpoint.query, { ...ctx!.query })
    if (ctx) {
      refuseNul(ctx.params)
      refuseNul(state.query)
    }
    // What provisioning bodies say is stored as it is; the text of a prompt may hold anything.
    if (!isServing(endpoint.access)) refuseNul(state.body)
    key = isRepeatable(endpoint) ? idempotencyKeyOf(request.headers['idempotency-key']) : null
  } catch (error) {
    // Whatever is wrong with the request, a revoked key hears about the key first.
    await dropUploads(state)
    await confirmKey(state)
    throw error
  }
  const streaming = (state.body as { stream?: unknown } | undefined)?.stream === true
  const handled = async () => (key === null || streaming ? handle(endpoint, state) : handleOnce(endpoint, state, key))
  if (!form) return handled()
  try {
    const result = await asForm(form, handled)
    if (form.passing) await dropUploads(state)
    return result
  } catch (error) {
    await dropUploads(state)
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

/** The header that the key of a request is read from. */
function authorizationOf({ access }: Endpoint, { headers }: IncomingMessage): string | undefined {
  return isServing(access) ? keyHeader(headers) : headers.authorization
}

/** Finds out who calls an endpoint; a key that is remembered costs no promise. Throws, or rejects with, 401 and 403. */
function identify(endpoint: Endpoint, state: State): Promise<void> | null {
  const { access } = endpoint
  if (access === 'public') return null
  if (isSession(access)) return enterSession(access, state.ctx!)
  const authorization = authorizationOf(endpoint, state.request)
  if (access === 'provisioning') return identifyOrganisation(state, authorization)
  const known = standardKey(state.services, authorization, access.scope, endpoint)
  if (known instanceof Promise) return known.then(found => noteKey(state, found))
  noteKey(state, known)
  return null
}

function noteKey(state: State, known: Known): void {
  state.known = known
  state.wide.organisation = known.policy.organisationId
  state.wide.key = known.policy.keyId
}

async function identifyOrganisation(state: State, authorization: string | undefined): Promise<void> {
  const { organisationId, actor } = await provisioningKey(state.services, authorization)
  state.organisationId = organisationId
  state.actor = actor
  state.wide.organisation = organisationId
}

/** Throws 401 or 403 when a standard key that was only remembered no longer allows the request. */
async function confirmKey({ known, services }: State): Promise<void> {
  if (known?.fresh !== '') return
  const { policy, scope } = await services.policies.confirm(known)
  authorise(policy, scope, services.clock.now())
}

function handle(endpoint: Endpoint, state: State): unknown {
  const { services, known, organisationId, person, role, actor, body, raw, uploads, query, ctx } = state
  const { client, requestId, wide, keep = keepNothing } = state
  const { headers } = state.request
  const request: Direct<unknown> = {
    services,
    known,
    organisationId,
    person,
    role,
    actor,
    body,
    raw,
    uploads,
    headers,
    client,
    requestId,
    wide,
    keep,
  }
  if (endpoint.direct) return endpoint.handle(request as Validated<unknown, unknown>)
  return endpoint.handle({ ...request, query, params: ctx!.params ?? {}, ctx: ctx! })
}

/** The `keep` of a request without an `Idempotency-Key`. */
async function keepNothing(): Promise<void> {}

/** Runs the handler under an `Idempotency-Key`, or gives the answer it gave the first time. */
async function handleOnce(endpoint: Endpoint, state: State, key: string): Promise<void> {
  await confirmKey(state)
  const { services, known, client, method, path, raw } = state
  const provisioning = endpoint.access === 'provisioning'
  const request: Repeatable = {
    organisationId: provisioning ? state.organisationId : known.policy.organisationId,
    key,
    caller: provisioning ? 'provisioning' : known.policy.environment,
    content: [Buffer.from(`${method} ${path}\n`), raw ?? Buffer.alloc(0)],
    // What provisioning routes make is secrets.
    sealWith: provisioning || endpoint.secret ? bearer(authorizationOf(endpoint, state.request)) : null,
  }
  const { answer, replayed } = await once(services, request, (lease, hold) => {
    client.hold = hold
    state.keep = (tx, body) => lease.keepBeside(tx, jsonAnswer(state, statusOf(endpoint), body))
    return recorded(endpoint, state)
  })
  if (!answer) return
  if (replayed) await dropUploads(state)
  if (replayed && !provisioning) assertReplayable(state, answer.headers['x-gateway-model'])
  const isCounted = replayed && !provisioning && !endpoint.form?.free
  const headers = { ...(isCounted && (await admitFree(services, known))), ...answer.headers }
  if (replayed) headers['idempotent-replayed'] = 'true'
  client.reply(answer.status, headers, answer.body)
}

/** Asserts that a key may use the model of an answer that another key of its organisation got. Throws 403. */
function assertReplayable({ services, known }: State, model: string | undefined): void {
  if (model === undefined || allowedModels(services.catalog, known.policy)?.has(model) !== false) return
  const message = `The first answer to this Idempotency-Key is of \`${model}\`, which this key may not use.`
  throw new GatewayError('model_not_allowed', message, { param: 'Idempotency-Key' })
}

/** Runs the handler and returns its answer instead of sending it; null when the client has left. */
async function recorded(endpoint: Endpoint, state: State): Promise<Kept | null> {
  const { client, ctx } = state
  let kept: Kept | null = null
  client.onAnswer = (status, headers, body) => {
    kept = { status, headers, body }
  }
  const result = await handle(endpoint, state)
  if (kept || endpoint.direct) return kept
  return jsonAnswer(state, result === undefined ? ctx!.status : statusOf(endpoint), result ?? ctx!.body)
}

function jsonAnswer({ ctx }: State, status: number, body: unknown): Kept {
  return { status, headers: ctx ? ownHeaders(ctx) : {}, body: JSON.stringify(body) }
}

/** The status of an endpoint's good answers. */
export function statusOf({ answers }: Endpoint): number {
  return Number(Object.keys(answers)[0])
}

/** The headers of our own that a handler has set. */
function ownHeaders(ctx: Context): Record<string, string> {
  const own = Object.entries(ctx.response.headers).filter(([name]) => name.startsWith('x-'))
  return Object.fromEntries(own.map(([name, value]) => [name, String(value)]))
}
