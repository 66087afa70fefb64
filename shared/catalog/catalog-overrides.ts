import { GatewayError } from '../base/errors.ts'
import { isObject } from '../base/is-object.ts'
import type { Clock } from '../base/time.ts'
import type { CatalogOverride } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import type { Sealer } from '../io/sealer.ts'
import type { Catalog, LiveCatalog } from './catalog.ts'
import {
  applyOverrides,
  type Override,
  type OverrideFault,
  type OverrideKind,
  overrideSchemas,
  type Server,
} from './overrides.ts'

/** How long a change made by another process can go unnoticed. */
const pollIntervalMs = 500
const maxOverrides = 2_000
/** A change may be of as many overrides. */
const changeTimeoutMs = 20_000
const versionName = 'catalog_version'

const secretPlace = (name: string) => `catalog_overrides.secret:${name}`

/** A stored override. `last4`: of a server's API key. */
export type StoredOverride = Override & { last4: string | null; updatedBy: string; updatedAt: Date }

type Services = { db: Database; clock: Clock; log: Logger; sealer: Sealer }
/** The API keys of providers that were added at run time, by the name of the provider or of the cloud. */
export type ProviderKeys = ReadonlyMap<string, readonly string[]>
/** What follows the catalog of the process. */
type Followers = {
  catalog: LiveCatalog
  setServers(servers: readonly Server[]): void
  setKeys(keys: ProviderKeys): void
  onChange(catalog: Catalog): void
}

/**
 * A change of one override. `update` gets its value (null = there is none) and returns the new one (null = none).
 * `secret` gets the secret beside it, such as the API key of a server, and returns the new one; absent = as before.
 */
export type OverrideChange<Value> = {
  kind: OverrideKind
  name: string
  update(before: Value | null): Value | null
  secret?: ((before: string | null) => string | null) | undefined
}

/**
 * The changes of the model catalog that operators made at run time, above the files. PostgreSQL has them; each process polls
 * their version and replaces its catalog. While PostgreSQL is away the last known catalog stays.
 */
export class CatalogOverrides {
  readonly #services: Services
  readonly #base: Catalog
  readonly #followers: Followers
  #version = ''
  #timer: NodeJS.Timeout | null = null
  #loading: Promise<void> | null = null
  #stored: readonly StoredOverride[] = []
  #faults: readonly OverrideFault[] = []
  #servers: readonly Server[] = []
  #keys: ProviderKeys = new Map()

  constructor(services: Services, followers: Followers) {
    this.#services = services
    this.#base = followers.catalog.initial
    this.#followers = followers
  }

  /** The catalog of the files. */
  get base(): Catalog {
    return this.#base
  }

  /** The overrides of the current catalog, with why some have no effect. */
  get current(): { overrides: readonly StoredOverride[]; faults: readonly OverrideFault[] } {
    return { overrides: this.#stored, faults: this.#faults }
  }

  /** The API key of a stored server; null if it has another base URL, which must not receive the key. */
  apiKeyOf(name: string, baseUrl: string): string | null {
    const server = this.#servers.find(({ row }) => row.name === name && row.base_url === baseUrl)
    return server?.apiKeys[0] ?? null
  }

  /** The API keys of providers that were added at run time. */
  get keys(): ProviderKeys {
    return this.#keys
  }

  /** Loads the overrides and follows their changes. Never throws: without PostgreSQL the catalog of the files is used meanwhile. */
  async start(): Promise<void> {
    await this.#poll()
    this.#timer = setInterval(() => void this.#poll(), pollIntervalMs)
    this.#timer.unref()
  }

  /** Reads what other processes have changed. Throws if PostgreSQL is away. */
  refresh(): Promise<void> {
    return this.#load()
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** Makes a change, in force in this process when it returns and in the others within a second. Throws 400, 404, 503. */
  async change<Value>(change: OverrideChange<Value>, actor: Actor): Promise<void> {
    await this.changeAll([change as OverrideChange<unknown>], actor)
  }

  /** Makes changes that are valid together, all or none; `beside` runs in the same transaction. Throws as `change`. */
  async changeAll(
    changes: readonly OverrideChange<unknown>[],
    actor: Actor,
    beside?: (tx: Connection) => Promise<void>,
  ): Promise<void> {
    const { db } = this.#services
    await db.$transaction(
      async tx => {
        // The row lock serialises changes, so that each is checked against those before it.
        await tx.$executeRaw`INSERT INTO settings (name, value) VALUES (${versionName}, '1')
          ON CONFLICT (name) DO UPDATE SET value = (settings.value::bigint + 1)::text`
        const rows = await tx.catalogOverride.findMany({ take: maxOverrides })
        const prepared = changes.map(change => this.#prepare(rows, change, actor))
        const isChanged = (row: CatalogOverride) =>
          prepared.some(({ kind, name }) => row.kind === kind && row.name === name)
        const after = [...rows.filter(row => !isChanged(row)), ...prepared.flatMap(({ row }) => row ?? [])]
        if (after.length > Math.max(maxOverrides, rows.length))
          throw new GatewayError('quota_exceeded', `At most ${maxOverrides} changes of the catalog can be stored.`)
        this.#assertFits(rows, after, prepared)
        for (const { kind, name, before, row } of prepared) {
          await save(tx, row, { kind, name })
          await this.#audit(tx, before, row ?? undefined, { kind, name, actor })
        }
        await beside?.(tx)
      },
      { timeout: changeTimeoutMs },
    )
    await this.#load()
  }

  /** The row that a change makes, before it is stored; null = none. Throws 404. */
  #prepare(rows: readonly CatalogOverride[], change: OverrideChange<unknown>, actor: Actor) {
    const { kind, name, update } = change
    const before = rows.find(row => row.kind === kind && row.name === name)
    const secret = this.#secretOf(name, before, change.secret)
    const value = update(before?.value ?? null)
    if (value === null && !before) throw new GatewayError('not_found', `There is no such ${kind}.`)
    const stored = mapHeaders(kind, value, header => this.#sealHeader(name, header)) as object
    const updatedAt = new Date(this.#services.clock.now())
    const row = value === null ? null : { kind, name, value: stored, secret, updatedBy: actor.name, updatedAt }
    return { kind, name, before, row: row as CatalogOverride | null }
  }

  /** The sealed secret that an override will have. Throws 503 if the present one cannot be decrypted. */
  #secretOf(
    name: string,
    before: CatalogOverride | undefined,
    update: OverrideChange<unknown>['secret'],
  ): string | null {
    const stored = before?.secret ?? null
    if (!update) return stored
    const { sealer } = this.#services
    const was = stored === null ? null : sealer.open(stored, secretPlace(name))
    const secret = update(was)
    return secret === null ? null : secret === was ? stored : sealer.seal(secret, secretPlace(name))
  }

  #sealHeader(name: string, header: StoredHeader): StoredHeader {
    if (typeof header === 'string' || !('secret' in header)) return header
    return { sealed: this.#services.sealer.seal(header.secret, secretPlace(name)) }
  }

  /** Throws 400 if a change has no effect, or takes the effect from another override. */
  #assertFits(
    before: CatalogOverride[],
    after: CatalogOverride[],
    changed: readonly { kind: OverrideKind; name: string }[],
  ): void {
    const isOwn = (fault: OverrideFault) => changed.some(own => fault.kind === own.kind && fault.name === own.name)
    const known = new Set(this.#apply(before).faults.map(({ kind, name }) => `${kind} ${name}`))
    const { faults } = this.#apply(after)
    const fault = faults.find(isOwn)
    if (fault && changed.length > 1)
      throw new GatewayError('invalid_request', `${fault.kind} "${fault.name}": ${fault.field}: ${fault.message}`)
    if (fault) throw new GatewayError('invalid_request', fault.message, { param: fault.field })
    const broken = faults.find(({ kind, name }) => !known.has(`${kind} ${name}`))
    if (broken)
      throw new GatewayError(
        'invalid_request',
        `The ${broken.kind} "${broken.name}" depends on this: ${broken.message} Change or remove it first.`,
        { param: 'name' },
      )
  }

  async #audit(
    tx: Connection,
    before: CatalogOverride | undefined,
    after: CatalogOverride | undefined,
    { kind, name, actor }: { kind: OverrideKind; name: string; actor: Actor },
  ): Promise<void> {
    const fields = (row: CatalogOverride | undefined) =>
      row ? { ...(mapHeaders(kind, row.value, maskHeader) as object), ...keyField(this.#last4(row)) } : {}
    const [was, is] = [fields(before), fields(after)]
    const gone = Object.fromEntries(Object.keys(was).map(field => [field, null]))
    const action = `catalog_${kind}.${after ? (before ? 'changed' : 'added') : 'removed'}`
    const changes = changesBetween(was, { ...gone, ...is })
    await audit(tx, { organisationId: null, actor, action, target: { id: name, name }, changes })
  }

  #apply(rows: readonly CatalogOverride[]) {
    const parsed = rows.map(row => this.#parse(row))
    const overrides = parsed.flatMap(row => row ?? [])
    const { catalog, faults } = applyOverrides(this.#base, overrides)
    const unread = rows.filter((_, index) => parsed[index] === null).map(faultOfUnread)
    return { overrides, catalog, faults: [...unread, ...faults] }
  }

  async #poll(): Promise<void> {
    const { db, log } = this.#services
    try {
      const row = await db.setting.findUnique({ where: { name: versionName } })
      if ((row?.value ?? '') !== this.#version) await this.#load()
    } catch (error) {
      log.warn({ err: error }, 'cannot read the changes of the model catalog; the last known catalog stays')
    }
  }

  #load(): Promise<void> {
    const next = (this.#loading ?? Promise.resolve()).catch(() => {}).then(() => this.#read())
    this.#loading = next
    return next
  }

  async #read(): Promise<void> {
    const { db, log } = this.#services
    // The version first: a change between the two reads is read again by the next poll.
    const version = (await db.setting.findUnique({ where: { name: versionName } }))?.value ?? ''
    const rows = await db.catalogOverride.findMany({ take: maxOverrides, orderBy: [{ kind: 'asc' }, { name: 'asc' }] })
    const { catalog, faults } = this.#apply(rows)
    const keys = new Map(
      rows.flatMap(row => {
        const secret = row.kind === 'keys' && this.#parse(row) ? this.#open(row) : null
        return secret === null ? [] : [[row.name, JSON.parse(secret) as string[]] as const]
      }),
    )
    const servers = rows.flatMap((row): Server[] => {
      const provider = catalog.providers.get(row.name)
      if (!provider || this.#base.providers.has(row.name)) return []
      if (row.kind === 'provider') return [{ row: provider, apiKeys: keys.get(row.name) ?? [] }]
      if (row.kind !== 'server') return []
      const apiKey = this.#open(row)
      if (apiKey === null && row.secret !== null) return []
      return [{ row: provider, apiKeys: apiKey === null ? [] : [apiKey] }]
    })
    // Connections first: the router must not choose a server without one.
    this.#followers.setServers(servers)
    this.#followers.setKeys(keys)
    this.#servers = servers
    this.#keys = keys
    this.#followers.catalog.replace(catalog)
    this.#followers.onChange(catalog)
    this.#stored = rows.flatMap(row => {
      const parsed = this.#parse(row)
      return parsed ? { ...parsed, last4: this.#last4(row), updatedBy: row.updatedBy, updatedAt: row.updatedAt } : []
    })
    this.#faults = faults
    this.#version = version
    for (const fault of faults) log.warn(fault, 'a change of the model catalog has no effect')
  }

  /** Null for a row of another version of the gateway, or with a header that cannot be decrypted. */
  #parse(row: CatalogOverride): Override | null {
    const { log, sealer } = this.#services
    try {
      const open = (header: StoredHeader) =>
        typeof header === 'string' || !('sealed' in header) ? header : sealer.open(header.sealed, secretPlace(row.name))
      return parseRow({ ...row, value: mapHeaders(row.kind, row.value, open) as CatalogOverride['value'] })
    } catch (error) {
      log.error({ err: error, model: row.name }, 'a header of a model cannot be decrypted: its change has no effect')
      return null
    }
  }

  #last4(row: CatalogOverride): string | null {
    return row.kind === 'server' ? (this.#open(row)?.slice(-4) ?? null) : null
  }

  /** The secret of an override; null if it has none, or one whose encryption key is not configured. */
  #open({ name, secret }: CatalogOverride): string | null {
    const { log, sealer } = this.#services
    try {
      return secret === null ? null : sealer.open(secret, secretPlace(name))
    } catch (error) {
      log.error({ err: error, server: name }, 'the API key of a server or provider cannot be decrypted: it is not used')
      return null
    }
  }

  /** Encrypts the API keys of servers and providers, and headers, with the current key. Returns how many changed. */
  async reseal(): Promise<number> {
    const { db, sealer } = this.#services
    const rows = await db.catalogOverride.findMany({ take: maxOverrides })
    let changed = 0
    for (const { kind, name, secret, value, updatedAt } of rows) {
      const place = secretPlace(name)
      let isStale = false
      const reseal = (text: string) => {
        if (sealer.isCurrent(text)) return text
        isStale = true
        return sealer.seal(sealer.open(text, place), place)
      }
      const resealed = mapHeaders(kind, value, header =>
        typeof header !== 'string' && 'sealed' in header ? { sealed: reseal(header.sealed) } : header,
      )
      const data = { secret: secret === null ? null : reseal(secret), value: resealed as object }
      // Compare-and-set: a concurrent change has already used the current key.
      if (isStale)
        changed += (await db.catalogOverride.updateMany({ where: { kind, name, secret, updatedAt }, data })).count
    }
    return changed
  }
}

/** The value of a header: as it is, sealed, or a secret that is to be sealed. */
type StoredHeader = string | { sealed: string } | { secret: string }

const maskHeader = (header: StoredHeader): StoredHeader => (typeof header === 'string' ? header : '…')

/** The value of an override with each header of its deployments replaced. */
function mapHeaders(kind: string, value: unknown, replace: (header: StoredHeader) => StoredHeader): unknown {
  const mapped = (deployment: object) => {
    const { headers } = deployment as { headers?: Record<string, StoredHeader> }
    if (!headers) return deployment
    return { ...deployment, headers: mapValues(headers, replace) }
  }
  const { providers, requests } = (value ?? {}) as { providers?: object[]; requests?: Record<string, object> }
  if (kind === 'row' && Array.isArray(providers)) return { ...(value as object), providers: providers.map(mapped) }
  if (kind === 'model' && isObject(requests))
    return { ...(value as object), requests: mapValues(requests as Record<string, object>, mapped) }
  return value
}

function mapValues<Value, Result>(
  values: Record<string, Value>,
  map: (value: Value) => Result,
): Record<string, Result> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]))
}

const keyField = (last4: string | null) => (last4 === null ? {} : { api_key: `…${last4}` })

async function save(
  tx: Connection,
  row: CatalogOverride | null,
  key: { kind: OverrideKind; name: string },
): Promise<void> {
  const where = { kind_name: key }
  if (row) {
    const data = { ...row, value: row.value as object }
    await tx.catalogOverride.upsert({ where, create: data, update: data })
  } else await tx.catalogOverride.delete({ where })
}

/** A row that this version does not read, by its name. Its kind may be unknown as well. */
function faultOfUnread({ kind, name }: CatalogOverride): OverrideFault {
  const message = 'It was stored by another version of the gateway, which has another form of it.'
  return { kind: kind as OverrideKind, name, field: 'value', message }
}

/** Null for a row of another version of the gateway. */
function parseRow({ kind, name, value, secret }: CatalogOverride): Override | null {
  const schema = Object.hasOwn(overrideSchemas, kind) ? overrideSchemas[kind as OverrideKind] : null
  const parsed = schema?.safeParse(value)
  return parsed?.success ? ({ kind, name, value: parsed.data, hasKey: secret !== null } as Override) : null
}
