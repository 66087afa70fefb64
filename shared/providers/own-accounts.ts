import { LRUCache } from 'lru-cache'
import type { Config } from '../base/config.ts'
import { upToEntries } from '../base/lru-limit.ts'
import type { Clock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { familyOf, placeAtResource } from '../catalog/regions.ts'
import type { ModelRow, ProviderRow } from '../catalog/schema.ts'
import type { Sealer } from '../io/sealer.ts'
import type { OwnKey, OwnKeys } from '../keys/own-keys.ts'
import type { Credential, OwnAccount } from './access.ts'
import type { Connections } from './connections.ts'
import type { Target } from './contract.ts'
import type { Health } from './health.ts'
import { ownIdentity, serviceAccountOf } from './identities/own-identity.ts'

/** The place of a provider key's secret, which its encryption authenticates. */
export const secretPlace = (id: string) => `provider_keys.secret ${id}`

/** Whether the id of a credential is that of an organisation's own key. */
export function isOwnKeyId(id: string | null): boolean {
  return id?.startsWith('pkey_') === true
}

/** Whether organisations can bring keys for a provider. */
export function takesOwnKeys({ auth }: ProviderRow): boolean {
  return auth !== 'none'
}

/** The fee for calls with own keys, as the parts per million of the provider's price that are charged beyond it. */
export function ownKeyMarginPpm({ ownKeyFeePpm }: Pick<Config, 'ownKeyFeePpm'>): bigint {
  return ownKeyFeePpm - 1_000_000n
}

type Opened = { sealed: string; credential: Credential }
type Options = {
  catalog: Catalog
  connections: Connections
  config: Config
  health: Health
  clock: Clock
  sealer: Sealer
}

const maxOpened = 20_000

/** Opens the accounts of organisations' own provider keys: secrets are decrypted for the first call, and kept in memory only. */
export class OwnAccounts {
  readonly #options: Options
  /** The decrypted keys by id and region. */
  readonly #opened = new LRUCache<string, Opened>({
    ...upToEntries(maxOpened),
    dispose: ({ credential }) => credential.identity?.close(),
  })
  /** The targets of a policy's keys; they end with the policy and with the version of the catalog. */
  readonly #targets = new WeakMap<OwnKeys, WeakMap<ModelRow, Target[]>>()

  constructor(options: Options) {
    this.#options = options
  }

  /** The targets of a model that own keys reach, in the catalog's order. Throws 503 when a key cannot be decrypted. */
  targets(model: ModelRow, ownKeys: OwnKeys): Target[] {
    let byModel = this.#targets.get(ownKeys)
    if (!byModel) this.#targets.set(ownKeys, (byModel = new WeakMap()))
    let targets = byModel.get(model)
    if (!targets) byModel.set(model, (targets = this.#findTargets(model, ownKeys)))
    return targets
  }

  #findTargets(model: ModelRow, { keys }: OwnKeys): Target[] {
    const usable = keys.filter(key => key.models === null || key.models.has(model.id))
    const shared = this.#options.catalog.targets(model).flatMap(({ deployment, provider }) => {
      if (!takesOwnKeys(provider) || provider.named_deployments) return []
      const ofProvider = usable.filter(key => key.provider === familyOf(provider.name))
      return this.#accounts(provider, ofProvider).map(own => ({ model, deployment, provider, own }))
    })
    return [...shared, ...usable.flatMap(key => this.#targetsAtResource(model, key))]
  }

  /** The targets of a model at the resource of a key; none for keys without one. */
  #targetsAtResource(model: ModelRow, key: OwnKey): Target[] {
    if (!key.resource) return []
    const { namedClouds } = this.#options.catalog
    return placeAtResource(namedClouds, key.provider, key.resource, model.id).map(({ deployment, provider }) => ({
      model,
      deployment,
      provider,
      own: this.accountAtResource(provider, this.credential(key, provider)),
    }))
  }

  /** The access to the resource of a key. `provider`: with the base URL of the resource. */
  accountAtResource(provider: ProviderRow, credential: Credential): OwnAccount {
    const { connections, config } = this.#options
    return {
      // Looked up for each call: connections to resources that are not used are closed.
      get connection() {
        return { ...connections.atResource(provider), credentials: [credential] }
      },
      marginPpm: ownKeyMarginPpm(config),
      lane: `${provider.name}:${credential.id}`,
      calls: 0,
    }
  }

  /** The access to a provider by keys: one, unless keys of service accounts belong to different projects. */
  #accounts(provider: ProviderRow, keys: readonly OwnKey[]): OwnAccount[] {
    const credentials = Map.groupBy(
      keys.map(key => this.credential(key, provider)),
      ({ project = null }) => project,
    )
    return [...credentials].flatMap(([project, all]) => this.account(provider, all, project) ?? [])
  }

  /** The access to a provider by credentials; null if the provider's region is not configured. */
  account(provider: ProviderRow, credentials: Credential[], project: string | null = null): OwnAccount | null {
    const { connections, config } = this.#options
    const base = connections.base(provider)
    if (!base) return null
    const atProject = (text: string) =>
      project === null ? text : text.replace(/\/projects\/[^/]*\//, `/projects/${project}/`)
    const { baseUrl, prefix } = base
    const connection = { ...base, baseUrl: atProject(baseUrl), prefix: atProject(prefix), credentials }
    return { connection, marginPpm: ownKeyMarginPpm(config), lane: `${provider.name}:${credentials[0]!.id}`, calls: 0 }
  }

  /** A key as calls use it, decrypted. Throws 503 when its encryption key is not configured. */
  credential({ id, name, secret: sealed, last4 }: OwnKey, provider: ProviderRow): Credential {
    const place = `${id} ${provider.identity === undefined ? '' : provider.name}`
    const known = this.#opened.get(place)
    if (known?.sealed === sealed) return known.credential
    const { sealer, clock, config, health } = this.#options
    if (known) health.forgetOwnKey(id)
    const secret = sealer.open(sealed, secretPlace(id))
    const label = `own key, …${last4}`
    const origin = `own key “${name}” (…${last4})`
    const identity = ownIdentity(provider, secret, { clock, proxies: config.proxies })
    const project = provider.identity === 'google' ? serviceAccountOf(secret)?.project_id : undefined
    const credential: Credential = identity
      ? {
          id,
          label,
          origin,
          get secret() {
            return identity.secret
          },
          identity,
          ...(project !== undefined && { project }),
        }
      : { id, label, origin, secret, identity: null }
    this.#opened.set(place, { sealed, credential })
    return credential
  }

  close(): void {
    this.#opened.clear()
  }
}
