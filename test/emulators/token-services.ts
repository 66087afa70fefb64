import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

/** The services that give tokens to the machines of clouds. */
export type TokenServices = {
  emulator: Emulator
  /** How many tokens were given. */
  given: number
  /** Whether a token was given and is not revoked. */
  isValid(token: string): boolean
  /** Revokes all tokens. */
  revoke(): void
  close(): Promise<void>
}

/** The header of App Service's identity endpoint. */
export const identityHeader = 'emulated-identity'

/**
 * On a local port: Google's Security Token Service (`/v1/token`, RFC 8693) for workload identity federation, and the endpoint of a
 * managed identity in Azure App Service (`/msi/token`). Tokens live for `lifetimeS`.
 */
export async function startTokenServices(lifetimeS = 3_600): Promise<TokenServices> {
  const valid = new Set<string>()
  const issue = (): string => {
    services.given++
    const token = `emulated-token-${services.given}-${'x'.repeat(24)}`
    valid.add(token)
    return token
  }
  const emulator = await Emulator.start((request, response) => answer(request, issue, lifetimeS)(request, response))
  const services: TokenServices = {
    emulator,
    given: 0,
    isValid: token => valid.has(token),
    revoke: () => valid.clear(),
    close: () => emulator.close(),
  }
  return services
}

function answer({ path, method, headers, raw, query }: Recorded, issue: () => string, lifetimeS: number): Reply {
  if (method === 'POST' && path === '/v1/token') {
    const form = new URLSearchParams(raw.toString())
    if (form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:token-exchange' || !form.get('subject_token'))
      return json(400, { error: 'invalid_request', error_description: 'Invalid token exchange.' })
    const issued_token_type = 'urn:ietf:params:oauth:token-type:access_token'
    return json(200, { access_token: issue(), issued_token_type, token_type: 'Bearer', expires_in: lifetimeS })
  }
  if (method === 'GET' && path === '/msi/token') {
    if (headers['x-identity-header'] !== identityHeader)
      return json(401, { statusCode: 401, message: 'The identity header is wrong.' })
    if (query.get('resource') !== 'https://ai.azure.com')
      return json(400, { statusCode: 400, message: 'No such resource.' })
    const expires_on = String(Math.floor(Date.now() / 1_000) + lifetimeS)
    return json(200, { access_token: issue(), expires_on, resource: query.get('resource'), token_type: 'Bearer' })
  }
  return json(404, { error: 'not_found' })
}

/** The credentials of a workload that Google federates, whose own token is in a file. */
export function federatedCredentials(url: string, subjectTokenFile: string): string {
  return JSON.stringify({
    type: 'external_account',
    audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: `${url}/v1/token`,
    credential_source: { file: subjectTokenFile },
  })
}
