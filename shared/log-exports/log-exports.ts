import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Clock } from '../base/time.ts'
import { type LogExport, type LogExportCursor, Prisma } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { lockOrganisation } from '../io/organisation-locks.ts'
import type { UrlPolicy } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import { newSigningSecret, type SecretPair, validSecrets, type WebhookSecrets } from '../webhooks/secrets.ts'
import type { Stream } from './rows.ts'
import {
  changedSettings,
  credentialsPlace,
  type ExportKind,
  type ExportPatch,
  maxExports,
  type NewExport,
  type NewReplay,
  openCredentials,
  type Settings,
} from './settings.ts'
import { readHorizon } from './streams.ts'

/** Rows of a batch. Those of content are large. */
export const maxBatchRows: Record<Stream, number> = { requests: 1_000, audit: 1_000, content: 100 }
const maxRunningReplays = 6
const maxListedCursors = 100
const maxUpdateAttempts = 5

/** An export with its live cursors and its latest replays. */
export type ExportWithCursors = LogExport & { cursors: LogExportCursor[] }
/** A new export or one with a new secret; the secret is null where nothing is signed. */
export type CreatedExport = { row: ExportWithCursors; secret: string | null }
/** Whose exports: an organisation's, or with null the operator's. */
export type Owner = string | null

type Deps = { db: Database; sealer: Sealer; clock: Clock; urlPolicy: UrlPolicy }

/** The exports of organisations and of the operator. Their cursors are moved by workers (`deliveries.ts`). */
export class LogExports {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** All exports of an owner, oldest first. */
  list(organisationId: Owner): Promise<ExportWithCursors[]> {
    return this.#deps.db.logExport.findMany({
      where: { organisationId },
      orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
      take: maxExports,
      include: withCursors,
    })
  }

  /** Throws 404, also for an export of another owner. */
  get(organisationId: Owner, id: string): Promise<ExportWithCursors> {
    return find(this.#deps.db, organisationId, id)
  }

  /** Creates an export, which begins with what is written from now on. Throws 400 for its settings, 403 beyond the limit. */
  async create(
    organisationId: Owner,
    { kind, ...fields }: NewExport,
    actor: Actor,
    beside?: TransactionStep<CreatedExport>,
  ): Promise<CreatedExport> {
    const { db, clock, urlPolicy } = this.#deps
    const { credentials, ...settings } = await changedSettings(kind, fields, null, urlPolicy)
    const id = newId('exp')
    const now = new Date(clock.now())
    const secret = kind === 'https' ? newSigningSecret() : null
    const position = (await readHorizon(db)) - 1n
    return db.$transaction(async tx => {
      if (organisationId !== null) await lockOrganisation(tx, organisationId)
      if ((await tx.logExport.count({ where: { organisationId } })) >= maxExports)
        throw new GatewayError('quota_exceeded', `There can be at most ${maxExports} exports.`)
      await tx.logExport.create({
        data: {
          ...settings,
          id,
          organisationId,
          kind,
          fields: settings.fields ?? Prisma.DbNull,
          credentials: this.#deps.sealer.seal(JSON.stringify(credentials), credentialsPlace(id)),
          secret: secret && this.#deps.sealer.seal(secret, secretPlace(id)),
          dueAt: now,
          createdAt: now,
          updatedAt: now,
          cursors: { create: settings.streams.map(stream => newCursor(stream as Stream, position, now)) },
        },
      })
      const row = await find(tx, organisationId, id)
      const changes = changesBetween({}, fieldsOf(row))
      const target = { id, name: row.name }
      await audit(tx, { organisationId, actor, action: 'log_export.created', target, changes })
      await beside?.(tx, { row, secret })
      return { row, secret }
    })
  }

  /** Updates the given settings. An added stream begins now; an enabled export continues where it was. Throws 400, 404. */
  async update(organisationId: Owner, id: string, patch: ExportPatch, actor: Actor): Promise<ExportWithCursors> {
    for (let attempt = 0; attempt < maxUpdateAttempts; attempt++) {
      const row = await this.#tryUpdate(await this.get(organisationId, id), patch, actor)
      if (row) return row
    }
    throw new GatewayError('service_unavailable', 'The export is being changed by others. Try again.')
  }

  /** Null if the export was changed meanwhile. */
  async #tryUpdate(before: ExportWithCursors, patch: ExportPatch, actor: Actor): Promise<ExportWithCursors | null> {
    const { db, clock, sealer, urlPolicy } = this.#deps
    const { id, organisationId } = before
    const was: Settings = { ...before, credentials: openCredentials(sealer, before) }
    const { credentials, ...settings } = await changedSettings(before.kind as ExportKind, patch, was, urlPolicy)
    const position = (await readHorizon(db)) - 1n
    const now = new Date(clock.now())
    return db.$transaction(async tx => {
      const { count } = await tx.logExport.updateMany({
        // Compare-and-set: the settings were checked as a whole.
        where: { id, organisationId, updatedAt: before.updatedAt },
        data: {
          ...settings,
          fields: settings.fields ?? Prisma.DbNull,
          credentials: sealer.seal(JSON.stringify(credentials), credentialsPlace(id)),
          ...(patch.enabled !== undefined && { pausedForFailures: false }),
          dueAt: now,
          updatedAt: new Date(Math.max(now.getTime(), before.updatedAt.getTime() + 1)),
        },
      })
      if (count === 0) return null
      await syncStreams(tx, before, settings.streams as Stream[], position, now)
      await tx.logExportCursor.updateMany({
        where: { exportId: id, status: 'running' },
        data: { attempts: 0, failingSince: null, nextAttemptAt: now },
      })
      const row = await find(tx, organisationId, id)
      const changes = changesBetween(fieldsOf(before), fieldsOf(row))
      if (patch.secret_access_key !== undefined) changes.secret_access_key = ['(secret)', '(changed)']
      if (patch.headers !== undefined) changes.header_values = ['(secret)', '(changed)']
      const target = { id, name: row.name }
      if (Object.keys(changes).length > 0)
        await audit(tx, { organisationId, actor, action: 'log_export.updated', target, changes })
      return row
    })
  }

  /** Deletes an export with its cursors. Throws 404. */
  async delete(organisationId: Owner, id: string, actor: Actor): Promise<void> {
    await this.#deps.db.$transaction(async tx => {
      const { name } = await find(tx, organisationId, id)
      await tx.logExport.delete({ where: { id } })
      await audit(tx, { organisationId, actor, action: 'log_export.deleted', target: { id, name } })
    })
  }

  /** Gives an export over HTTPS a new secret; the previous one also signs for 24 hours. Throws 400, 404. */
  async rollSecret(
    organisationId: Owner,
    id: string,
    actor: Actor,
    beside?: TransactionStep<CreatedExport>,
  ): Promise<CreatedExport> {
    const secret = newSigningSecret()
    return this.#deps.db.$transaction(async tx => {
      const before = await find(tx, organisationId, id)
      if (before.secret === null)
        throw new GatewayError('invalid_request', `Exports of the kind ${before.kind} are not signed.`)
      const sealed = this.#deps.sealer.seal(secret, secretPlace(id))
      const secretRotatedAt = new Date(this.#deps.clock.now())
      const data = { secret: sealed, previousSecret: before.secret, secretRotatedAt }
      await tx.logExport.update({ where: { id }, data })
      const row = await find(tx, organisationId, id)
      await audit(tx, { organisationId, actor, action: 'log_export.secret_rolled', target: { id, name: row.name } })
      await beside?.(tx, { row, secret })
      return { row, secret }
    })
  }

  /** The secrets that sign an export's batches now; null if they are not signed. */
  secretsOf(row: LogExport): WebhookSecrets | null {
    const { id, secret, previousSecret: previous, secretRotatedAt: rotatedAt } = row
    if (secret === null) return null
    const pair: SecretPair = { secret, previous, rotatedAt }
    return validSecrets(this.#deps.sealer, secretPlace(id), pair, this.#deps.clock.now())
  }

  /** Starts to deliver the rows of a window once more, beside the live streams. Throws 400, 403, 404. */
  async replay(organisationId: Owner, id: string, { from, to, ...body }: NewReplay, actor: Actor) {
    const nowMs = this.#deps.clock.now()
    const now = new Date(nowMs)
    const window = { replayFrom: new Date(from), replayTo: new Date(to) }
    if (window.replayTo <= window.replayFrom)
      throw new GatewayError('invalid_request', 'It must be after from.', { param: 'to' })
    if (window.replayTo.getTime() > nowMs)
      throw new GatewayError('invalid_request', 'It must not be in the future.', { param: 'to' })
    return this.#deps.db.$transaction(async tx => {
      const { name, streams, cursors } = await find(tx, organisationId, id)
      await tx.$executeRaw`SELECT 1 FROM log_exports WHERE id = ${id} FOR NO KEY UPDATE`
      const chosen = [...new Set(body.streams ?? (streams as Stream[]))]
      const running = cursors.filter(one => one.replayFrom !== null && one.status === 'running').length
      if (running + chosen.length > maxRunningReplays)
        throw new GatewayError('quota_exceeded', `At most ${maxRunningReplays} replays of an export can run at once.`)
      const position = BigInt(window.replayFrom.getTime())
      const data = chosen.map(stream => {
        return { ...newCursor(stream, position, now), ...window, exportId: id, id: newId('replay') }
      })
      const rows = await tx.logExportCursor.createManyAndReturn({ data })
      await tx.logExport.updateMany({ where: { id }, data: { dueAt: now } })
      const changes = changesBetween({}, { streams: chosen, from, to })
      await audit(tx, { organisationId, actor, action: 'log_export.replay_started', target: { id, name }, changes })
      return rows
    })
  }

  /** Ends a running replay. Throws 404. */
  async cancelReplay(organisationId: Owner, id: string, replayId: string, actor: Actor): Promise<LogExportCursor> {
    const now = new Date(this.#deps.clock.now())
    return this.#deps.db.$transaction(async tx => {
      const { name } = await find(tx, organisationId, id)
      const where = { id: replayId, exportId: id, replayFrom: { not: null } }
      const { count } = await tx.logExportCursor.updateMany({
        where: { ...where, status: 'running' },
        data: { status: 'cancelled', endedAt: now },
      })
      const target = { id, name }
      if (count === 1) await audit(tx, { organisationId, actor, action: 'log_export.replay_cancelled', target })
      const row = await tx.logExportCursor.findFirst({ where })
      if (!row) throw new GatewayError('not_found', `There is no replay ${replayId}.`)
      return row
    })
  }

  /** Re-encrypts the secrets of all exports with the current key. Returns how many exports changed. */
  async reseal(): Promise<number> {
    const { db, sealer } = this.#deps
    let changed = 0
    const reseal = (text: string | null, place: string) =>
      text === null || sealer.isCurrent(text) ? text : sealer.seal(sealer.open(text, place), place)
    for (let after = ''; ; ) {
      const rows = await db.logExport.findMany({
        where: { id: { gt: after } },
        orderBy: { id: 'asc' },
        take: resealedPerPage,
      })
      for (const { id, credentials, secret, previousSecret } of rows) {
        const data = {
          credentials: reseal(credentials, credentialsPlace(id)),
          secret: reseal(secret, secretPlace(id)),
          previousSecret: reseal(previousSecret, secretPlace(id)),
        }
        if (data.credentials === credentials && data.secret === secret && data.previousSecret === previousSecret)
          continue
        // Compare-and-set: a concurrent change has already used the current key.
        const { count } = await db.logExport.updateMany({ where: { id, credentials, secret, previousSecret }, data })
        changed += count
      }
      if (rows.length < resealedPerPage) return changed
      after = rows.at(-1)!.id
    }
  }
}

const resealedPerPage = 500
const secretPlace = (id: string) => `log_exports.secret:${id}`
const withCursors = {
  // "running" is the last one in the alphabet: live cursors are always among them.
  cursors: { orderBy: [{ status: 'desc' }, { createdAt: 'desc' }, { id: 'asc' }], take: maxListedCursors },
} satisfies Prisma.LogExportInclude

async function find(tx: Connection, organisationId: Owner, id: string): Promise<ExportWithCursors> {
  const row = await tx.logExport.findFirst({ where: { id, organisationId }, include: withCursors })
  if (!row) throw new GatewayError('not_found', `There is no log export ${id}.`)
  return row
}

function newCursor(stream: Stream, position: bigint, now: Date) {
  const maxRows = maxBatchRows[stream]
  return { id: newId('expc'), stream, position, maxRows, deliveredThrough: now, nextAttemptAt: now, createdAt: now }
}

/** Brings the live cursors in line with the chosen streams. */
async function syncStreams(
  tx: Connection,
  { id, streams: before }: LogExport,
  streams: Stream[],
  position: bigint,
  now: Date,
): Promise<void> {
  const removed = before.filter(stream => !streams.includes(stream as Stream))
  const added = streams.filter(stream => !before.includes(stream))
  await tx.logExportCursor.deleteMany({ where: { exportId: id, replayFrom: null, stream: { in: removed } } })
  await tx.logExportCursor.createMany({
    data: added.map(stream => ({ ...newCursor(stream, position, now), exportId: id })),
  })
}

/** The settings in the API's format, without secrets, for the audit log. */
export function fieldsOf(row: LogExport) {
  return {
    name: row.name,
    kind: row.kind,
    url: row.url,
    bucket: row.bucket,
    region: row.region,
    prefix: row.prefix,
    path_style: row.pathStyle,
    access_key_id: row.accessKeyId,
    headers: row.headerNames,
    format: row.format,
    gzip: row.gzip,
    streams: row.streams,
    environment: row.environment,
    fields: row.fields as Record<string, string[]> | null,
    interval_s: row.intervalS,
    enabled: row.enabled,
  }
}
