import { GatewayError } from '../base/errors.ts'
import type { ResponsesRequest } from './responses.ts'

/**
 * Refuses what needs stored responses, rather than answering without the earlier conversation. `at` precedes the names of
 * the fields, such as `body.`. Throws a GatewayError `unsupported_capability`.
 */
export function refuseStored(body: ResponsesRequest, at = ''): void {
  const refusals = [
    ['previous_response_id', body.previous_response_id, 'send the whole conversation as `input`'],
    ['conversation', body.conversation, 'send the whole conversation as `input`'],
    ['background', body.background, 'use a delayed job instead'],
    ['store', body.store, 'leave it out, or set it to false'],
    ['prompt', body.prompt, 'send its text as `instructions` and `input`'],
  ] as const
  for (const [param, value, advice] of refusals) {
    if (value == null || value === false) continue
    const message = `\`${at}${param}\`: responses are not stored here; ${advice}.`
    throw new GatewayError('unsupported_capability', message, { param: at + param })
  }
}

/** Refuses what no route for responses offers. Throws a GatewayError `unsupported_capability`. */
export function refuseUnsupported({ background, prompt }: ResponsesRequest): void {
  const refusals = [
    ['background', background, 'responses in the background are not offered; use a delayed job instead'],
    ['prompt', prompt, 'prompts are not stored here; send its text as `instructions` and `input`'],
  ] as const
  for (const [param, value, reason] of refusals) {
    if (value == null || value === false) continue
    throw new GatewayError('unsupported_capability', `\`${param}\`: ${reason}.`, { param })
  }
}
