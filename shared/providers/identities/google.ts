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
    const { GoogleAuth } = await import('google-auth-library')
    const { CREDENTIALS } = settings.cloud
    const client = await new GoogleAuth({
      scopes: scope,
      ...(CREDENTIALS !== undefined && { credentials: JSON.parse(CREDENTIALS) }),
    }).getClient()
    const { token } = await client.getAccessToken()
    if (!token) throw new Error('Google returned no access token')
    return { text: token, expiresAtMs: client.credentials.expiry_date ?? clock.now() + lifetimeMs }
  }, clock)
}

/** Of a token whose end is not stated: less than the hour that Google's tokens have. */
const lifetimeMs = 10 * 60_000
