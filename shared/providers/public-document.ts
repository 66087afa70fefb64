import { collect, openPool } from '../io/http.ts'
import { ProviderError } from './contract.ts'

const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 10_000, idleTimeoutMs: 10_000, totalTimeoutMs: 15_000 }
const mostBytes = 256 * 1024

/**
 * A document that a provider publishes for everybody, such as its verification keys: asked for without any credential, at
 * an address of the catalog. Throws a ProviderError.
 */
export async function publicDocument(url: string): Promise<string> {
  const { origin, pathname, search } = new URL(url)
  const pool = openPool(origin, timeouts, 1)
  try {
    const request = { method: 'GET' as const, path: pathname + search, headers: { accept: '*/*' }, body: null }
    const { status, body } = await collect(pool, request, timeouts, mostBytes)
    if (status !== 200) throw new ProviderError('invalid_response', `${origin} answered with status ${status}.`)
    return body.toString()
  } catch (cause) {
    if (cause instanceof ProviderError) throw cause
    throw new ProviderError('connection', `${origin} cannot be reached.`, { cause })
  } finally {
    await pool.destroy()
  }
}
