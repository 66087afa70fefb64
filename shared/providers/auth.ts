import { createHmac } from 'node:crypto'
import type { ProviderRow } from '../catalog/schema.ts'

/** Lifetime of a signed token, and the tolerated clock skew of the provider. */
const tokenSeconds = 1_800
const skewSeconds = 5

/** The header that carries an API key, in the form that the provider's row names. */
export function authHeader(auth: ProviderRow['auth'], secret: string, nowMs: number): Record<string, string> {
  switch (auth) {
    case 'none':
      return secret ? { authorization: `Bearer ${secret}` } : {}
    case 'bearer':
      return { authorization: `Bearer ${secret}` }
    case 'jwt':
      return { authorization: `Bearer ${signedToken(secret, nowMs)}` }
    case 'key':
      return { authorization: `Key ${secret}` }
    case 'token':
      return { authorization: `Token ${secret}` }
    default:
      return { [auth]: secret }
  }
}

/** A JSON Web Token (RFC 7519, HS256) from an API key of the form `<access key>:<secret key>`. */
function signedToken(secret: string, nowMs: number): string {
  const [issuer, key = ''] = secret.split(/:(.*)/s)
  const now = Math.floor(nowMs / 1000)
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { iss: issuer, exp: now + tokenSeconds, nbf: now - skewSeconds }
  const unsigned = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${unsigned}.${createHmac('sha256', key).update(unsigned).digest('base64url')}`
}
