import type { Bytes } from '../io/bytes.ts'
import { maxRedirects, openPublic, UrlRefused } from '../io/safe-url.ts'
import type { Platform } from '../platform.ts'
import type { ProviderConnection } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'

export const maxProviderFileBytes = 1024 ** 3
const downloadMs = 10 * 60_000

type Download = { body: Bytes; contentType: string }

/**
 * Opens a provider's file: on its own origin with its credentials, elsewhere through the URL policy, until `signal` is
 * aborted. Throws a ProviderError, and so does the body.
 */
export async function openProviderFile(
  services: Platform,
  connection: ProviderConnection,
  address: string,
  signal?: AbortSignal,
): Promise<Download> {
  const own = new URL(connection.baseUrl).origin
  let next = address
  for (let hop = 0; hop <= maxRedirects; hop++) {
    if (!URL.canParse(next)) throw unusableFileError('has an address that is no URL')
    const url = new URL(next)
    if (url.origin !== own || url.username || url.password) return openExternal(services, url.href, signal)
    const { status, headers, stream } = await connection.open(url.pathname + url.search, signal)
    if (status === 200) return { body: mapErrors(stream), contentType: mediaTypeOf(headers['content-type']) }
    stream.destroy()
    const { location } = headers
    if (![301, 302, 303, 307, 308].includes(status) || typeof location !== 'string') throw statusError(status)
    if (!URL.canParse(location, url.href)) throw unusableFileError('has an address that is no URL')
    next = new URL(location, url).href
  }
  throw unusableFileError('redirects too often')
}

async function openExternal({ urlPolicy }: Platform, address: string, signal?: AbortSignal): Promise<Download> {
  const rules = { ...urlPolicy, maxBytes: maxProviderFileBytes, timeoutMs: downloadMs, ...(signal && { signal }) }
  try {
    const { stream, contentType } = await openPublic(address, rules)
    return { body: mapErrors(stream), contentType }
  } catch (error) {
    throw toProviderError(error)
  }
}

/** Maps errors of a body to provider errors. */
async function* mapErrors(body: Bytes): Bytes {
  try {
    yield* body
  } catch (error) {
    throw toProviderError(error)
  }
}

function toProviderError(error: unknown): unknown {
  if (error instanceof ProviderError) return error
  if (error instanceof UrlRefused && !error.transient)
    return unusableFileError('cannot be fetched from where it is', error)
  return new ProviderError('connection', 'The provider’s file could not be downloaded.', { cause: error })
}

function statusError(status: number): ProviderError {
  const reason = status === 429 || status >= 500 ? 'server_error' : 'invalid_response'
  return new ProviderError(reason, `The provider refused its own file with status ${status}.`, { status })
}

/** The error of a file for which retries are useless. */
export function unusableFileError(problem: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `The provider’s file ${problem}.`, { cause })
}

function mediaTypeOf(header: string | string[] | undefined): string {
  return String(header ?? '')
    .split(';')[0]!
    .trim()
    .toLowerCase()
}
