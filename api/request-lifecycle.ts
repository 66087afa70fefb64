import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../shared/base/errors.ts'
import { parseJson, rawCopies, rejectNul, withoutMark } from '../shared/base/json.ts'
import { elapsedMs } from '../shared/base/time.ts'
import { validate, validateRequest } from '../shared/base/validate.ts'
import { publicError } from '../shared/engine/failures.ts'
import { minReleasedBytes } from '../shared/io/http.ts'
import { requestLogger } from '../shared/io/log.ts'
import type { ResolvedKey } from '../shared/keys/policies.ts'
import { allowedModels, authorise, type Scope } from '../shared/keys/policy.ts'
import type { Services } from '../shared/open-services.ts'
import type { Platform } from '../shared/platform.ts'
import type { PresetDialect } from '../shared/presets/apply-preset.ts'
import { clientOf } from './auth/address.ts'
import {
  admitFree,
  googleKeyHeader,
  keyHeader,
  missingKeyError,
  parseBearer,
  resolveProvisioningKey,
  resolveStandardKey,
} from './auth/api-keys.ts'
import { authenticateSession, type SessionAccess } from './auth/session.ts'
import { deleteUploads, receiveForm, withFormNames } from './body/form.ts'
import { isForm, readJsonBody, releaseWhenSent } from './body/read-body.ts'
import { copyContent, logContent } from './content-logging.ts'
import type { Access, Context, Endpoint, Validated } from './endpoint.ts'
import { errorResponse } from './error-response.ts'
import { googleModelsUrl, isGooglePath } from './google-dialect.ts'
import { baseHeaders, type HttpResponse, isMessagesPath } from './http-response.ts'
import { requestIdOf, withSingleSlashes } from './http-server.ts'
import { type IdempotentRequest, idempotencyKeyOf, runOnce } from './idempotency/run-once.ts'
import type { StoredAnswer } from './idempotency/stored-answer.ts'
import { logRefusedRequest } from './log-refusal.ts'
import { recordRequest } from './request-metrics.ts'
import { beginTrace, endTrace } from './request-trace.ts'
import { type Keep, State } from './state.ts'

// The lifecycle of every request: opened, served or failed, closed. Requests enter through Koa (app.ts) if they need a
// query, parameters, cookies or files, otherwise past it (`directDispatch`).

/** Larger bodies take milliseconds to parse and validate. */
export const largeBytes = 256 * 1024
const noBytes = Buffer.alloc(0)

/** Whether pages of any origin may call a path. */
export function isPublicPath(path: string): boolean {
  return path.startsWith('/v1/') || isGooglePath(path)
}

/** Starts the lifecycle of a request. */
export function openRequest(
  services: Services,
  request: IncomingMessage,
  response: ServerResponse,
  method: string,
  path: string,
): State {
  const requestId = requestIdOf(request.headers['x-request-id'])
  // /v1 accepts keys, never the dashboard's cookies.
  const headers = baseHeaders(requestId, isPublicPath(path))
  if (isMessagesPath(path)) headers['request-id'] = requestId
  const state = new State({ services, request, response, method, path, requestId, headers })
  if (services.tracing) beginTrace(state, services.tracing)
  return state
}

/**
 * Responds with the public part of an error, in the format of its route, and logs it. A response that is complete
 * already is sent as it is; one that has only begun is cut off.
 */
export function failRequest(state: State, error: unknown): void {
  const { services, client, response, requestId, logFields, path } = state
  const failure = logFailure(services, requestId, error)
  logFields.errorCode = failure.code
  state.failure = failure
  if (client.isComplete) return
  if (response.headersSent) response.destroy()
  else if (!client.gone) {
    const { status, headers, body } = errorResponse(failure, path, requestId)
    client.reply(status, headers, body)
  }
}

/** Logs an error that is not the client's; returns its public form. */
export function logFailure({ log }: Platform, requestId: string, error: unknown): GatewayError {
  const failure = publicError(error)
  if (failure.status >= 500)
    log[failure.code === 'internal_error' ? 'error' : 'warn'](
      {
        requestId,
        code: failure.code,
        ...(failure.remedy !== null && { remedy: failure.remedy }),
        err: failure.cause ?? error,
      },
      failure.message,
    )
  return failure
}

/** Ends the lifecycle of a request with its one log line. `status`: of a response that was not sent yet. */
export function closeRequest(state: State, status: number): void {
  const { services, client, response, held, requestId, method, path, beganMs, logFields } = state
  releaseWhenSent(client, held)
  if (path === '/healthz' || path === '/readyz') return
  const sent = response.headersSent ? response.statusCode : status
  const received = client.gone && !response.writableEnded ? 499 : sent
  const durationMs = elapsedMs(beganMs, services.monotonic.now())
  const refusalId = state.failure ? logRefusedRequest(state, state.failure, received, durationMs) : null
  if (client.copy) logContent(state, client.copy, received, refusalId)
  if (services.metrics) recordRequest(state, received, durationMs)
  if (client.trace) endTrace(state, client.trace, received)
  requestLogger(services.log)({ requestId, method, path, status: received, durationMs, ...logFields })
}

/**
 * Runs one request through an endpoint: authentication, validation, handler. Returns what the handler returned, to be
 * sent as JSON; undefined if the response was already sent. Throws errors for `failRequest`.
 */
export async function serveRequest(endpoint: Endpoint, state: State): Promise<unknown> {
  const { services, request, ctx } = state
  state.endpoint = endpoint
  const identified = identify(endpoint, state)
  if (identified) await identified
  const organisationId = state.apiKey?.policy.organisationId ?? state.organisationId
  if (organisationId) {
    const held = services.budgets.answers.open(organisationId)
    state.held.push(held)
    state.client.chargeTo(held)
  }
  const form = endpoint.form && (!endpoint.body || endpoint.form.only || isForm(request)) ? endpoint.form : null
  let key: string | null
  try {
    if (form) {
      if (endpoint.free) await countFree(state)
      else await confirmKey(state)
      await receiveForm(endpoint, form, state)
    } else if (endpoint.body) {
      await receiveJson(endpoint, state)
    }
    if (endpoint.query) state.query = validate(endpoint.query, { ...ctx!.query })
    if (ctx) {
      rejectNul(ctx.params)
      rejectNul(state.query)
    }
    // Provisioning bodies are stored verbatim; the text of a prompt may contain anything.
    if (!isKeyAccess(endpoint.access)) rejectNul(state.body)
    const named = request.headers['idempotency-key']
    key = named !== undefined && isRepeatable(endpoint) ? idempotencyKeyOf(named) : null
  } catch (error) {
    // A revoked key is reported before any fault of the request.
    await deleteUploads(state)
    await confirmKey(state)
    throw error
  }
  if (endpoint.free && !form) await countFree(state)
  const streaming = (state.body as { stream?: unknown } | undefined)?.stream === true
  const runHandler = () => (key === null || streaming ? handle(endpoint, state) : handleOnce(endpoint, state, key))
  if (!form) return await runHandler()
  try {
    const result = await withFormNames(form, runHandler)
    if (form.passing) await deleteUploads(state)
    return result
  } catch (error) {
    await deleteUploads(state)
    throw error
  }
}

/**
 * Reads, parses and validates the JSON body of a request. This is not part of `serveRequest`, because a suspended async function
 * keeps every value that it has handled, here the bytes of the body, until it returns.
 */
async function receiveJson(endpoint: Endpoint, state: State): Promise<void> {
  state.client.time?.beginWait()
  state.raw = withoutMark(await readJsonBody(state, endpoint.maxBodyBytes))
  state.client.time?.endWait()
  if (state.raw.length > minReleasedBytes) releaseOnceSent(state)
  const isOmitted = state.raw.length === 0 && endpoint.optionalBody
  let value = isOmitted ? {} : parseJson(state.raw, 'The body', endpoint.maxBodyBytes, state.heldBody)
  if (endpoint.readBody)
    ({ value, raw: state.raw } = endpoint.readBody({ value, raw: state.raw }, state.params, state.search))
  if (endpoint.presets && namesPreset(value)) value = await usePreset(endpoint.presets, state, value)
  if (endpoint.innerPresets && namesPreset(Object(value).body))
    value = await useInnerPreset(endpoint.innerPresets(Object(value)), state, Object(value))
  // Yields to other requests between the steps of large work.
  if (state.raw.length > largeBytes) await setImmediate()
  // Until it is valid, only logs read it.
  state.body = value
  if (takesNulls(endpoint)) {
    const { body, raw } = validateRequest(endpoint.body!, value, state.raw)
    state.body = body
    state.raw = raw
  } else state.body = validate(endpoint.body!, value)
  if (state.raw.length > largeBytes) await setImmediate()
}

/** Lets the bytes of a large body be dropped, with their part of its memory, once they are not sent again. */
function releaseOnceSent(state: State): void {
  const bytes = state.raw.length
  // Named first: see "Functions that are assigned to properties" in docs/decisions/young-generation.md.
  const release = () => {
    // The log of input and output still needs it.
    if (state.client.copy) return
    state.raw = noBytes
    state.heldBody?.hold(-bytes * rawCopies)
  }
  state.releaseRaw = release
}

/** Counts a request without charge against the limits of its key, which its response states. Throws 401, 403, 429, 503. */
async function countFree({ services, apiKey, client }: State): Promise<void> {
  Object.assign(client.baseHeaders, await admitFree(services, apiKey))
}

/** Whether a body names a preset: `model: "@preset/name"`, `model: "gpt-5@preset/name"` or `preset: "name"`. */
export function namesPreset(body: unknown): boolean {
  const { model, preset } = Object(body) as { model?: unknown; preset?: unknown }
  return (preset !== undefined && preset !== null) || (typeof model === 'string' && model.includes('@preset/'))
}

/** Replaces a body by what it is with the preset that it names. Throws 400. */
async function usePreset(dialect: PresetDialect, state: State, value: unknown): Promise<unknown> {
  const { applyPreset } = await import('../shared/presets/apply-preset.ts')
  const { organisationId } = state.apiKey.policy
  const { presets } = state.services
  const { body, preset } = await applyPreset(presets, organisationId, dialect, value as Record<string, unknown>)
  // What Google's paths add to a body is not in its text.
  const { model, stream, alt, ...rest } = body
  state.raw = Buffer.from(JSON.stringify(dialect.startsWith('generate_content') ? rest : body))
  state.logFields.preset = preset
  state.client.baseHeaders['x-gateway-preset'] = preset
  return body
}

/** Replaces the inner body of a body by what it is with the preset that it names. Throws 400. */
async function useInnerPreset(dialect: PresetDialect, state: State, value: { body: unknown }): Promise<unknown> {
  const whole = { ...value, body: await usePreset(dialect, state, value.body) }
  state.raw = Buffer.from(JSON.stringify(whole))
  return whole
}

/** Whether standard keys have access. */
function isKeyAccess(access: Access): access is { scope: Scope | null } {
  return typeof access === 'object' && 'scope' in access
}

/** Whether null stands for an absent member of the body: where something is created; a change may mean another value. */
export function takesNulls({ access, method }: Endpoint): boolean {
  return isKeyAccess(access) && method === 'post'
}

function isSession(access: Access): access is SessionAccess {
  return access !== 'public' && access !== 'provisioning' && !isKeyAccess(access)
}

/** Whether `Idempotency-Key` applies. Session routes and callbacks don't support it. */
export function isRepeatable({ method, access }: Endpoint): boolean {
  return method === 'post' && access !== 'public' && !isSession(access)
}

/** The header that contains the key of a request. */
function authorizationOf({ access, dialect }: Endpoint, request: IncomingMessage): string | undefined {
  if (dialect === 'google') return googleKeyHeader(request)
  return isKeyAccess(access) ? keyHeader(request.headers) : request.headers.authorization
}

/** Authenticates the caller of an endpoint; a cached key needs no promise. Throws, or rejects with, 401 and 403. */
function identify(endpoint: Endpoint, state: State): Promise<void> | null {
  const { access } = endpoint
  if (access === 'public') return null
  if (isSession(access)) return authenticateSession(access, state.ctx!)
  const authorization = authorizationOf(endpoint, state.request)
  if (!authorization) throw missingKeyError(state.request, access === 'provisioning' ? access : 'standard')
  if (access === 'provisioning') return identifyOrganisation(state, authorization)
  const apiKey = resolveStandardKey(state.services, authorization, access.scope, { secret: endpoint.secret })
  if (apiKey instanceof Promise) return apiKey.then(key => setKey(state, key))
  setKey(state, apiKey)
  return null
}

function setKey(state: State, apiKey: ResolvedKey): void {
  state.apiKey = apiKey
  state.logFields.organisation = apiKey.policy.organisationId
  state.logFields.key = apiKey.policy.keyId
  if (apiKey.policy.contentLogging) copyContent(state)
}

async function identifyOrganisation(state: State, authorization: string): Promise<void> {
  const { organisationId, actor } = await resolveProvisioningKey(
    state.services,
    authorization,
    clientOf(state.request, state.services.config.trustedProxies),
  )
  state.organisationId = organisationId
  state.actor = actor
  state.logFields.organisation = organisationId
}

/** Throws 401 or 403 if a cached standard key no longer allows the request. */
export async function confirmKey({ apiKey, services }: Pick<State, 'apiKey' | 'services'>): Promise<void> {
  if (!apiKey?.isCached) return
  const { policy, scope } = await services.policies.confirm(apiKey)
  authorise(policy, scope, services.clock.now())
}

/** Runs the handler with the request's own state, which has every field that its type promises for the endpoint's access. */
function handle(endpoint: Endpoint, state: State): unknown {
  return endpoint.handle(state as Validated<unknown, unknown>)
}

/** Runs the handler under an `Idempotency-Key`, or replays its first response. */
async function handleOnce(endpoint: Endpoint, state: State, key: string): Promise<void> {
  await confirmKey(state)
  const { services, apiKey, client, method, path, raw } = state
  const provisioning = endpoint.access === 'provisioning'
  const request: IdempotentRequest = {
    organisationId: provisioning ? state.organisationId : apiKey.policy.organisationId,
    key,
    caller: provisioning ? 'provisioning' : apiKey.policy.environment,
    pathIds: Object.values(state.params),
    content: [Buffer.from(`${method} ${path}\n`), raw ?? Buffer.alloc(0)],
    // Provisioning routes return secrets.
    sealWith: provisioning || endpoint.secret ? parseBearer(authorizationOf(endpoint, state.request)!) : null,
    collect: bytes => client.collect(bytes),
  }
  const { answer, replayed } = await runOnce(services, request, (lease, defer) => {
    client.defer = defer
    // Named first, as below: see "Functions that are assigned to properties" in docs/decisions/young-generation.md.
    const keep: Keep = (tx, body, headers) => {
      const answer = jsonAnswer(state, statusOf(endpoint), body)
      return lease.storeInTransaction(tx, { ...answer, headers: { ...answer.headers, ...headers } })
    }
    state.keep = keep
    return recordAnswer(endpoint, state)
  })
  if (!answer) return
  if (replayed) await deleteUploads(state)
  if (replayed && !provisioning) assertReplayable(state, answer.headers['x-gateway-model'])
  const isCounted = replayed && !provisioning && !endpoint.free
  const headers = { ...(isCounted && (await admitFree(services, apiKey))), ...answer.headers }
  if (replayed) headers['idempotent-replayed'] = 'true'
  client.reply(answer.status, headers, answer.body)
}

/** Asserts that a key may use the model of a response that another key of its organisation received. Throws 403. */
function assertReplayable({ services, apiKey }: State, model: string | undefined): void {
  if (model === undefined || allowedModels(services.catalog, apiKey.policy)?.has(model) !== false) return
  const message = `The first response to this Idempotency-Key is from \`${model}\`, which this key may not use.`
  throw new GatewayError('model_not_allowed', message, { param: 'Idempotency-Key' })
}

/** Runs the handler and returns its response instead of sending it; null if the client disconnected. */
async function recordAnswer(endpoint: Endpoint, state: State): Promise<StoredAnswer | null> {
  const { client, ctx } = state
  let answer: StoredAnswer | null = null
  const record: HttpResponse['onAnswer'] = (status, headers, body) => {
    answer = { status, headers, body }
  }
  client.onAnswer = record
  const result = await handle(endpoint, state)
  if (answer || endpoint.bypassesKoa) return answer
  return jsonAnswer(state, result === undefined ? ctx!.status : statusOf(endpoint), result ?? ctx!.body)
}

function jsonAnswer({ ctx }: State, status: number, body: unknown): StoredAnswer {
  return { status, headers: ctx ? ownHeaders(ctx) : {}, body: JSON.stringify(body) }
}

/** The status of an endpoint's successful responses. */
export function statusOf({ answers }: Endpoint): number {
  return Number(Object.keys(answers)[0])
}

/** The gateway's own headers that a handler has set. */
function ownHeaders(ctx: Context): Record<string, string> {
  const own = Object.entries(ctx.response.headers).filter(([name]) => name.startsWith('x-'))
  return Object.fromEntries(own.map(([name, value]) => [name, String(value)]))
}

/** Anthropic's clients add it to every request. */
const betaQuery = '?beta=true'

/**
 * Dispatches requests: those to endpoints that bypass Koa directly, all others, and those with another query or a form, to
 * `app`. `posts`: the endpoints of `POST` by their fixed paths.
 */
export function directDispatch(
  services: Services,
  app: RequestListener,
  posts: ReadonlyMap<string, Endpoint>,
): RequestListener {
  return (request, response) => {
    request.url = withSingleSlashes(request.url!)
    if (request.method === 'GET') request.url = googleModelsUrl(request)
    const endpoint = request.method === 'POST' ? posts.get(pathOf(request.url)) : undefined
    if (endpoint?.bypassesKoa && !isForm(request)) void serveDirect(services, endpoint, request, response)
    else app(request, response)
  }
}

function pathOf(url: string): string {
  return url.endsWith(betaQuery) ? url.slice(0, -betaQuery.length) : url
}

async function serveDirect(
  services: Services,
  endpoint: Endpoint,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const state = openRequest(services, request, response, 'POST', endpoint.path)
  try {
    await serveRequest(endpoint, state)
  } catch (error) {
    failRequest(state, error)
  }
  closeRequest(state, response.statusCode)
}
