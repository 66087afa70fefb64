import type { Call, DirectAdapter } from '../../contract.ts'
import { withReasoningState } from '../reasoning-state.ts'
import { withDropped } from '../request-fields.ts'
import { toCompletion } from './answer.ts'
import { nameInChat, toResponsesRequest } from './request.ts'
import { ResponsesChunkDecoder } from './stream.ts'

/**
 * Serves chat requests by the Responses of their provider, for models that reason beside functions there only: the request is
 * translated to a Responses request, and the answer back. The state of the reasoning goes to the client and back as
 * `reasoning_details`.
 */
export function chatOverResponses(responses: DirectAdapter<'responses'>): DirectAdapter<'chat'> {
  return withReasoningState({
    native: false,
    request(call) {
      const { body, dropped } = toResponsesRequest(call.body)
      const { dropped: alsoDropped = [], adjusted, ...request } = responses.request({ ...call, body, raw: null })
      return withDropped({ ...request, fieldOf: nameInChat, ...(adjusted && { adjusted: adjusted.map(nameInChat) }) }, [
        ...dropped,
        ...alsoDropped.map(nameInChat),
      ])
    },
    answer(json, call) {
      const asked = asResponses(call)
      return toCompletion(responses.answer(json, asked), responses.usage!(json, asked))
    },
    stream: call =>
      new ResponsesChunkDecoder(responses.stream!(asResponses(call)), call.target.deployment.upstream_model),
  })
}

function asResponses(call: Call<'chat'>): Call<'responses'> {
  return { ...call, body: toResponsesRequest(call.body).body, raw: null }
}
