import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { upToEntries } from '../base/lru-limit.ts'
import { type Clock, elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import type { Preset, PresetVersion } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { lockOrganisation } from '../io/organisation-locks.ts'
import type { PresetConfig } from './preset-config.ts'

const maxPresets = 500
export const maxVersions = 1_000
const maxCached = 2_000
/** How long a change by another process can go unnoticed. */
const freshMs = 1_000

/** A preset as a request uses it. */
type ResolvedPreset = { name: string; version: number; config: PresetConfig }
type Cached = { resolved: ResolvedPreset | null; readMs: MonotonicMs }
export type StoredPreset = Preset & { config: PresetConfig; createdBy: string }

type Services = { db: Database; clock: Clock; monotonic: MonotonicClock }

/**
 * The presets of organisations, with their versions. A version never changes: a change of a preset makes a new one. Only this
 * class writes their tables, with the audit event in the same transaction.
 */
export class Presets {
  readonly #services: Services
  readonly #cache = new LRUCache<string, Cached>(upToEntries(maxCached))

  constructor(services: Services) {
    this.#services = services
  }

  /** Finds a version of a preset for a request, by default the current one; null if there is none. While PostgreSQL is away, what was last read is used. */
  async resolve(organisationId: string, name: string, version: number | null): Promise<ResolvedPreset | null> {
    const key = `${organisationId}/${name}@${version ?? ''}`
    const cached = this.#cache.get(key)
    const nowMs = this.#services.monotonic.now()
    if (cached && elapsedMs(cached.readMs, nowMs) < freshMs) return cached.resolved
    try {
      const resolved = await this.#read(organisationId, name, version)
      this.#cache.set(key, { resolved, readMs: nowMs })
      return resolved
    } catch (error) {
      if (cached) return cached.resolved
      throw error
    }
  }

  async #read(organisationId: string, name: string, version: number | null): Promise<ResolvedPreset | null> {
    const { db } = this.#services
    const row = await db.preset.findUnique({ where: { organisationId_name: { organisationId, name } } })
    const found = row && (await findVersion(db, row.id, version ?? row.current))
    return found ? { name, version: found.version, config: found.config as PresetConfig } : null
  }

  /** The presets of an organisation with their current version, by name. */
  async list(organisationId: string): Promise<StoredPreset[]> {
    const { db } = this.#services
    const rows = await db.preset.findMany({
      where: { organisationId },
      orderBy: { name: 'asc' },
      take: maxPresets,
    })
    const keys = rows.map(({ id, current }) => ({ presetId: id, version: current }))
    const versions = keys.length > 0 ? await db.presetVersion.findMany({ where: { OR: keys } }) : []
    const byPreset = new Map(versions.map(one => [one.presetId, one]))
    return rows.map(row => withVersion(row, byPreset.get(row.id)!))
  }

  /** Throws 404. */
  async get(organisationId: string, name: string): Promise<StoredPreset> {
    const { db } = this.#services
    const row = await db.preset.findUnique({ where: { organisationId_name: { organisationId, name } } })
    if (!row) throw presetNotFound(name)
    return withVersion(row, (await findVersion(db, row.id, row.current))!)
  }

  /** The versions of a preset, the newest first. Throws 404. */
  async versions(organisationId: string, name: string): Promise<{ preset: StoredPreset; versions: PresetVersion[] }> {
    const preset = await this.get(organisationId, name)
    const versions = await this.#services.db.presetVersion.findMany({
      where: { presetId: preset.id },
      orderBy: { version: 'desc' },
      take: maxVersions,
    })
    return { preset, versions }
  }

  /** Creates a preset, or a new version of it that becomes the current one; the same config as the current one makes none. `beside` runs in the same transaction. */
  async save(
    organisationId: string,
    name: string,
    config: PresetConfig,
    actor: Actor,
    beside?: TransactionStep<Preset>,
  ): Promise<StoredPreset> {
    const { db, clock } = this.#services
    const at = new Date(clock.now())
    const saved = await db.$transaction(async tx => {
      // The lock of the organisation serialises changes, and the count.
      await lockOrganisation(tx, organisationId)
      const row = await tx.preset.findUnique({ where: { organisationId_name: { organisationId, name } } })
      const current = row && (await findVersion(tx, row.id, row.current))
      if (row && current && isDeepStrictEqual(current.config, asStored(config))) {
        await beside?.(tx, row)
        return withVersion(row, current)
      }
      if (!row && (await tx.preset.count({ where: { organisationId } })) >= maxPresets)
        throw new GatewayError('quota_exceeded', `An organisation has at most ${maxPresets} presets.`)
      const version = (row?.latest ?? 0) + 1
      if (version > maxVersions)
        throw new GatewayError(
          'quota_exceeded',
          `A preset has at most ${maxVersions} versions. Save it under a new name.`,
        )
      const fields = { current: version, latest: version, updatedAt: at }
      const preset = row
        ? await tx.preset.update({ where: { id: row.id }, data: fields })
        : await tx.preset.create({ data: { id: newId('pre'), organisationId, name, createdAt: at, ...fields } })
      const made = await tx.presetVersion.create({
        data: { presetId: preset.id, version, config: asStored(config), createdBy: actor.name, createdAt: at },
      })
      const was = (current?.config ?? {}) as Record<string, unknown>
      await noteChange(tx, preset, actor, row ? 'preset.changed' : 'preset.created', was, { ...config, version })
      await beside?.(tx, preset)
      return withVersion(preset, made)
    })
    this.#forget(organisationId, name)
    return saved
  }

  /** Makes an earlier or later version the current one. Throws 404. */
  async use(organisationId: string, name: string, version: number, actor: Actor): Promise<StoredPreset> {
    const { db, clock } = this.#services
    const used = await db.$transaction(async tx => {
      await lockOrganisation(tx, organisationId)
      const row = await tx.preset.findUnique({ where: { organisationId_name: { organisationId, name } } })
      const found = row && (await findVersion(tx, row.id, version))
      if (!row || !found) throw presetNotFound(name, version)
      if (row.current === version) return withVersion(row, found)
      const data = { current: version, updatedAt: new Date(clock.now()) }
      const preset = await tx.preset.update({ where: { id: row.id }, data })
      await noteChange(tx, preset, actor, 'preset.changed', { version: row.current }, { version })
      return withVersion(preset, found)
    })
    this.#forget(organisationId, name)
    return used
  }

  /** Deletes a preset with its versions. Throws 404. */
  async remove(
    organisationId: string,
    name: string,
    actor: Actor,
    beside?: (tx: Connection) => Promise<void>,
  ): Promise<void> {
    const { db } = this.#services
    await db.$transaction(async tx => {
      const row = await tx.preset.findUnique({ where: { organisationId_name: { organisationId, name } } })
      if (!row) throw presetNotFound(name)
      await tx.preset.delete({ where: { id: row.id } })
      await noteChange(tx, row, actor, 'preset.deleted', {}, {})
      await beside?.(tx)
    })
    this.#forget(organisationId, name)
  }

  #forget(organisationId: string, name: string): void {
    const begin = `${organisationId}/${name}@`
    for (const key of this.#cache.keys()) if (key.startsWith(begin)) this.#cache.delete(key)
  }
}

/** A config as PostgreSQL returns it: without members that are undefined. */
function asStored(config: PresetConfig): object {
  return JSON.parse(JSON.stringify(config)) as object
}

function findVersion(db: Connection, presetId: string, version: number): Promise<PresetVersion | null> {
  return db.presetVersion.findUnique({ where: { presetId_version: { presetId, version } } })
}

function withVersion(row: Preset, { config, createdBy }: PresetVersion): StoredPreset {
  return { ...row, config: config as PresetConfig, createdBy }
}

async function noteChange(
  tx: Connection,
  { id, name, organisationId }: Preset,
  actor: Actor,
  action: string,
  was: Record<string, unknown>,
  is: Record<string, unknown>,
): Promise<void> {
  const gone = Object.fromEntries(Object.keys(was).map(field => [field, null]))
  await audit(tx, {
    organisationId,
    actor,
    action,
    target: { id, name },
    changes: changesBetween(was, { ...gone, ...is }),
  })
}

/** The error of a preset, or a version of it, that there is not: 400 for a request that names it in `param`, else 404. */
export function presetNotFound(name: string, version: number | null = null, param: string | null = null): GatewayError {
  const what = version === null ? `There is no preset "${name}"` : `The preset "${name}" has no version ${version}`
  const code = param === null ? 'not_found' : 'invalid_request'
  return new GatewayError(code, `${what} in this organisation.`, { param: param ?? 'name' })
}
