import { countResponseTokens } from '../../shared/chat/count-tokens.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import { countInputRequest, type ResponsesRequest } from '../../shared/kinds/responses.ts'
import { refusePrompt } from '../../shared/kinds/stored-responses.ts'
import { expandTurn, isStateless, type OpenTurn, openTurn } from '../../shared/responses/turn.ts'
import { responsesFeatures } from '../../shared/routing/responses-features.ts'
import { endpointWithoutKoa, type RequestWithoutKoa } from '../endpoint.ts'
import { chatHeaders } from '../schemas/headers.ts'
import { inputTokens, responseEvent, responseObject } from '../schemas/responses.ts'
import { answerBackground, createBackground } from './background-response.ts'
import { type RunRequest, runDirect } from './chat.ts'
import { directErrors } from './model-errors.ts'
import { codexEtag } from './models.ts'
import {
  cacheHeader,
  cacheMarksHeader,
  labelHeaders,
  sessionHeaders,
  sessionOf,
  structuredHeader,
  timeoutHeader,
} from './request-headers.ts'

/** Every turn may have the whole conversation, with its images and documents. */
export const maxResponsesBytes = 32 * 1024 * 1024

/** What the routes that take a request for a response have in common. */
export const sharedByResponses = {
  method: 'post',
  tag: 'Responses',
  access: { scope: 'chat' },
  maxBodyBytes: maxResponsesBytes,
} as const
const example = { model: 'auto', instructions: 'You are a helpful assistant.', input: 'Hello!' }
export const responseErrors = [
  ...directErrors,
  'previous_response_not_found',
  'not_found',
  'service_tier_not_allowed',
] as const

export const createResponse = endpointWithoutKoa({
  ...sharedByResponses,
  path: '/v1/responses',
  operationId: 'createResponse',
  summary: 'Create a response',
  description:
    'Accepts and returns OpenAI’s Responses format, and takes any chat model. Providers that have this format receive the request as you sent it, apart from what is not offered or has no price; for all others it is translated to a chat completion. Where the organisation keeps responses, they are stored, so that `previous_response_id` and `conversation` continue them with any model; otherwise send the whole conversation as `input`. Web searches by the provider’s tool are charged each, and are at most `max_tool_calls`; other tools that the provider would run are left out, unless `tool_choice` names them. With `stream: true` the response is a stream of server-sent events, terminated by `data: [DONE]`.\n\n**Background.** With `background: true` the answer is a response with the status `queued`, which is made within an hour whether its client waits or not: retrieve it until its status is `completed`, `incomplete`, `failed` or `cancelled`. With `stream: true` its events can be resumed.\n\n**WebSocket.** The same path accepts a WebSocket for many turns: each text frame `{"type":"response.create", …}` has the fields of this body and is answered with the events of the stream, one JSON object per frame. `previous_response_id` names an earlier response of the connection, or a stored one. A refused turn is a frame `{"type":"error","status":…,"error":{…},"headers":{…}}`, and the connection stays open.',
  headers: [...sessionHeaders, cacheMarksHeader, timeoutHeader, cacheHeader, structuredHeader, ...labelHeaders],
  body: directKinds.responses,
  presets: 'responses',
  example,
  answers: {
    200: {
      description: 'The response, or its event stream.',
      schema: responseObject,
      events: responseEvent,
      headers: [...chatHeaders, 'x-gateway-cache-marked', 'x-models-etag'],
    },
  },
  errors: [...responseErrors, 'quota_exceeded'],
  async handle(request) {
    const { services, apiKey, body, raw, headers, client } = request
    refusePrompt(body)
    const etag = codexEtag(services, apiKey.policy)
    if (etag !== null) client.baseHeaders['x-models-etag'] = etag
    if (body.background === true) {
      const created = await withMemory(request, held => createBackground(request, held))
      return answerBackground(request, created)
    }
    if (isStateless(services, apiKey, body)) return runDirect('responses', request, responsesFeatures(body, raw.length))
    await withMemory(request, async held => {
      const session = sessionOf(headers, body)
      await runResponse(request, await openTurn(services, apiKey, { body, raw }, { held, session }))
    })
  },
})

export const countInputTokens = endpointWithoutKoa({
  ...sharedByResponses,
  path: '/v1/responses/input_tokens',
  operationId: 'countResponseInputTokens',
  summary: 'Count the input tokens of a response',
  description:
    'Counts the tokens that the request would have as a prompt, including those of what `previous_response_id` or `conversation` adds. Free of charge; counts as a request against the key’s limits. For models with another tokenizer than the gateway’s the result is an estimate that is rather too high.',
  body: countInputRequest.meta({ id: 'CountResponseInputTokensRequest' }),
  presets: 'responses_count',
  example,
  free: true,
  answers: { 200: { description: 'The number of tokens.', schema: inputTokens } },
  errors: [...responseErrors],
  async handle(request) {
    const { services, apiKey, body, raw, client } = request
    await withMemory(request, async held => {
      const turn = await expandTurn(services, apiKey, { body: { ...body, input: body.input ?? [] }, raw }, held)
      const features = responsesFeatures(turn.body, turn.raw.length)
      const tokens = await countResponseTokens(services, { key: apiKey, body: turn.body, features })
      client.answer({}, JSON.stringify({ object: 'response.input_tokens', input_tokens: tokens }))
    })
  },
})

/** Runs work on stored items, whose memory counts with that of the request meanwhile. */
export async function withMemory<T>(
  { heldBody }: Pick<RequestWithoutKoa<unknown>, 'heldBody'>,
  work: (held: HeldBytes) => Promise<T>,
): Promise<T> {
  const held = heldBody!
  const ownBytes = held.bytes
  try {
    return await work(held)
  } finally {
    held.hold(ownBytes - held.bytes)
  }
}

/** Runs a request for a response with what it continues, and stores the response where the turn says so. */
export async function runResponse(
  request: RunRequest<ResponsesRequest>,
  { storage, session, begins, body, raw }: OpenTurn,
): Promise<void> {
  const turn = { body, raw }
  const features = responsesFeatures(body, raw.length)
  const naming = session === null ? request.body : { prompt_cache_key: session }
  await runDirect('responses', request, features, { naming, begins, turn, ...(storage && { storage }) })
}
