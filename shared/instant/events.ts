/** Server-sent events as OpenAI's audio routes have them: each names its type in its data. */

export function eventOf(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** The end of a whole answer; one that broke off ends without it (contract §2). */
export const lastEvent = 'data: [DONE]\n\n'

const message = 'The provider’s answer broke off.'
export const brokenEvent: string = eventOf({
  type: 'error',
  error: { type: 'upstream_error', code: 'upstream_error', message },
})
