import type { GatewayError } from '../base/errors.ts'

/** Server-sent events as OpenAI's media routes have them: each names its type in its data, those of images also as their event. */

export function eventOf(value: { type: string; [field: string]: unknown }): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** The same with an `event:` line. */
export function namedEventOf(value: { type: string; [field: string]: unknown }): string {
  return `event: ${value.type}\n${eventOf(value)}`
}

/** The end of a whole answer; one that broke off ends without it (contract §2). */
export const lastEvent = 'data: [DONE]\n\n'

/** The end of an answer that nobody could give. */
export function failedEvent({ body }: GatewayError): string {
  return namedEventOf({ type: 'error', ...body })
}

const message = 'The provider’s answer broke off.'
export const brokenEvent: string = namedEventOf({
  type: 'error',
  error: { message, type: 'upstream_error', code: 'upstream_error', param: null },
})
