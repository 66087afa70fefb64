import { GatewayError } from '../../shared/base/errors.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import type { ResponsesRequest } from '../../shared/kinds/responses.ts'
import { responsesFeatures } from '../../shared/routing/responses-features.ts'
import { direct } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { responseEvent, responseObject } from '../schemas/responses.ts'
import { modelErrors } from './model-errors.ts'
import { runDirect } from './run-direct.ts'
import { sessionHeaders } from './session-name.ts'

/** Every turn has the whole conversation, with its images and documents. */
export const maxResponsesBytes = 32 * 1024 * 1024

export const createResponse = direct({
  method: 'post',
  path: '/v1/responses',
  operationId: 'createResponse',
  tag: 'Responses',
  summary: 'Create a response',
  description:
    'Accepts and returns OpenAI’s Responses format, and takes any chat model. Providers that have this format receive the request as you sent it, apart from what is not offered or has no price; for all others it is translated to a chat completion. Nothing is stored: send the whole conversation as `input`. Tools that the provider would run are left out, unless `tool_choice` names them. With `stream: true` the response is a stream of server-sent events, terminated by `data: [DONE]`.\n\n**WebSocket.** The same path accepts a WebSocket for many turns: each text frame `{"type":"response.create", …}` has the fields of this body and is answered with the events of the stream, one JSON object per frame. `previous_response_id` names an earlier response of the connection. A refused turn is a frame `{"type":"error","status":…,"error":{…},"headers":{…}}`, and the connection stays open.',
  access: { scope: 'chat' },
  headers: sessionHeaders,
  body: directKinds.responses,
  maxBodyBytes: maxResponsesBytes,
  example: { model: 'auto', instructions: 'You are a helpful assistant.', input: 'Hello!' },
  answers: {
    200: {
      description: 'The response, or its event stream.',
      schema: responseObject,
      events: responseEvent,
      headers: [
        ...generationHeaders,
        'x-gateway-max-tokens-clamped',
        'x-gateway-dropped',
        'x-gateway-reasoning-dropped',
      ],
    },
  },
  errors: ['context_length_exceeded', 'url_not_allowed', ...modelErrors],
  async handle(request) {
    refuseStored(request.body)
    await runDirect('responses', request, responsesFeatures(request.body, request.raw.length))
  },
})

/** Refuses what needs stored responses, rather than answering without the earlier conversation. Throws a 400. */
export function refuseStored(body: ResponsesRequest): void {
  const refusals = [
    ['previous_response_id', body.previous_response_id, 'send the whole conversation as `input`'],
    ['conversation', body.conversation, 'send the whole conversation as `input`'],
    ['background', body.background, 'use a delayed job instead'],
    ['store', body.store, 'leave it out, or set it to false'],
    ['prompt', body.prompt, 'send its text as `instructions` and `input`'],
  ] as const
  for (const [param, value, advice] of refusals) {
    if (value == null || value === false) continue
    const message = `\`${param}\`: responses are not stored here; ${advice}.`
    throw new GatewayError('unsupported_capability', message, { param })
  }
}
