import type { GatewayError } from '../base/errors.ts'
import { errorInStream } from '../engine/failures.ts'

/**
 * Server-sent events in OpenAI's media format: the data of each names its type; image events also have an `event:`
 * line.
 */

export function formatEvent(value: { type: string; [field: string]: unknown }): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** The same with an `event:` line. */
export function formatNamedEvent(value: { type: string; [field: string]: unknown }): string {
  return `event: ${value.type}\n${formatEvent(value)}`
}

/** The end of a complete answer; a failed one ends without it. */
export const lastEvent = 'data: [DONE]\n\n'

/** The final event of a failed request. */
export function failedEvent(failure: GatewayError): string {
  return formatNamedEvent({ type: 'error', error: errorInStream(failure) })
}
