import type { Config } from '../base/config.ts'
import type { Clock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { namesProvider } from '../catalog/regions.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import type { Connection, Credential } from './access.ts'
import { authorize, Connections } from './connections.ts'
import { openConnection } from './open-connection.ts'
import { protocols } from './protocols.ts'
import { ProviderError } from './provider-error.ts'

/**
 * What a provider answers to one API key. `credential` identifies the key without revealing it. `unknown`: no free request
 * of this provider needs a key.
 */
export type CredentialReport = {
  provider: string
  credential: string
  /** Its position among the provider's keys, and its last characters. */
  label: string
  /** Where the key is configured. */
  origin: string
  outcome: 'accepted' | 'failed' | 'unknown'
  /** Why it failed, in the provider's words. */
  reason: string | null
}

const timeoutMs = 10_000
const maxReasonLength = 200

/**
 * Asks configured providers, with one request per API key that costs nothing, whether they accept the key: all, or one with its
 * regions. `keys`: those that were added at run time, or that are to be.
 */
export async function checkCredentials(
  catalog: Pick<Catalog, 'providers'>,
  config: Config,
  clock: Clock,
  { only = null, keys }: { only?: string | null; keys?: ReadonlyMap<string, readonly string[]> } = {},
): Promise<CredentialReport[]> {
  const connections = new Connections(catalog, config, clock)
  if (keys) connections.setKeys(keys)
  const providers = [...catalog.providers.values()].filter(({ name }) => only === null || namesProvider(only, name))
  try {
    const checks = providers.flatMap(provider => {
      const connection = connections.find(provider.name)
      return (connection?.credentials ?? []).map(key => checkCredential(provider, connection!, key, config, clock))
    })
    return await Promise.all(checks)
  } finally {
    await connections.close()
  }
}

/** Asks a provider, with one request that costs nothing, whether it accepts a key. */
export async function checkCredential(
  provider: ProviderRow,
  { pool, proxy, baseUrl, prefix, auth, origin }: Connection,
  credential: Credential,
  config: Config,
  clock: Clock,
): Promise<CredentialReport> {
  const report = {
    provider: provider.name,
    credential: credential.id,
    label: credential.label,
    origin: credential.origin,
  }
  const protocol = protocols[provider.protocol]!
  const request = protocol.credentialCheck?.(provider)
  if (request === null || (!request && !credential.identity)) return { ...report, outcome: 'unknown', reason: null }
  const connection = openConnection({
    provider,
    protocol,
    pool,
    proxy,
    baseUrl,
    prefix,
    timeouts: { ...config.upstream, firstByteTimeoutMs: timeoutMs, totalTimeoutMs: timeoutMs },
    authorize: request => authorize({ auth, origin }, credential, request, clock),
  })
  try {
    if (request) await connection.send({ method: 'GET', ...request })
    // Without a request that is free: whether the cloud knows the identity.
    else await credential.identity!.authorize({ method: 'GET', url: baseUrl, headers: {}, body: null })
    return { ...report, outcome: 'accepted', reason: null }
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    const status = error.status === null ? error.reason : `HTTP ${error.status}`
    const { message } = credential.identity && error.cause instanceof Error ? error.cause : error
    const text = message.replaceAll(credential.secret || '\0', '…').slice(0, maxReasonLength)
    return { ...report, outcome: 'failed', reason: text ? `${status}: ${text}` : status }
  }
}
