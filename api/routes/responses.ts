import { directKinds } from '../../shared/kinds/index.ts'
import { refuseStored } from '../../shared/kinds/stored-responses.ts'
import { responsesFeatures } from '../../shared/routing/responses-features.ts'
import { direct } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { responseEvent, responseObject } from '../schemas/responses.ts'
import { modelErrors } from './model-errors.ts'
import { codexEtag } from './models.ts'
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
    'Accepts and returns OpenAI’s Responses format, and takes any chat model. Providers that have this format receive the request as you sent it, apart from what is not offered or has no price; for all others it is translated to a chat completion. Nothing is stored: send the whole conversation as `input`. Web searches by the provider’s tool are charged each, and are at most `max_tool_calls`; other tools that the provider would run are left out, unless `tool_choice` names them. With `stream: true` the response is a stream of server-sent events, terminated by `data: [DONE]`.\n\n**WebSocket.** The same path accepts a WebSocket for many turns: each text frame `{"type":"response.create", …}` has the fields of this body and is answered with the events of the stream, one JSON object per frame. `previous_response_id` names an earlier response of the connection. A refused turn is a frame `{"type":"error","status":…,"error":{…},"headers":{…}}`, and the connection stays open.',
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
        'x-models-etag',
      ],
    },
  },
  errors: ['context_length_exceeded', 'url_not_allowed', ...modelErrors],
  async handle(request) {
    refuseStored(request.body)
    const { services, apiKey, client } = request
    const etag = codexEtag(services, apiKey.policy)
    if (etag !== null) client.baseHeaders['x-models-etag'] = etag
    await runDirect('responses', request, responsesFeatures(request.body, request.raw.length))
  },
})
