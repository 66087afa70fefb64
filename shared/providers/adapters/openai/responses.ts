import { isObject } from '../../../base/is-object.ts'
import type { ResponsesObject } from '../../../kinds/responses-answer.ts'
import type { DirectAdapter } from '../../contract.ts'
import { reportedFailure } from './failure.ts'
import { completeResponse, failureOfResponse, responseFrom, usageOf } from './responses-answer.ts'
import { requestOf } from './responses-request.ts'
import { collectResponse, ResponsesEventReader } from './responses-stream.ts'

/**
 * `POST /responses` of providers that have it (trait `responses`): the client's bytes, apart from what `requestOf`
 * changes.
 */
export const responses: DirectAdapter<'responses'> = {
  native: true,
  request(call) {
    const request = requestOf(call)
    if (!call.body.stream) request.collect = text => collectResponse(text, call.target.provider)
    return request
  },
  answer(json) {
    if (isObject(json) && isObject(json.error) && json.object !== 'response') throw reportedFailure(json)
    const response = responseFrom(json)
    if (response.status === 'failed' || response.status === 'cancelled') throw failureOfResponse(response)
    return completeResponse(response, 'completed') as unknown as ResponsesObject
  },
  stream: ({ target }) => new ResponsesEventReader(target.provider),
  usage: (json, { target }) => usageOf(responseFrom(json), target.provider),
}
