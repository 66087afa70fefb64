import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Catalog } from '../../shared/catalog/catalog.ts'
import type { OverrideChange } from '../../shared/catalog/catalog-overrides.ts'
import type { KeysOverride } from '../../shared/catalog/overrides.ts'
import { familyOf, namesProvider } from '../../shared/catalog/regions.ts'
import { type Actor, operatorActor } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'
import { keyIdOf } from '../../shared/providers/connections.ts'
import { type CredentialReport, checkCredentials } from '../../shared/providers/credential-check.ts'
import { type Command, command } from './parse.ts'

/** A key as it is sent in a header: a list is several keys. */
const providerSecret = z.string().regex(/^[\x21-\x7e]{1,4000}$/, 'must be printable ASCII without spaces')

type KeyServices = Pick<Platform, 'catalog' | 'catalogOverrides' | 'config' | 'clock'>

/** The API keys of a provider that were added at run time, without their secrets. */
export function listProviderKeys({ catalogOverrides }: KeyServices, provider: string): KeysOverride['keys'] {
  const stored = catalogOverrides.current.overrides.find(one => one.kind === 'keys' && one.name === provider)
  return stored?.kind === 'keys' ? stored.value.keys : []
}

/** Throws 404 for a name that no provider has, 400 for a server, whose key is its own. */
function assertTakesKeys({ catalog, catalogOverrides }: KeyServices, provider: string): void {
  if (catalogOverrides.current.overrides.some(({ kind, name }) => kind === 'server' && name === provider))
    throw new GatewayError('invalid_request', `${provider} is a server: change its own API key.`, { param: 'provider' })
  if (![...catalog.providers.values()].some(({ name }) => namesProvider(provider, name)))
    throw new GatewayError('not_found', `There is no provider "${provider}".`, { param: 'provider' })
}

/**
 * Asks a provider, by a request that costs nothing, whether it accepts a key. Throws 400 with its words if it does not, or if it
 * cannot be asked.
 */
export async function testProviderKey(
  { catalog, config, clock }: Pick<Platform, 'config' | 'clock'> & { catalog: Pick<Catalog, 'providers'> },
  provider: string,
  secret: string,
): Promise<CredentialReport['outcome']> {
  const keys = new Map([[provider, [secret]]])
  const reports = await checkCredentials(catalog, config, clock, { only: provider, keys })
  const failed = reports.find(({ outcome }) => outcome === 'failed')
  if (failed)
    throw new GatewayError('invalid_request', `${failed.provider} does not accept the API key: ${failed.reason}`, {
      param: 'key',
    })
  return reports.some(({ outcome }) => outcome === 'accepted') ? 'accepted' : 'unknown'
}

/** The change of the API keys of a provider that were added at run time; none = those of the environment are used again. */
export function changeOfKeys(
  { clock }: Pick<Platform, 'clock'>,
  provider: string,
  change: (secrets: readonly string[]) => readonly string[],
): OverrideChange<KeysOverride> {
  const addedAt = new Date(clock.now()).toISOString()
  let secrets: readonly string[] = []
  return {
    kind: 'keys',
    name: provider,
    secret(before) {
      secrets = [...new Set(change(before === null ? [] : (JSON.parse(before) as string[])))]
      return secrets.length > 0 ? JSON.stringify(secrets) : null
    },
    update(before) {
      const described = secrets.map(secret => {
        const id = keyIdOf(secret)
        const known = before?.keys.find(one => one.id === id)
        return known ?? { id, last4: last4Of(secret), added_at: addedAt }
      })
      return described.length > 0 ? { keys: described } : null
    },
  }
}

const minShownLength = 12

/** The end of a secret that is long enough to show it; else ''. */
export function last4Of(secret: string): string {
  return secret.length >= minShownLength ? secret.slice(-4) : ''
}

export const newProviderKey = z.strictObject({
  key: providerSecret,
  /** The id of the key that this one replaces. */
  replaces: z.string().min(1).max(40).optional(),
  /** Without asking the provider first, for instance while it is away. */
  skip_test: z.boolean().default(false),
})

/** Adds an API key to a provider, or replaces one, after the provider has accepted it. Throws 400, 404. */
export async function addProviderKey(
  services: KeyServices,
  provider: string,
  { key, replaces, skip_test }: z.output<typeof newProviderKey>,
  actor: Actor,
): Promise<{ id: string; outcome: CredentialReport['outcome'] }> {
  assertTakesKeys(services, provider)
  if (replaces !== undefined) assertStored(services, provider, replaces)
  const outcome = skip_test ? 'unknown' : await testProviderKey(services, provider, key)
  const add = (secrets: readonly string[]) =>
    secrets.some(secret => keyIdOf(secret) === replaces)
      ? secrets.map(secret => (keyIdOf(secret) === replaces ? key : secret))
      : [...secrets, key]
  await services.catalogOverrides.change(changeOfKeys(services, provider, add), actor)
  return { id: keyIdOf(key), outcome }
}

/** Removes an API key that was added at run time. Throws 404. */
export async function removeProviderKey(
  services: KeyServices,
  provider: string,
  id: string,
  actor: Actor,
): Promise<void> {
  assertStored(services, provider, id)
  const remove = (secrets: readonly string[]) => secrets.filter(secret => keyIdOf(secret) !== id)
  await services.catalogOverrides.change(changeOfKeys(services, provider, remove), actor)
}

function assertStored(services: KeyServices, provider: string, id: string): void {
  if (listProviderKeys(services, provider).some(one => one.id === id)) return
  throw new GatewayError('not_found', `${provider} has no API key ${id} that was added at run time.`, { param: 'id' })
}

const provider = z.string().min(1).max(100)

export const providerKeys: Command[] = [
  command({
    name: 'provider-key add',
    summary: 'Adds an API key of a provider, or replaces one, in all processes within a second.',
    help: '--provider P --key-file F [--replaces ID] [--skip-test]',
    flags: z.strictObject({
      provider,
      key_file: z.string().min(1),
      replaces: z.string().min(1).optional(),
      skip_test: z.boolean().default(false),
    }),
    async run(services, { provider, key_file, ...flags }) {
      const key = (await readFile(key_file, 'utf8')).trim()
      const parsed = newProviderKey.safeParse({ ...flags, key })
      if (!parsed.success) throw new GatewayError('invalid_request', `${key_file}: ${parsed.error.issues[0]!.message}`)
      const { id, outcome } = await addProviderKey(services, provider, parsed.data, operatorActor)
      const tested = outcome === 'accepted' ? 'which accepts it' : 'without a test'
      return { data: { data: { provider, id, outcome } }, text: `${id} is a key of ${provider}, ${tested}` }
    },
  }),
  command({
    name: 'provider-key list',
    summary: 'Lists the API keys of providers that were added at run time, without the keys themselves.',
    help: '[--provider P]',
    flags: z.strictObject({ provider: provider.optional() }),
    async run({ catalogOverrides }, { provider }) {
      const data = catalogOverrides.current.overrides.flatMap(one =>
        one.kind === 'keys' && (provider === undefined || familyOf(one.name) === familyOf(provider))
          ? one.value.keys.map(key => ({ provider: one.name, ...key }))
          : [],
      )
      const lines = data.map(one => `${one.provider}  ${one.id}  …${one.last4}  ${one.added_at}`)
      return { data: { data }, text: lines.join('\n') || 'No keys were added: those of the environment are used.' }
    },
  }),
  command({
    name: 'provider-key remove',
    summary: 'Removes an API key of a provider; after the last one, those of the environment are used again.',
    help: '--provider P --id ID',
    flags: z.strictObject({ provider, id: z.string().min(1) }),
    async run(services, { provider, id }) {
      await removeProviderKey(services, provider, id, operatorActor)
      return { data: { provider, id }, text: `${id} is removed` }
    },
  }),
]
