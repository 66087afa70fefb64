import { createHash, createPublicKey, type KeyObject, verify as verifySignature } from 'node:crypto'
import { collect, openPool } from '../../../io/http.ts'
import type { ProviderCallback } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { header, isFresh } from '../../toolkit/callback-signatures.ts'
import { invalidResponse, parseJsonOrNull, readList, readOptionalText } from '../../toolkit/json-fields.ts'

const maxKeys = 20

/**
 * Verifies fal's signature of a callback: ED25519 by any of its published keys over ids, time and a hash of the body.
 */
export async function verify({ headers, raw, nowMs, connection, remember }: ProviderCallback): Promise<boolean> {
  const [request, user, timestamp, signature] = ['request-id', 'user-id', 'timestamp', 'signature'].map(name =>
    header(headers, `x-fal-webhook-${name}`),
  )
  if (!request || !user || !timestamp || !signature) return false
  if (!isFresh(timestamp, nowMs) || !/^[\da-f]{128}$/i.test(signature)) return false
  const address = connection.provider.quirks?.jwks_url
  if (typeof address !== 'string') return false
  const keys = keysOf(await remember('jwks', () => fetchPublicDocument(address, connection.proxy)))
  const signedText = Buffer.from([request, user, timestamp, createHash('sha256').update(raw).digest('hex')].join('\n'))
  return keys.some(key => verifySignature(null, signedText, key, Buffer.from(signature, 'hex')))
}

/** The ED25519 keys of a JSON Web Key Set (RFC 8037); other keys are ignored. */
function keysOf(document: string): KeyObject[] {
  const keys: KeyObject[] = []
  for (const key of readList(parseJsonOrNull(document), 'keys').slice(0, maxKeys)) {
    const x = readOptionalText(key, 'x')
    if (readOptionalText(key, 'crv') === 'Ed25519' && x !== null) keys.push(publicKey(x))
  }
  return keys
}

function publicKey(x: string): KeyObject {
  try {
    return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  } catch (cause) {
    const { reason, message } = invalidResponse('it has a broken key')
    throw new ProviderError(reason, message, { cause })
  }
}

const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 10_000, idleTimeoutMs: 10_000, totalTimeoutMs: 15_000 }
const maxBytes = 256 * 1024

/**
 * Fetches a document that a provider publishes, such as its verification keys, without credentials, from a URL of the
 * catalog, through the provider's proxy if it has one. Throws a ProviderError.
 */
async function fetchPublicDocument(url: string, proxy: string | null): Promise<string> {
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
