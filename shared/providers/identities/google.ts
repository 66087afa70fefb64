import type { Identity, IdentityOptions } from './identity.ts'
import { TokenIdentity } from './token-identity.ts'

const scope = 'https://www.googleapis.com/auth/cloud-platform'

/**
 * An identity at Google Cloud: the service account of `<PROVIDER>_CREDENTIALS` (its JSON), else the application default credentials, as
 * Google's SDKs find them: `GOOGLE_APPLICATION_CREDENTIALS`, or the service account of the machine. The library is loaded for the
 * first token.
 */
export function googleIdentity({ settings, clock }: IdentityOptions): Identity {
  return new TokenIdentity(async () => {
    const { CREDENTIALS } = settings.cloud
    const client = await (CREDENTIALS === undefined ? defaultClient() : clientOf(JSON.parse(CREDENTIALS)))
    const { token } = await client.getAccessToken()
    if (!token) throw new Error('Google returned no access token')
    return { text: token, expiresAtMs: client.credentials.expiry_date ?? clock.now() + lifetimeMs }
  }, clock)
}

async function defaultClient() {
  const { GoogleAuth } = await import('google-auth-library')
  return new GoogleAuth({ scopes: scope }).getClient()
}

/** The client of a credentials file: of a service account, a federated workload, or any other that the library knows. */
async function clientOf(credentials: Record<string, string>) {
  const { GoogleAuth, IdentityPoolClient, JWT } = await import('google-auth-library')
  const { type, client_email: email, private_key: key } = credentials
  if (type === 'service_account' && email && key) return new JWT({ email, key, scopes: scope })
  if (type === 'external_account') {
    const client = new IdentityPoolClient(credentials as never)
    client.scopes = scope
    return client
  }
  return new GoogleAuth({ scopes: scope, credentials }).getClient()
}

/** The assumed lifetime of a token whose end is not stated: less than the hour that Google's tokens have. */
const lifetimeMs = 10 * 60_000
