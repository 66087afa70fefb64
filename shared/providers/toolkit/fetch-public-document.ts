import { collect, openPool } from '../../io/http.ts'
import { ProviderError } from '../provider-error.ts'

const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 10_000, idleTimeoutMs: 10_000, totalTimeoutMs: 15_000 }
const maxBytes = 256 * 1024

/**
 * Fetches a document that a provider publishes, such as its verification keys, without credentials, from a URL of the
 * catalog, through the provider's proxy if it has one. Throws a ProviderError.
 */
export async function fetchPublicDocument(url: string, proxy: string | null): Promise<string> {
  const { origin, pathname, search } = new URL(url)
  const pool = openPool(origin, timeouts, 1, proxy)
  try {
    const request = { method: 'GET' as const, path: pathname + search, headers: { accept: '*/*' }, body: null }
    const { status, body } = await collect(pool, request, timeouts, maxBytes)
    if (status !== 200) throw new ProviderError('invalid_response', `${origin} answered with status ${status}.`)
    return body.toString()
  } catch (cause) {
    if (cause instanceof ProviderError) throw cause
    throw new ProviderError('connection', `${origin} cannot be reached.`, { cause })
  } finally {
    await pool.destroy()
  }
}
