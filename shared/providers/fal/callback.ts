import { createHash, createPublicKey, type KeyObject, verify as verifySignature } from 'node:crypto'
import { type Callback, ProviderError } from '../contract.ts'
import { invalid, list, optionalText, parsed } from '../fields.ts'
import { publicDocument } from '../public-document.ts'
import { header, isFresh } from '../signatures.ts'

const mostKeys = 20

/** Whether fal signed a callback: ED25519 by any of its published keys over ids, time and a hash of the body. */
export async function verify({ headers, raw, nowMs, line, remember }: Callback): Promise<boolean> {
  const [request, user, timestamp, signature] = ['request-id', 'user-id', 'timestamp', 'signature'].map(name =>
    header(headers, `x-fal-webhook-${name}`),
  )
  if (!request || !user || !timestamp || !signature) return false
  if (!isFresh(timestamp, nowMs) || !/^[\da-f]{128}$/i.test(signature)) return false
  const address = line.provider.quirks?.jwks_url
  if (typeof address !== 'string') return false
  const keys = keysOf(await remember('jwks', () => publicDocument(address)))
  const signed = Buffer.from([request, user, timestamp, createHash('sha256').update(raw).digest('hex')].join('\n'))
  return keys.some(key => verifySignature(null, signed, key, Buffer.from(signature, 'hex')))
}

/** The ED25519 keys of a JSON Web Key Set (RFC 8037); others are passed over. */
function keysOf(document: string): KeyObject[] {
  const keys: KeyObject[] = []
  for (const key of list(parsed(document), 'keys').slice(0, mostKeys)) {
    const x = optionalText(key, 'x')
    if (optionalText(key, 'crv') === 'Ed25519' && x !== null) keys.push(publicKey(x))
  }
  return keys
}

function publicKey(x: string): KeyObject {
  try {
    return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  } catch (cause) {
    const { reason, message } = invalid('it has a broken key')
    throw new ProviderError(reason, message, { cause })
  }
}
