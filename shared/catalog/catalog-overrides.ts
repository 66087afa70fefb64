import { GatewayError } from '../base/errors.ts'
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
const pollIntervalMs = 2_000
const maxOverrides = 2_000
const versionName = 'catalog_version'

const secretPlace = (name: string) => `catalog_overrides.secret:${name}`

/** A stored override. `last4`: of a server's API key. */
export type StoredOverride = Override & { last4: string | null; updatedBy: string; updatedAt: Date }

type Services = { db: Database; clock: Clock; log: Logger; sealer: Sealer }
/** What follows the catalog of the process. */
type Followers = {
  catalog: LiveCatalog
  setServers(servers: readonly Server[]): void
  onChange(catalog: Catalog): void
}

/**
 * A change of one override. `update` gets its value (null = there is none) and returns the new one (null = none).
 * `apiKey`: null = the server needs none, absent = as before.
 */
export type OverrideChange<Value> = {
  kind: OverrideKind
  name: string
  update(before: Value | null): Value | null
  apiKey?: string | null | undefined
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
    return server?.apiKey ?? null
  }

  /** Loads the overrides and follows their changes. Never throws: without PostgreSQL the catalog of the files is used meanwhile. */
  async start(): Promise<void> {
    await this.#poll()
    this.#timer = setInterval(() => void this.#poll(), pollIntervalMs)
    this.#timer.unref()
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** Makes a change, in force in this process when it returns and in the others within seconds. Throws 400, 404, 503. */
  async change<Value>({ kind, name, update, apiKey }: OverrideChange<Value>, actor: Actor): Promise<void> {
    const { db } = this.#services
    await db.$transaction(async tx => {
      // The row lock serialises changes, so that each is checked against those before it.
      await tx.$executeRaw`INSERT INTO settings (name, value) VALUES (${versionName}, '1')
        ON CONFLICT (name) DO UPDATE SET value = (settings.value::bigint + 1)::text`
      const rows = await tx.catalogOverride.findMany({ take: maxOverrides })
      const before = rows.find(row => row.kind === kind && row.name === name)
      const value = update((before?.value ?? null) as Value | null)
      if (value === null && !before) throw new GatewayError('not_found', `There is no such ${kind}.`)
      const secret = this.#secretOf(name, before, apiKey)
      const others = rows.filter(row => row !== before)
      if (value !== null && others.length >= maxOverrides)
        throw new GatewayError('quota_exceeded', `At most ${maxOverrides} changes of the catalog can be stored.`)
      const updatedBy = actor.name
      const row = {
        kind,
        name,
        value: value as object,
        secret,
        updatedBy,
        updatedAt: new Date(this.#services.clock.now()),
      }
      this.#assertFits(rows, value === null ? others : [...others, row], { kind, name })
      await save(tx, value === null ? null : row, { kind, name })
      await this.#audit(tx, before, value === null ? undefined : row, { kind, name, actor })
    })
    await this.#load()
  }

  /** The sealed API key that a server will have. */
  #secretOf(name: string, before: CatalogOverride | undefined, apiKey: string | null | undefined): string | null {
    if (apiKey === undefined) return before?.secret ?? null
    return apiKey === null ? null : this.#services.sealer.seal(apiKey, secretPlace(name))
  }

  /** Throws 400 if a change has no effect, or takes the effect from another override. */
  #assertFits(before: CatalogOverride[], after: CatalogOverride[], own: { kind: OverrideKind; name: string }): void {
    const isOwn = (fault: OverrideFault) => fault.kind === own.kind && fault.name === own.name
    const known = new Set(this.#apply(before).faults.map(({ kind, name }) => `${kind} ${name}`))
    const { faults } = this.#apply(after)
    const fault = faults.find(isOwn)
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
      row ? { ...(row.value as object), ...keyField(this.#last4(row)) } : {}
    const [was, is] = [fields(before), fields(after)]
    const gone = Object.fromEntries(Object.keys(was).map(field => [field, null]))
    const action = `catalog_${kind}.${after ? (before ? 'changed' : 'added') : 'removed'}`
    const changes = changesBetween(was, { ...gone, ...is })
    await audit(tx, { organisationId: null, actor, action, target: { id: name, name }, changes })
  }

  #apply(rows: readonly CatalogOverride[]) {
    const overrides = rows.flatMap(row => parseRow(row) ?? [])
    const { catalog, faults } = applyOverrides(this.#base, overrides)
    const unread = rows.filter(row => parseRow(row) === null).map(faultOfUnread)
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
    const servers = rows.flatMap((row): Server[] => {
      const provider = catalog.providers.get(row.name)
      if (row.kind !== 'server' || !provider || this.#base.providers.has(row.name)) return []
      const apiKey = this.#open(row)
      if (apiKey === null && row.secret !== null) return []
      return [{ row: provider, apiKey }]
    })
    // Connections first: the router must not choose a server without one.
    this.#followers.setServers(servers)
    this.#servers = servers
    this.#followers.catalog.replace(catalog)
    this.#followers.onChange(catalog)
    this.#stored = rows.flatMap(row => {
      const parsed = parseRow(row)
      return parsed ? { ...parsed, last4: this.#last4(row), updatedBy: row.updatedBy, updatedAt: row.updatedAt } : []
    })
    this.#faults = faults
    this.#version = version
    for (const fault of faults) log.warn(fault, 'a change of the model catalog has no effect')
  }

  #last4(row: CatalogOverride): string | null {
    return this.#open(row)?.slice(-4) ?? null
  }

  /** The API key of a server; null if it has none, or one whose encryption key is not configured. */
  #open({ name, secret }: CatalogOverride): string | null {
    const { log, sealer } = this.#services
    try {
      return secret === null ? null : sealer.open(secret, secretPlace(name))
    } catch (error) {
      log.error({ err: error, server: name }, 'the API key of a server cannot be decrypted: it is not used')
      return null
    }
  }

  /** Encrypts the API keys of servers with the current key. Returns how many changed. */
  async reseal(): Promise<number> {
    const { db, sealer } = this.#services
    const rows = await db.catalogOverride.findMany({ where: { secret: { not: null } }, take: maxOverrides })
    let changed = 0
    for (const { kind, name, secret } of rows) {
      if (secret === null || sealer.isCurrent(secret)) continue
      const place = secretPlace(name)
      const data = { secret: sealer.seal(sealer.open(secret, place), place) }
      // Compare-and-set: a concurrent change has already used the current key.
      changed += (await db.catalogOverride.updateMany({ where: { kind, name, secret }, data })).count
    }
    return changed
  }
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
