import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

export type Profile = { sub: string; email: string; email_verified: boolean; name?: string }

/** An OpenID Connect provider whose user always agrees: the profile is what `profile` says at that moment. */
export class OidcEmulator {
  profile: Profile = { sub: 'u1', email: 'u1@example.com', email_verified: true }
  /** The claims of the ID token; null = there is none, and the profile is read at the userinfo endpoint. */
  idToken: Record<string, unknown> | null = null
  /** The issuer that the discovery document states; null = the address of this provider. */
  statedIssuer: string | null = null
  readonly clientId = 'headgate'
  readonly #server: http.Server
  /** The challenge that a code was requested with. */
  readonly #codes = new Map<string, string>()

  private constructor(server: http.Server) {
    this.#server = server
  }

  static async start(): Promise<OidcEmulator> {
    const server = http.createServer()
    const emulator = new OidcEmulator(server)
    server.on('request', (request, response) => void emulator.#answer(request, response))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return emulator
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The configuration of a gateway that signs people in by it. */
  get env() {
    return { OIDC_ISSUER: this.issuer, OIDC_CLIENT_ID: this.clientId, OIDC_CLIENT_SECRET: 'secret' }
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const url = new URL(request.url!, this.issuer)
    const json = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (url.pathname === '/.well-known/openid-configuration') {
      const { issuer } = this
      return void json(200, {
        issuer: this.statedIssuer ?? issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        userinfo_endpoint: `${issuer}/userinfo`,
      })
    }
    if (url.pathname === '/authorize') {
      const code = randomUUID()
      this.#codes.set(code, url.searchParams.get('code_challenge')!)
      const back = new URL(url.searchParams.get('redirect_uri')!)
      back.searchParams.set('code', code)
      back.searchParams.set('state', url.searchParams.get('state')!)
      return void response.writeHead(302, { location: back.href }).end()
    }
    if (url.pathname === '/token') {
      const form = new URLSearchParams(Buffer.concat(await request.toArray()).toString())
      const challenge = this.#codes.get(form.get('code')!)
      this.#codes.delete(form.get('code')!)
      const proved = createHash('sha256')
        .update(form.get('code_verifier') ?? '')
        .digest('base64url')
      if (challenge !== proved) return void json(400, { error: 'invalid_grant' })
      const answer = { access_token: randomUUID(), token_type: 'Bearer', expires_in: 3600 }
      return void json(200, { ...answer, ...(this.idToken && { id_token: unsigned(this.idToken) }) })
    }
    if (url.pathname === '/userinfo') return void json(200, this.profile)
    json(404, {})
  }
}

/** A token as the token endpoint may give it: its TLS vouches for it (OpenID Connect Core 1.0, 3.1.3.7). */
function unsigned(claims: object): string {
  const parts = [{ alg: 'none' }, claims].map(part => Buffer.from(JSON.stringify(part)).toString('base64url'))
  return `${parts.join('.')}.`
}
