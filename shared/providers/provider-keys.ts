import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { formatNames } from '../base/names.ts'
import { oneLine } from '../base/one-line.ts'
import type { Clock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { type CloudResource, familyOf, placeAtResource } from '../catalog/regions.ts'
import type { ProviderKey } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { lockAllKeys } from '../io/organisation-locks.ts'
import type { Sealer } from '../io/sealer.ts'
import { maxProviderKeys, ownKeyOf } from '../keys/own-keys.ts'
import type { Policies } from '../keys/policies.ts'
import { secretPlace, takesOwnKeys } from './own-accounts.ts'
import { redactCredentials } from './redact-credentials.ts'
import type { Upstreams } from './upstreams.ts'

const ids = (max: number) => z.array(z.string().min(1).max(100)).min(1).max(max).nullish()

const deployment = z.strictObject({
  model: z.string().min(1).max(100).describe('The model as `GET /v1/models` names it.'),
  name: z
    .string()
    .regex(/^[A-Za-z0-9][\w.-]{0,63}$/, 'must be the name of a deployment')
    .describe('The name of the deployment.'),
  zone: z
    .string()
    .min(1)
    .max(40)
    .optional()
    .describe('The data zone whose prices it has, such as `eu`; absent for a global deployment.'),
})

/** The name is a part of host names: nothing in it leaves the cloud's domain. */
export const cloudResource = z
  .strictObject({
    name: z
      .string()
      .regex(/^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/, 'must be the name of a resource, in lower case')
      .describe('The name of the resource, which begins its address: `<name>.openai.azure.com`.'),
    deployments: z.array(deployment).min(1).max(200),
  })
  .describe('For Azure: the resource that the key belongs to, and its deployments.')

const fields = {
  name: oneLine(z.string().min(1).max(100)).describe('Shown in the dashboard, in errors and in the request log.'),
  enabled: z.boolean().optional().describe('Whether requests use it; true by default.'),
  models: ids(1_000).describe('The models that it serves; null = all of the provider.'),
  key_ids: ids(1_000).describe('The ids of the API keys that may use it; null = all of the organisation.'),
}
// Visible ASCII, as headers take it; a service account is JSON, which may have line breaks.
const secret = z
  .string()
  .trim()
  .min(8)
  .max(16_384)
  .regex(/^(?:[\x21-\x7e]+|\{[^\0]*\})$/, 'must be an API key, or the JSON of a service account')
  .describe('The secret, which is never shown again. Its provider is asked whether it accepts it.')

/** The body of a request that stores an own provider key. */
export const newProviderKey = z
  .strictObject({
    provider: z.string().min(1).max(64).describe('The provider as `GET /v1/models` names it, without a region.'),
    secret,
    resource: cloudResource.optional(),
    ...fields,
  })
  .meta({ id: 'CreateProviderKeyRequest' })

/** The body of a request that changes one. */
export const providerKeyPatch = z
  .strictObject({
    ...fields,
    name: fields.name.optional(),
    secret: secret.optional(),
    resource: cloudResource.optional(),
  })
  .meta({ id: 'UpdateProviderKeyRequest' })

type NewProviderKey = z.output<typeof newProviderKey>
type Patch = z.output<typeof providerKeyPatch>
type Check = Pick<ProviderKey, 'checkOutcome' | 'checkReason' | 'checkedAt'>

type Deps = { db: Database; policies: Policies; sealer: Sealer; clock: Clock; catalog: Catalog; upstreams: Upstreams }

/** A provider key in the API's format, without its secret. */
export function presentProviderKey(row: ProviderKey) {
  return {
    id: row.id,
    ...fieldsOf(row),
    last4: row.last4,
    ...presentCheck(row),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }
}

function presentCheck({ checkOutcome, checkReason, checkedAt }: Check) {
  if (checkOutcome === null || checkedAt === null) return { test: null }
  return { test: { outcome: checkOutcome, reason: checkReason, tested_at: checkedAt.toISOString() } }
}

function fieldsOf({ provider, name, enabled, models, keyIds, resource }: ProviderKey) {
  return {
    provider,
    name,
    enabled,
    models: models.length > 0 ? models : null,
    key_ids: keyIds.length > 0 ? keyIds : null,
    resource: resource as CloudResource | null,
  }
}

/**
 * The own provider keys of organisations. Only this class writes their table. A change takes effect with the next request on every
 * process: it renews the policies of the keys that use own provider keys, which contain them.
 */
export class ProviderKeys {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** The provider keys of an organisation, oldest first. */
  list(organisationId: string): Promise<ProviderKey[]> {
    return this.#deps.db.providerKey.findMany({
      where: { organisationId },
      orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
      take: maxProviderKeys,
    })
  }

  /** Throws 404, also for a key of another organisation. */
  get(organisationId: string, id: string): Promise<ProviderKey> {
    return find(this.#deps.db, organisationId, id)
  }

  /** The providers that organisations can bring keys for. */
  providers(): string[] {
    const { providers, namedClouds } = this.#deps.catalog
    const rows = [...providers.values(), ...namedClouds.providers.values()].filter(takesOwnKeys)
    return [...new Set(rows.map(({ name }) => familyOf(name)))].sort()
  }

  /** Stores a key that its provider accepts. Throws 400 for one that it refuses, and 403 beyond the limit. */
  async create(
    organisationId: string,
    input: NewProviderKey,
    actor: Actor,
    beside?: TransactionStep<ProviderKey>,
  ): Promise<ProviderKey> {
    const { sealer, clock } = this.#deps
    const { provider, name, enabled = true, secret: text } = input
    if (!this.providers().includes(provider))
      throw invalid('provider', `no own keys can be stored for it. There are: ${formatNames(this.providers())}`)
    const id = newId('pkey')
    const sealed = sealer.seal(text, secretPlace(id))
    const resource = this.#resource(provider, input.resource)
    const columns = { ...this.#restrictions(input), last4: endOf(text), secret: sealed, name, enabled }
    const key = { id, provider, name, secret: sealed, last4: columns.last4, models: null, resource }
    const check = await this.#checkNew(key)
    const now = new Date(clock.now())
    const data = {
      id,
      organisationId,
      provider,
      ...columns,
      ...check,
      createdAt: now,
      updatedAt: now,
      ...(resource && { resource }),
    }
    return this.#apply(organisationId, async tx => {
      if ((await tx.providerKey.count({ where: { organisationId } })) >= maxProviderKeys)
        throw new GatewayError('quota_exceeded', `An organisation can have at most ${maxProviderKeys} provider keys.`)
      await assertKeys(tx, organisationId, columns.keyIds)
      const row = await tx.providerKey.create({ data })
      const changes = changesBetween({}, { ...fieldsOf(row), last4: row.last4 })
      await audit(tx, { organisationId, actor, action: 'provider_key.created', target: { id, name }, changes })
      await beside?.(tx, row)
      return row
    })
  }

  /**
   * Updates the given fields. A new secret replaces the old one, for requests from now on; calls that run end with the old one.
   * Throws 400, also for a secret that its provider refuses, and 404.
   */
  async update(organisationId: string, id: string, patch: Patch, actor: Actor): Promise<ProviderKey> {
    const { sealer, clock } = this.#deps
    const { name, enabled, secret: text } = patch
    const current = await this.get(organisationId, id)
    const replaced = text === undefined ? null : { secret: sealer.seal(text, secretPlace(id)), last4: endOf(text) }
    const resource = patch.resource && this.#resource(current.provider, patch.resource)
    const moved = resource ? { resource } : null
    const check = (replaced || moved) && (await this.#checkNew({ ...ownKeyOf(current), ...replaced, ...moved }))
    return this.#apply(organisationId, async tx => {
      const before = await find(tx, organisationId, id)
      const data = {
        ...this.#restrictions(patch),
        ...(name !== undefined && { name }),
        ...(enabled !== undefined && { enabled }),
        ...replaced,
        ...moved,
        ...check,
        updatedAt: new Date(clock.now()),
      }
      await assertKeys(tx, organisationId, data.keyIds)
      const row = await tx.providerKey.update({ where: { id }, data })
      // Two secrets may have the same end.
      const shown = (one: ProviderKey) => ({ ...fieldsOf(one), last4: one.last4 })
      const changes = {
        ...changesBetween(shown(before), shown(row)),
        ...(replaced && { last4: [before.last4, row.last4] as [string, string] }),
      }
      if (Object.keys(changes).length > 0)
        await audit(tx, {
          organisationId,
          actor,
          action: 'provider_key.updated',
          target: { id, name: row.name },
          changes,
        })
      return row
    })
  }

  /** Deletes a key: requests no longer use it, and jobs that run with it fail. Throws 404. */
  async delete(organisationId: string, id: string, actor: Actor): Promise<void> {
    await this.#apply(organisationId, async tx => {
      const { name } = await find(tx, organisationId, id)
      await tx.providerKey.delete({ where: { id } })
      await audit(tx, { organisationId, actor, action: 'provider_key.deleted', target: { id, name } })
    })
  }

  /** Asks the provider whether it accepts a key, and keeps the answer. Throws 404. */
  async test(organisationId: string, id: string): Promise<ProviderKey> {
    const row = await this.get(organisationId, id)
    const check = await this.#check(ownKeyOf(row))
    await this.#deps.db.providerKey.updateMany({ where: { id, secret: row.secret }, data: check })
    return { ...row, ...check }
  }

  /** Encrypts the secrets with the current key. Returns how many changed. */
  async reseal(): Promise<number> {
    const { db, sealer } = this.#deps
    let changed = 0
    for (let after = ''; ; ) {
      const rows = await db.providerKey.findMany({ where: { id: { gt: after } }, orderBy: { id: 'asc' }, take: 500 })
      for (const { id, secret } of rows) {
        if (sealer.isCurrent(secret)) continue
        const place = secretPlace(id)
        const data = { secret: sealer.seal(sealer.open(secret, place), place) }
        // Compare-and-set: a concurrent change has already used the current key.
        changed += (await db.providerKey.updateMany({ where: { id, secret }, data })).count
      }
      if (rows.length < 500) return changed
      after = rows.at(-1)!.id
    }
  }

  /** Commits a change and renews the policies that contain provider keys. */
  async #apply<T>(organisationId: string, change: (tx: Connection) => Promise<T>): Promise<T> {
    const { db, policies } = this.#deps
    const { result } = await policies.applyDefault(organisationId, () =>
      db.$transaction(async tx => {
        await lockAllKeys(tx, organisationId)
        const result = await change(tx)
        const rows = await tx.$queryRaw<{ hash: string }[]>`
          UPDATE api_keys SET version = version + 1
          WHERE organisation_id = ${organisationId} AND own_keys IS NOT NULL AND revoked_at IS NULL RETURNING hash`
        return { result, hashes: rows.map(({ hash }) => hash) }
      }),
    )
    return result
  }

  /** The columns of what a key is restricted to. Throws 400 for an unknown model. */
  #restrictions({ models, key_ids: keyIds }: Pick<Patch, 'models' | 'key_ids'>) {
    const idOf = (slug: string) => {
      const model = this.#deps.catalog.find(slug)
      if (!model) throw invalid('models', `there is no model \`${slug.slice(0, 100)}\``)
      return model.id
    }
    return {
      ...(models !== undefined && { models: [...new Set(models?.map(idOf))] }),
      ...(keyIds !== undefined && { keyIds: [...new Set(keyIds)] }),
    }
  }

  /** The resource of a key, which only clouds with named deployments have. Throws 400 for one that reaches no model. */
  #resource(provider: string, resource: CloudResource | undefined): CloudResource | null {
    const { catalog } = this.#deps
    const { namedClouds } = catalog
    const isNamed = [...namedClouds.providers.keys()].some(name => familyOf(name) === provider)
    if (!isNamed && resource) throw invalid('resource', `keys of ${provider} have none`)
    if (!isNamed) return null
    if (!resource) throw invalid('resource', `is needed for a key of ${provider}`)
    const deployments = resource.deployments.map((one, index) => {
      const model = catalog.find(one.model)?.id ?? one.model
      const placed = { ...one, model }
      const found = placeAtResource(namedClouds, provider, { ...resource, deployments: [placed] }, model)
      const zone = one.zone === undefined ? '' : ` in the zone "${one.zone}"`
      if (found.length === 0)
        throw invalid(`resource.deployments.${index}`, `there is no model \`${one.model}\` at ${provider}${zone}`)
      return placed
    })
    const twice = deployments.find((one, index) => deployments.findIndex(({ model }) => model === one.model) < index)
    if (twice) throw invalid('resource.deployments', `the model \`${twice.model}\` is there twice`)
    return { ...resource, deployments }
  }

  async #check(key: Parameters<Upstreams['testOwnKey']>[0]): Promise<Check> {
    const report = await this.#deps.upstreams.testOwnKey(key)
    const reason = report ? report.reason : 'The operator has configured no region of this provider.'
    return {
      checkOutcome: report?.outcome ?? 'unknown',
      checkReason: reason === null ? null : redactCredentials(reason),
      checkedAt: new Date(this.#deps.clock.now()),
    }
  }

  /** Throws 400 for a secret that its provider refuses; one that cannot be tested now is stored, with why. */
  async #checkNew(key: Parameters<Upstreams['testOwnKey']>[0]): Promise<Check> {
    const check = await this.#check(key)
    if (check.checkOutcome === 'failed' && /^(?:HTTP 40[13]|auth)\b/.test(check.checkReason ?? ''))
      throw invalid('secret', `${key.provider} refused this key (${check.checkReason})`)
    return check
  }
}

async function find(db: Connection, organisationId: string, id: string): Promise<ProviderKey> {
  const row = await db.providerKey.findFirst({ where: { id, organisationId } })
  if (!row) throw new GatewayError('not_found', 'No such provider key.')
  return row
}

async function assertKeys(tx: Connection, organisationId: string, keyIds: string[] | undefined): Promise<void> {
  if (!keyIds?.length) return
  const known = await tx.apiKey.findMany({ where: { organisationId, id: { in: keyIds } }, select: { id: true } })
  const unknown = keyIds.find(id => known.every(key => key.id !== id))
  if (unknown !== undefined) throw invalid('key_ids', `the organisation has no API key \`${unknown}\``)
}

/** The visible end of a secret; that of a service account is not its secret part. */
function endOf(secret: string): string {
  const account = secret.startsWith('{') ? /"client_email"\s*:\s*"([^"@]+)/.exec(secret)?.[1] : null
  return (account ?? secret).slice(-4)
}

function invalid(param: string, fault: string): GatewayError {
  return new GatewayError('invalid_request', `\`${param}\`: ${fault}.`, { param })
}
