import { isObject } from '../../base/is-object.ts'
import type { Proxies } from '../../base/proxies.ts'
import type { Clock } from '../../base/time.ts'
import { familyOf } from '../../catalog/regions.ts'
import type { ProviderRow } from '../../catalog/schema.ts'
import { isSignatureRefusal, signRequest } from './aws.ts'
import { googleIdentity } from './google.ts'
import type { Identity } from './identity.ts'

const accessKey = /^((?:AKIA|ASIA)[A-Z0-9]{12,124}):([A-Za-z0-9/+=]{16,128})$/
const projectId = /^[a-z0-9][a-z0-9.:-]{3,62}$/

/** The members of a service account's file that are used. */
type ServiceAccount = { project_id: string; client_email: string; private_key: string }

/**
 * The identity that an organisation's own secret is: an access key of AWS (`<id>:<secret>`), whose requests are signed, or the JSON of
 * a service account of Google Cloud. Null for an API key.
 */
export function ownIdentity(
  row: ProviderRow,
  secret: string,
  { clock, proxies }: { clock: Clock; proxies: Proxies },
): Identity | null {
  if (row.identity === 'aws') return awsAccessKey(row, secret, clock)
  const account = row.identity === 'google' ? serviceAccountOf(secret) : null
  if (!account) return null
  const { client_email, private_key } = account
  const CREDENTIALS = JSON.stringify({ type: 'service_account', client_email, private_key })
  const settings = {
    apiKeys: [],
    apiKeyOrigin: '',
    baseUrl: null,
    webhookSecret: null,
    proxy: null,
    cloud: { CREDENTIALS },
  }
  return googleIdentity({ provider: row, settings, proxies, clock })
}

/**
 * The service account in a secret; null if it is none. Other kinds of credentials are not accepted: they name files, programs and
 * addresses.
 */
export function serviceAccountOf(secret: string): ServiceAccount | null {
  if (!secret.startsWith('{')) return null
  try {
    const value: unknown = JSON.parse(secret)
    if (!isObject(value) || value.type !== 'service_account') return null
    const { project_id, client_email, private_key } = value
    const isWhole = [project_id, client_email, private_key].every(member => typeof member === 'string')
    return isWhole && projectId.test(project_id as string) ? (value as ServiceAccount) : null
  } catch {
    return null
  }
}

function awsAccessKey({ name, region, quirks }: ProviderRow, secret: string, clock: Clock): Identity | null {
  const [, accessKeyId, secretAccessKey] = accessKey.exec(secret) ?? []
  if (!accessKeyId || !secretAccessKey || region === undefined) return null
  const credentials = { accessKeyId, secretAccessKey }
  const service = quirks?.signing_name ?? familyOf(name)
  return {
    authorize: request => signRequest(request, { credentials, region, service, dateMs: clock.now() }),
    isRefusal: isSignatureRefusal,
    recordRefusal() {},
    secret: secretAccessKey,
    close() {},
  }
}
