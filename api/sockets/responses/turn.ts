import type { IncomingHttpHeaders } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newId } from '../../../shared/base/ids.ts'
import { parseJson } from '../../../shared/base/json.ts'
import { editBody, memberText } from '../../../shared/base/json-member.ts'
import { elapsedMs } from '../../../shared/base/time.ts'
import { validateRequest } from '../../../shared/base/validate.ts'
import type { HeldBytes } from '../../../shared/io/byte-budget.ts'
import { requestLogger } from '../../../shared/io/log.ts'
import type { ResolvedKey } from '../../../shared/keys/policies.ts'
import { newResponse } from '../../../shared/kinds/response-object.ts'
import { inputItems, maxStreamIdLength, type ResponseCreate, responseCreate } from '../../../shared/kinds/responses.ts'
import { refuseBackground, refusePrompt } from '../../../shared/kinds/stored-responses.ts'
import type { Services } from '../../../shared/open-services.ts'
import { type ResponsesTurn, withContext, withoutRepeats } from '../../../shared/responses/context.ts'
import { ownId } from '../../../shared/responses/item-ids.ts'
import { ContextBudget } from '../../../shared/responses/previous-items.ts'
import { resolveReferences } from '../../../shared/responses/references.ts'
import { expandTurn, isStateless, type OpenTurn, openTurn } from '../../../shared/responses/turn.ts'
import { SpanKind } from '../../../shared/traces/trace.ts'
import { admitFree, resolveStandardKey } from '../../auth/api-keys.ts'
import { errorResponse } from '../../error-response.ts'
import { logRefusal } from '../../log-refusal.ts'
import { confirmKey, largeBytes, logFailure, namesPreset } from '../../request-lifecycle.ts'
import { recordOnSocket } from '../../request-metrics.ts'
import { endSocketTrace } from '../../request-trace.ts'
import { sessionOf } from '../../routes/request-headers.ts'
import { maxResponsesBytes, runResponse } from '../../routes/responses.ts'
import type { Input, RecentResponses } from './recent-responses.ts'
import type { TurnWriter } from './turn-writer.ts'

export const responsesPath = '/v1/responses'
const maxItems = 100_000

/** What the turns of a connection have in common. */
type TurnContext = {
  services: Services
  /** The header with the key, which every turn resolves again. */
  authorization: string
  /** The headers of the upgrade. */
  headers: IncomingHttpHeaders
  /** The id of the connection, whose turns are one session unless they name another. */
  connectionId: string
  recent: RecentResponses
}

/** A turn that a client asked for, and the memory of its frame. */
export type WaitingTurn = { frame: Buffer; held: HeldBytes }

/** What reading a turn needs besides. */
type ReadContext = TurnContext & { apiKey: ResolvedKey; held: HeldBytes; logFields: Record<string, unknown> }

/** A turn as the client asked for it; `continued`: with the whole conversation. */
type AskedTurn = ResponsesTurn & { generate: boolean; continued: OpenTurn; input: Input }

/**
 * Serves one `response.create` frame as a separate request: from its key to its log line. `held` accounts for the frame
 * and for the memory that its turn takes. Errors are sent as a frame. Returns the error, null if there is none. Never
 * rejects.
 */
export async function serveTurn(
  context: TurnContext,
  { frame, held }: WaitingTurn,
  writer: TurnWriter,
): Promise<GatewayError | null> {
  const { services, authorization } = context
  const { requestId } = writer
  const [startedMs, beganMs] = [services.clock.now(), services.monotonic.now()]
  const logFields: Record<string, unknown> = {}
  writer.trace = services.tracing?.begin(context.headers, `WS ${responsesPath}`, SpanKind.SERVER) ?? null
  let failure: GatewayError | null = null
  let key: ResolvedKey | undefined
  let asked: AskedTurn | undefined
  try {
    const apiKey = await resolveStandardKey(services, authorization, 'chat')
    logFields.organisation = apiKey.policy.organisationId
    logFields.key = apiKey.policy.keyId
    key = apiKey
    const { contentLogging } = apiKey.policy
    writer.copy = contentLogging && services.contentLog.open(contentLogging, { withOutput: true })
    asked = await readTurn({ ...context, apiKey, held, logFields }, frame, writer).catch(async error => {
      // A revoked key is reported before any fault of the request.
      await confirmKey({ services, apiKey })
      throw error
    })
    if (asked.generate) await answerTurn(context, asked, { apiKey, writer, logFields })
    else await warmUp(context, asked, apiKey, writer)
  } catch (error) {
    failure = logFailure(services, requestId, error)
    logFields.errorCode = failure.code
    writer.writeObject(errorFrame(failure, requestId))
  }
  const status = failure?.status ?? 200
  const durationMs = elapsedMs(beganMs, services.monotonic.now())
  const environment = key?.policy.environment ?? ''
  const refused = { key, model: asked?.body.model, streamed: true }
  const refusal = { kind: 'responses', requestId, startedMs, status, durationMs }
  const refusalId = failure && logRefusal(services, refused, { ...refusal, failure })
  if (writer.copy) {
    const id = logFields.generationId ?? failure?.headers['x-generation-id'] ?? refusalId
    const turn = { policy: key!.policy, kind: 'responses', id, failed: logFields.errorCode != null, startedMs }
    services.contentLog.addWanted(writer.copy, { ...turn, input: asked?.raw ?? frame, hasFiles: false })
  }
  if (services.metrics)
    recordOnSocket(services.metrics, logFields, { path: responsesPath, status, environment, durationMs })
  if (writer.trace) endSocketTrace(writer.trace, logFields, { requestId, path: responsesPath, status })
  requestLogger(services.log)({ requestId, method: 'WS', path: responsesPath, status, durationMs, ...logFields })
  return failure
}

/** An error as a frame: what the HTTP route would answer. */
export function errorFrame(failure: GatewayError, requestId: string): object {
  const { status, headers, body } = errorResponse(failure, responsesPath, requestId)
  return { type: 'error', status, ...JSON.parse(body), headers: { 'x-request-id': requestId, ...headers } }
}

/** Parses and validates a frame, and adds the conversation that it continues. Throws 400, 413. */
async function readTurn(context: ReadContext, frame: Buffer, writer: TurnWriter): Promise<AskedTurn> {
  let raw = frame
  let value = parseJson(raw, 'The frame', maxResponsesBytes, context.held)
  const { type, response, model, stream_id } = Object(value)
  if (typeof stream_id === 'string' && stream_id.length <= maxStreamIdLength) writer.streamId = stream_id
  // Some clients wrap the request, as they do in realtime sessions.
  if (model === undefined && response !== null && typeof response === 'object') {
    raw = Buffer.from(memberText(raw.toString('latin1'), 'response')!, 'latin1')
    value = { type, ...response }
  }
  if (namesPreset(value)) {
    const { applyPreset } = await import('../../../shared/presets/apply-preset.ts')
    const { organisationId } = context.apiKey.policy
    const used = await applyPreset(context.services.presets, organisationId, 'responses', Object(value))
    value = used.body
    raw = Buffer.from(JSON.stringify(value))
    context.logFields.preset = used.preset
  }
  if (raw.length > largeBytes) await setImmediate()
  const { body: created, raw: text } = validateRequest(responseCreate, value, raw, 'The frame')
  if (raw.length > largeBytes) await setImmediate()
  refuseBackground(created)
  refusePrompt(created)
  const turn = asRequest(created, text)
  const generate = created.generate !== false
  const continued = await continueTurn(context, turn, generate)
  checkInput(continued, generate)
  const previousId = created.previous_response_id ?? null
  const input = { previousId, fresh: continued.own, whole: inputItems(continued.body) }
  return { ...turn, generate, continued, input }
}

/** The frame as the body of a request for a stream. */
function asRequest(created: ResponseCreate, raw: Buffer): ResponsesTurn {
  const { type: _, generate: __, stream_id: ___, ...body } = created
  const removed = { type: undefined, generate: undefined, stream_id: undefined }
  const edited = editBody(raw, created, { ...removed, stream: true })
  return { body: { ...body, stream: true }, raw: Buffer.from(edited) }
}

/**
 * Adds what a turn continues: an earlier response of the connection, or what is stored. Throws as `openTurn` does, and 400 if
 * neither has the response.
 */
async function continueTurn(
  { services, headers, connectionId, recent, apiKey, held }: ReadContext,
  turn: ResponsesTurn,
  generate: boolean,
): Promise<OpenTurn> {
  const { body } = turn
  const previousId = body.previous_response_id ?? null
  const named = sessionOf(headers, body)
  // Reasoning goes back to the account that made it.
  const session = named ?? connectionId
  const begins = named === null && previousId === null
  const isOnlyHere = previousId !== null && recent.isOnlyHere(previousId) && body.store !== true
  if (isOnlyHere && body.conversation == null) {
    const budget = new ContextBudget(held, turn.raw)
    const earlier = recent.find(previousId, budget.meterOf('previous_response_id'))!
    await setImmediate()
    const earlierIds = earlier.flatMap(item => ownId(item) ?? [])
    const resolved = await resolveReferences(services, apiKey.policy, turn, { budget, earlierIds })
    const added = withoutRepeats(resolved.turn, earlier)
    const whole = withContext(added, earlier)
    return { ...whole, own: inputItems(added.body), storage: null, session, begins }
  }
  const own = inputItems(body)
  if (isStateless(services, apiKey, body)) return { ...turn, own, storage: null, session, begins }
  try {
    if (!generate)
      return { ...(await expandTurn(services, apiKey, turn, held)), storage: null, session: null, begins: false }
    const opened = await openTurn(services, apiKey, turn, { held, session: named })
    return opened.session === null ? { ...opened, session, begins } : opened
  } catch (error) {
    throw isNotKept(error) ? unknownResponseError(previousId!) : error
  }
}

/** Whether the organisation stores no responses, so that only the connection could have the one that a turn continues. */
function isNotKept(error: unknown): boolean {
  return (
    error instanceof GatewayError && error.code === 'unsupported_capability' && error.param === 'previous_response_id'
  )
}

function unknownResponseError(id: string): GatewayError {
  const message = `Previous response with id '${id.slice(0, 200)}' not found. Send the whole conversation as \`input\`.`
  return new GatewayError('previous_response_not_found', message, { param: 'previous_response_id' })
}

function checkInput({ body: { input }, raw }: ResponsesTurn, generate: boolean): void {
  if (raw.length > maxResponsesBytes)
    throw new GatewayError('request_too_large', 'The conversation is larger than 32 MiB.')
  if (generate && input.length === 0)
    throw new GatewayError('invalid_request', '`input`: the conversation has no items.', { param: 'input' })
  if (typeof input !== 'string' && input.length > maxItems)
    throw new GatewayError('invalid_request', '`input`: the conversation has more than 100,000 items.', {
      param: 'input',
    })
}

type RunningTurn = { apiKey: ResolvedKey; writer: TurnWriter; logFields: Record<string, unknown> }

async function answerTurn(
  { services, headers, recent }: TurnContext,
  { body, raw, continued, input }: AskedTurn,
  { apiKey, writer, logFields }: RunningTurn,
): Promise<void> {
  const { requestId } = writer
  await runResponse({ services, apiKey, body, raw, requestId, client: writer, headers, logFields }, continued)
  const { ended } = writer
  if (ended) recent.add(ended.id, input, ended.output, ended.isStored)
}

/** Adds the input of a turn with `generate: false` to the conversation, without an answer and without charge. */
async function warmUp(
  { services, recent }: TurnContext,
  { body, input }: AskedTurn,
  apiKey: ResolvedKey,
  writer: TurnWriter,
): Promise<void> {
  await admitFree(services, apiKey)
  const createdAt = Math.floor(services.clock.now() / 1000)
  const response = newResponse({ id: newId('resp'), model: body.model, createdAt }, body)
  recent.add(response.id, input, [], false)
  writer.writeObject({ type: 'response.created', sequence_number: 0, response })
  const completed = { ...response, status: 'completed', completed_at: createdAt, usage: noUsage }
  writer.writeObject({ type: 'response.completed', sequence_number: 1, response: completed })
}

const noUsage = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
}
