import { GatewayError } from '../shared/base/errors.ts'
import { exchange } from '../shared/io/http.ts'
import type { PinnedPools } from '../shared/io/pinned-pools.ts'
import type { CheckedUrl } from '../shared/io/safe-url.ts'

/** So much of an answer is kept for the log. */
const mostKeptBytes = 1_024
/** A longer answer is cut off with its connection. */
const mostReadBytes = 64 * 1_024
const mostErrorLength = 500

export type Post = { url: string; headers: Record<string, string>; body: string }
/** What came of it: an HTTP status with the beginning of the answer, or an error. */
export type Reply = { status: number | null; error: string | null; response: string | null; retryAfter: string | null }

/**
 * Posts to a URL that a caller gave us, just checked: connected to the checked addresses only, no redirects, all in what
 * is left of `timeoutMs` after `passedMs`. A status counts once it is there, however its body ends. Never throws.
 */
export async function post(
  request: Post,
  target: CheckedUrl,
  pools: PinnedPools,
  { timeoutMs, passedMs }: { timeoutMs: number; passedMs: number },
): Promise<Reply> {
  const leftMs = timeoutMs - passedMs
  if (leftMs <= 0) return failed(new Error(noAnswer(timeoutMs)))
  const timeouts = {
    connectTimeoutMs: leftMs,
    firstByteTimeoutMs: leftMs,
    idleTimeoutMs: leftMs,
    totalTimeoutMs: leftMs,
  }
  const { headers, body } = request
  const path = target.url.pathname + target.url.search
  return new Promise(resolve => {
    const parts: Buffer[] = []
    let bytes = 0
    let head: Pick<Reply, 'status' | 'retryAfter'> | null = null
    const answered = () => resolve({ ...head!, error: null, response: textOf(Buffer.concat(parts)) })
    const running = exchange(pools.of(target), { method: 'POST', path, headers, body }, timeouts, {
      onHead(status, { 'retry-after': retryAfter }) {
        head = { status, retryAfter: typeof retryAfter === 'string' ? retryAfter : null }
      },
      onData(part) {
        if (bytes < mostKeptBytes) parts.push(part.subarray(0, mostKeptBytes - bytes))
        bytes += part.length
        if (bytes > mostReadBytes) running.abort()
      },
      onEnd: answered,
      onError(fault, error) {
        if (head) answered()
        else resolve(failed(fault === 'timeout' ? new Error(noAnswer(timeoutMs)) : error))
      },
    })
  })
}

function noAnswer(timeoutMs: number): string {
  return `no answer within ${timeoutMs / 1_000} s`
}

/** An attempt that came to nothing, as the log tells it. */
export function failed(error: unknown): Reply {
  const { message, code } = error as { message: string; code?: string }
  // A socket's message names addresses and is not always there; its code says what a receiver needs to know.
  const coded = code && !(error instanceof GatewayError) ? `the connection failed: ${code}` : message
  return { status: null, error: clean(coded).slice(0, mostErrorLength), response: null, retryAfter: null }
}

function textOf(bytes: Buffer): string | null {
  return bytes.length > 0 ? clean(bytes.toString('utf8')) : null
}

/** Text fit for a log and a database: no control characters but line breaks and tabs. */
function clean(text: string): string {
  return text.toWellFormed().replace(/[^\P{Cc}\n\t]/gu, '')
}
