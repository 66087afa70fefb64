import type { FailureReason, ProviderError } from '../provider-error.ts'
import type { Headers } from './json-fields.ts'
import { reasonOfStatus, refusal } from './refusal.ts'

/**
 * What models say of a file or a text of the wrong size, behind any provider of theirs: “expected the width to be at least
 * 300px, but received a 152x515px image instead” (Seedance), “Image aspect ratio (0.30) is outside the allowed range” and
 * “Image pixel is invalid” (Kling).
 */
export const unfitSize =
  /expected the (?:width|height) to be|outside the allowed range|must be between|image pixel is invalid|too[\s_](?:long|short|large|small)/i

/** Meanings of failure messages, for providers without (complete) reason codes; the first match counts. */
const messagePatterns: [words: RegExp, reason: FailureReason][] = [
  [/(?:insufficient|not (?:have )?enough|out of|no (?:more )?)[\s_]?(?:credits?|balance|funds|quota)\b/i, 'quota'],
  [
    /moderat|nsfw|(?:content|usage|safety)[\s_]polic|inappropriate|prohibited|copyright|risk control|safety system|flagged as sensitive|sensitive ?(?:content|information|word)|may contain real person/i,
    'content_filter',
  ],
  [unfitSize, 'invalid_request'],
  // Of a file that this gateway serves.
  [/(?:not|cannot|can't|failed to|unable to) (?:be )?(?:download|fetch)/i, 'server_error'],
  [
    /invalid|unsupported|not supported|corrupt|no[\s_](?:\w+[\s_])?face|(?:not|cannot|can't|failed to) (?:be )?(?:found|detect|read|decode|open)/i,
    'invalid_request',
  ],
]

/** Only the beginning is matched; the rest adds nothing about the reason. */
const maxRead = 1_000

function reasonOfMessage(message: string, otherwise: FailureReason): FailureReason {
  const beginning = message.slice(0, maxRead)
  return messagePatterns.find(([pattern]) => pattern.test(beginning))?.[1] ?? otherwise
}

/** Classifies a response outside 2xx by its status, and a rejected request also by its message. */
export function classifyResponse(status: number, headers: Headers, message: string, code = ''): ProviderError {
  const statusReason = reasonOfStatus(status)
  const reason = statusReason === 'invalid_request' ? reasonOfMessage(`${code} ${message}`, statusReason) : statusReason
  return refusal(reason, message, status, headers)
}

/** Classifies work that failed after its start. `otherwise`: the reason when code and message match none. */
export function classifyWorkFailure(
  message: string | null,
  code: string | null = null,
  otherwise: FailureReason = 'server_error',
): ProviderError {
  return refusal(reasonOfMessage(`${code ?? ''} ${message ?? ''}`, otherwise), message ?? '')
}
