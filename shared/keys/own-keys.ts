import type { CloudResource } from '../catalog/regions.ts'
import type { ApiKey, ProviderKey } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'

/** Whose provider keys a key's requests use: the organisation's alone, these first, or the operator's. */
export const ownKeyModes = ['own', 'own_then_shared', 'shared'] as const
type OwnKeyMode = (typeof ownKeyModes)[number]

/** An organisation's key at a provider, as requests need it. `secret` is sealed until the first call. */
export type OwnKey = {
  id: string
  provider: string
  name: string
  last4: string
  secret: string
  /** Null = all models. */
  models: ReadonlySet<string> | null
  /** Null = the provider's models have the same names in every account. */
  resource: CloudResource | null
}

/** The provider keys of its organisation that a key may use; null in a policy = the operator's keys. */
export type OwnKeys = { mode: 'own' | 'own_then_shared'; keys: readonly OwnKey[] }

/** The most provider keys of an organisation. */
export const maxProviderKeys = 100

/** The mode of a key's row. */
export function ownKeyModeOf({ ownKeys }: Pick<ApiKey, 'ownKeys'>): OwnKeyMode {
  return ownKeyModes.find(mode => mode === ownKeys) ?? 'shared'
}

/** Reads the provider keys that a key may use; null without a query where it uses the operator's, as test keys always do. */
export async function readOwnKeys(
  db: Connection,
  row: Pick<ApiKey, 'id' | 'organisationId' | 'environment' | 'ownKeys'>,
): Promise<OwnKeys | null> {
  const mode = ownKeyModeOf(row)
  if (mode === 'shared' || row.environment === 'test') return null
  const rows = await db.providerKey.findMany({
    where: { organisationId: row.organisationId, enabled: true },
    orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
    take: maxProviderKeys,
  })
  return { mode, keys: rows.filter(({ keyIds }) => keyIds.length === 0 || keyIds.includes(row.id)).map(ownKeyOf) }
}

/** Finds a provider key by its id, also a disabled one, for work that it has begun; null when it was deleted. */
export async function findOwnKey(db: Connection, id: string): Promise<OwnKey | null> {
  const row = await db.providerKey.findUnique({ where: { id } })
  return row && ownKeyOf(row)
}

/** The provider keys that a key may use for work that was accepted with own keys, whatever its policy is now. */
export async function findOwnKeys(db: Connection, keyId: string): Promise<OwnKeys> {
  const row = await db.apiKey.findUnique({ where: { id: keyId } })
  const own = row && (await readOwnKeys(db, { ...row, ownKeys: 'own' }))
  return own ?? { mode: 'own', keys: [] }
}

/** A provider key's row as requests need it. */
export function ownKeyOf({ id, provider, name, last4, secret, models, resource }: ProviderKey): OwnKey {
  return {
    id,
    provider,
    name,
    last4,
    secret,
    models: models.length > 0 ? new Set(models) : null,
    resource: resource as CloudResource | null,
  }
}
