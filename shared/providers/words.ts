import type { FailureReason, ProviderError } from './contract.ts'
import { type Headers, reasonOfStatus, refusal } from './fields.ts'

/** What the words of a failure speak of, for providers that name no reasons or not all of them; the first match counts. */
const meanings: [words: RegExp, reason: FailureReason][] = [
  [/(?:insufficient|not (?:have )?enough|out of|no (?:more )?)[\s_]?(?:credits?|balance|funds|quota)\b/i, 'quota'],
  [/moderat|nsfw|(?:content|usage|safety)[\s_]polic|inappropriate|prohibited|copyright/i, 'content_filter'],
  [
    /invalid|unsupported|not supported|corrupt|no[\s_](?:\w+[\s_])?face|(?:not|cannot|can't|failed to) (?:be )?(?:found|detect|download|read|decode|open)|too (?:long|short|large|small)/i,
    'invalid_request',
  ],
]

/** What follows says no more about the reason. */
const mostRead = 1_000

function reasonOfWords(words: string, otherwise: FailureReason): FailureReason {
  const read = words.slice(0, mostRead)
  return meanings.find(([pattern]) => pattern.test(read))?.[1] ?? otherwise
}

/** An answer that is not 2xx: what its status means, and for a refused request what its words say. */
export function refusalInWords(status: number, headers: Headers, message: string, code = ''): ProviderError {
  const meant = reasonOfStatus(status)
  const reason = meant === 'invalid_request' ? reasonOfWords(`${code} ${message}`, meant) : meant
  return refusal(reason, message, status, headers)
}

/** Work that failed after it was started. `otherwise`: what it is when its code and words name no known reason. */
export function workFailure(
  message: string | null,
  code: string | null = null,
  otherwise: FailureReason = 'server_error',
): ProviderError {
  return refusal(reasonOfWords(`${code ?? ''} ${message ?? ''}`, otherwise), message ?? '')
}
