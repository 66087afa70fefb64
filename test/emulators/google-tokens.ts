import { createPublicKey, verify } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Certificate } from '../support/io/certificates.ts'

/** A service account that Google knows, by its address. */
export type ServiceAccount = { email: string; publicKey: string }

export type GoogleTokens = {
  port: number
  /** The address of the account that each token was given to. */
  owners: ReadonlyMap<string, string>
  close(): Promise<void>
}

const address = 'https://oauth2.googleapis.com/token'
const cloudScope = 'https://www.googleapis.com/auth/cloud-platform'

/**
 * Google's token endpoint on a local port, with a certificate of its host: it gives a token for an assertion that a known account has signed
 * (developers.google.com/identity/protocols/oauth2/service-account#httprest), and refuses any other with `invalid_grant`.
 */
export async function startGoogleTokens(
  { cert, key }: Certificate,
  accounts: readonly ServiceAccount[],
): Promise<GoogleTokens> {
  const owners = new Map<string, string>()
  const server = createServer({ cert, key }, async (request, response) => {
    const form = new URLSearchParams(await text(request))
    const email = request.url === '/token' ? signerOf(form, accounts) : null
    const answer = (status: number, body: object) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (email === null)
      return answer(400, { error: 'invalid_grant', error_description: 'Invalid JWT Signature. Words of the service.' })
    const token = `ya29.emulated-${owners.size + 1}-${'x'.repeat(24)}`
    owners.set(token, email)
    answer(200, { access_token: token, expires_in: 3_599, token_type: 'Bearer' })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    owners,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** The account that signed a right assertion; null if none did. */
function signerOf(form: URLSearchParams, accounts: readonly ServiceAccount[]): string | null {
  if (form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer') return null
  const [head = '', claims = '', signature = ''] = form.get('assertion')?.split('.') ?? []
  const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString() || '{}')
  const { iss, aud, scope, exp, iat } = read(claims)
  const nowS = Date.now() / 1_000
  const isCurrent = iat <= nowS + 60 && exp > nowS && exp - iat <= 3_600
  if (read(head).alg !== 'RS256' || aud !== address || scope !== cloudScope || !isCurrent) return null
  const account = accounts.find(({ email }) => email === iss)
  const signed = Buffer.from(`${head}.${claims}`)
  const isRight =
    account && verify('sha256', signed, createPublicKey(account.publicKey), Buffer.from(signature, 'base64url'))
  return isRight ? account.email : null
}
