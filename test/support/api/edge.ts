import { once } from 'node:events'
import http from 'node:http'
import { isGooglePath } from '../../../api/google-dialect.ts'
import { isMessagesPath, isResponsesPath } from '../../../api/http-response.ts'
import { errorAnswer } from '../../../api/schemas/core.ts'
import { googleError } from '../../../api/schemas/gemini.ts'
import { messagesError } from '../../../api/schemas/messages.ts'
import { responsesError } from '../../../api/schemas/responses.ts'
import { type ErrorBody, type ErrorCode, GatewayError } from '../../../shared/base/errors.ts'
import { googleErrorBody } from '../../../shared/engine/google-error.ts'
import { messagesErrorBody, messagesErrorStatus } from '../../../shared/engine/messages-error.ts'
import { responsesErrorBody, responsesErrorStatus } from '../../../shared/engine/responses-error.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import type { Gateway } from '../gateway.ts'
import type { ExecutionContext } from '../test.ts'

/** Small valid bodies of every POST and PATCH route that takes one, for a catalog's real models. */
export const validBodies = {
  '/v1/chat/completions': { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/completions': { model: 'gpt-5.6-luna', prompt: 'Hello' },
  '/v1/messages': { model: 'gpt-5.6-luna', max_tokens: 64, messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/messages/count_tokens': { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/responses': { model: 'gpt-5.6-luna', max_output_tokens: 64, input: 'Hello' },
  '/v1/embeddings': { model: 'text-embedding-3-small', input: 'Hello' },
  '/v1/route': { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }] },
  '/api/v1/keys': { name: 'A key' },
} as const
export type BodyPath = keyof typeof validBodies
export const bodyPaths = Object.keys(validBodies) as BodyPath[]

/** A provisioning key of an organisation. */
export async function provisioningKey(gateway: Gateway, organisationId: string): Promise<string> {
  return (await gateway.services.keys.createProvisioning(organisationId, operatorActor)).secret
}

/** The error of an answer in exactly the format of its route, with our own code; throws for any other. */
export function errorIn(response: Response, text: string): ErrorBody['error'] {
  const { pathname } = new URL(response.url)
  if (isResponsesPath(pathname)) {
    const { error } = responsesError.parse(JSON.parse(text))
    const code = error.code === 'insufficient_quota' ? error.metadata?.code : error.code
    return { ...error, code } as ErrorBody['error']
  }
  if (isGooglePath(pathname)) {
    const { message, status, details } = googleError.parse(JSON.parse(text)).error
    const { code, param = null } = details[0]!.metadata as { code: ErrorCode; param?: string }
    return { code, type: status, message, param }
  }
  const schema = isMessagesPath(pathname) ? messagesError : errorAnswer
  return schema.parse(JSON.parse(text)).error as ErrorBody['error']
}

/** The status and the type that belong to a code on the route of an answer. */
export function expectedError(response: Response, code: ErrorCode): { status: number; type: string } {
  const failure = new GatewayError(code, '')
  const { pathname } = new URL(response.url)
  if (isResponsesPath(pathname))
    return { status: responsesErrorStatus(failure), type: responsesErrorBody(failure).error.type }
  if (isGooglePath(pathname)) return { status: failure.status, type: googleErrorBody(failure, '').error.status }
  if (!isMessagesPath(pathname)) return { status: failure.status, type: failure.body.error.type }
  return { status: messagesErrorStatus(failure), type: messagesErrorBody(failure, '').error.type }
}

/** Asserts an error answer: status, exact shape, the type that belongs to the code, a request id. */
export async function answersError(
  t: ExecutionContext,
  response: Response,
  code: ErrorCode,
  param?: string | null,
  what = code as string,
): Promise<ErrorBody['error']> {
  const text = await response.text()
  const expected = expectedError(response, code)
  const shown = `${what}: ${response.status} ${text.slice(0, 500)}`
  t.is(response.status, expected.status, shown)
  t.regex(response.headers.get('content-type') ?? '', /^application\/json/, shown)
  t.truthy(response.headers.get('x-request-id'), shown)
  const error = errorIn(response, text)
  t.is(error.code, code, shown)
  t.is(error.type, expected.type, shown)
  t.true(error.message.length > 0, shown)
  if (param !== undefined) t.is(error.param, param, shown)
  return error
}

export type RawAnswer = { status: number; headers: http.IncomingHttpHeaders; body: string }

/** A request with full control over its headers and bytes; an iterable body is sent chunked. */
export async function rawCall(
  base: string,
  options: { method: string; path: string; headers?: http.OutgoingHttpHeaders; body?: Buffer | Iterable<Buffer> },
): Promise<RawAnswer> {
  const { method, path, headers = {}, body } = options
  const request = http.request(`${base}${path}`, { method, headers, agent: false })
  const answered = once(request, 'response') as Promise<[http.IncomingMessage]>
  // The server may answer and hang up before it has read everything.
  request.on('error', () => {})
  if (body && !Buffer.isBuffer(body)) for (const part of body) request.write(part)
  request.end(Buffer.isBuffer(body) ? body : undefined)
  const [response] = await answered
  const parts: Buffer[] = []
  for await (const part of response) parts.push(part as Buffer)
  return { status: response.statusCode!, headers: response.headers, body: Buffer.concat(parts).toString() }
}

const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }

/** An upstream's answer that does not depend on the request, whatever it asks for. */
export const plainChatReply = json(200, {
  id: 'chatcmpl-plain',
  object: 'chat.completion',
  created: 1_795_132_800,
  model: 'plain',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage,
})
/** As many vectors as the request has inputs. */
export function embeddingReply({
  input,
  encoding_format: format,
}: {
  input: unknown
  encoding_format?: unknown
}): Reply {
  const inputs = Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]
  const embedding = format === 'base64' ? Buffer.from(Float32Array.of(0.5).buffer).toString('base64') : [0.5]
  const data = inputs.map((_, index) => ({ object: 'embedding', index, embedding }))
  return json(200, { object: 'list', model: 'plain', data, usage: { prompt_tokens: 5, total_tokens: 5 } })
}
const chunk = (choice: object, rest: object = {}) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-plain', object: 'chat.completion.chunk', created: 1_795_132_800, model: 'plain', choices: [{ index: 0, ...choice }], ...rest })}\n\n`
export const plainStream = `${chunk({ delta: { content: 'Hi' }, finish_reason: null })}${chunk({ delta: {}, finish_reason: 'stop' }, { usage })}data: [DONE]\n\n`
