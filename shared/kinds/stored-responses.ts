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

/** Refuses prompts by their ids. Throws a GatewayError `unsupported_capability`. */
export function refusePrompt({ prompt }: ResponsesRequest): void {
  if (prompt == null) return
  const message = '`prompt`: prompts are not stored here; send its text as `instructions` and `input`.'
  throw new GatewayError('unsupported_capability', message, { param: 'prompt' })
}

/** Refuses a response in the background on a WebSocket. Throws a GatewayError `unsupported_capability`. */
export function refuseBackground({ background }: ResponsesRequest): void {
  if (background !== true) return
  const message = '`background`: a connection shows its responses itself; send the request by HTTP instead.'
  throw new GatewayError('unsupported_capability', message, { param: 'background' })
}
