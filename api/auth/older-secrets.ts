import { createHmac } from 'node:crypto'
import { isEqual } from '../../shared/base/is-equal.ts'
import type { Auth } from './accounts.ts'

/** The length of an HMAC-SHA-256 in base64. */
const signatureCharacters = 44
const ownCookie = /^(?:__Secure-)?headgate\./

/**
 * The accounts, which also accept the cookies and the links of emails that `older` secrets signed. Their library knows a single
 * secret: what an older one signed is signed anew before the library sees it.
 */
export function acceptOlder(auth: Auth, current: string, older: readonly string[]): Auth {
  if (older.length === 0) return auth
  const secrets = [current, ...older]
  return {
    handle: (request, input, alone) => auth.handle(resignRequest(request, secrets), input, alone),
    session: headers => auth.session(resignCookies(headers, secrets)),
  }
}

function resignRequest(request: Request, secrets: readonly string[]): Request {
  const url = new URL(request.url)
  const token = url.searchParams.get('token')
  if (token !== null) url.searchParams.set('token', resignToken(token, secrets))
  return new Request(new Request(url, request), { headers: resignCookies(request.headers, secrets) })
}

function resignCookies(headers: Headers, secrets: readonly string[]): Headers {
  const cookies = headers.get('cookie')?.split(';') ?? []
  if (!cookies.some(cookie => ownCookie.test(cookie.trim()))) return headers
  const resigned = new Headers(headers)
  resigned.set('cookie', cookies.map(cookie => resignCookie(cookie.trim(), secrets)).join('; '))
  return resigned
}

/** A cookie is `<name>=<value>.<signature>`, the latter two percent-encoded. */
function resignCookie(cookie: string, secrets: readonly string[]): string {
  const at = cookie.indexOf('=')
  if (at < 0 || !ownCookie.test(cookie)) return cookie
  let text: string
  try {
    text = decodeURIComponent(cookie.slice(at + 1))
  } catch {
    return cookie
  }
  const dot = text.lastIndexOf('.')
  const [value, signature] = [text.slice(0, dot), text.slice(dot + 1)]
  if (dot < 1 || signature.length !== signatureCharacters) return cookie
  const resigned = resign(value, signature, secrets, 'base64')
  return resigned === null ? cookie : `${cookie.slice(0, at)}=${encodeURIComponent(`${value}.${resigned}`)}`
}

/** The token of an emailed link is a JSON Web Token (HS256), `<header>.<payload>.<signature>`, or none that is signed. */
function resignToken(token: string, secrets: readonly string[]): string {
  const dot = token.lastIndexOf('.')
  const [value, signature] = [token.slice(0, dot), token.slice(dot + 1)]
  if (value.split('.').length !== 2) return token
  const resigned = resign(value, signature, secrets, 'base64url')
  return resigned === null ? token : `${value}.${resigned}`
}

/** The signature of the first secret for a value that a later one signed; null for any other. */
function resign(
  value: string,
  signature: string,
  [current, ...older]: readonly string[],
  encoding: 'base64' | 'base64url',
): string | null {
  const sign = (secret: string) => createHmac('sha256', secret).update(value).digest(encoding)
  return older.some(secret => isEqual(signature, sign(secret))) ? sign(current!) : null
}
