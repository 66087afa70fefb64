import { GatewayError } from '../base/errors.ts'
import { redactMessage } from '../base/redact.ts'
import { exchange, timeoutsWithin } from '../io/http.ts'
import type { PinnedPools } from '../io/pinned-pools.ts'
import type { CheckedUrl } from '../io/safe-url.ts'

/** How much of a response body is stored in the log. */
const maxLoggedBytes = 1_024
/** A longer response is aborted with its connection. */
const maxReadBytes = 64 * 1_024
const maxErrorLength = 500

/** A request to a checked URL. */
export type Message = { method?: 'POST' | 'PUT'; headers: Record<string, string>; body: string | Buffer }

/** The outcome of a request: an HTTP status with the start of the response body, or an error. */
export type Reply = { status: number | null; error: string | null; response: string | null; retryAfter: string | null }

/**
 * Posts to a caller's URL that was just checked: connects to the checked addresses only, follows no redirects, within what
 * is left of `timeoutMs` after `passedMs`. A received status counts, however its body ends. Never throws.
 */
export async function postWebhook(
  request: Message,
  target: CheckedUrl,
  pools: PinnedPools,
  { timeoutMs, passedMs }: { timeoutMs: number; passedMs: number },
): Promise<Reply> {
  const leftMs = timeoutMs - passedMs
  if (leftMs <= 0) return failedReply(new Error(noAnswer(timeoutMs)))
  const timeouts = timeoutsWithin(leftMs)
  const { method = 'POST', headers, body } = request
  const path = target.url.pathname + target.url.search
  return new Promise(resolve => {
    const parts: Buffer[] = []
    let bytes = 0
    let head: Pick<Reply, 'status' | 'retryAfter'> | null = null
    const resolveReply = () => resolve({ ...head!, error: null, response: textOf(Buffer.concat(parts)) })
    const running = exchange(pools.get(target), { method, path, headers, body }, timeouts, {
      onHead(status, { 'retry-after': retryAfter }) {
        head = { status, retryAfter: typeof retryAfter === 'string' ? retryAfter : null }
      },
      onData(part) {
        if (bytes < maxLoggedBytes) parts.push(part.subarray(0, maxLoggedBytes - bytes))
        bytes += part.length
        if (bytes > maxReadBytes) running.abort()
      },
      onEnd: resolveReply,
      onError(fault, error) {
        if (head) resolveReply()
        else resolve(failedReply(fault === 'timeout' ? new Error(noAnswer(timeoutMs)) : error))
      },
    })
  })
}

function noAnswer(timeoutMs: number): string {
  return `no answer within ${timeoutMs / 1_000} s`
}

/** The log entry of an attempt without a response. */
export function failedReply(error: unknown): Reply {
  const { message, code } = error as { message: string; code?: string }
  // A socket error's message contains addresses and may be missing; its code is what the receiver needs to know.
  const coded = code && !(error instanceof GatewayError) ? `the connection failed: ${code}` : message
  return { status: null, error: clean(coded).slice(0, maxErrorLength), response: null, retryAfter: null }
}

function textOf(bytes: Buffer): string | null {
  return bytes.length > 0 ? clean(redactMessage(bytes.toString('utf8'))) : null
}

/** Text fit for a log and a database: no control characters but line breaks and tabs. */
function clean(text: string): string {
  return text.toWellFormed().replace(/[^\P{Cc}\n\t]/gu, '')
}
