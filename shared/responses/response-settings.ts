import { GatewayError } from '../base/errors.ts'
import { elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Database } from '../io/db.ts'
import type { Platform } from '../platform.ts'

/** Whether an organisation's responses are stored, and for how many days. */
export type ResponseSettings = { keeps: boolean; retentionDays: number }

/** How long a process may act on the settings that it has read, for requests that do not ask for storage. */
const maxAgeMs = 30_000
const maxCached = 10_000

/** The storage settings of organisations, cached for requests that leave the choice to them. */
export class ResponseSettingsReader {
  readonly #db: Database
  readonly #monotonic: MonotonicClock
  readonly #maxDays: number
  readonly #cached = new Map<string, { keeps: boolean; readAtMs: MonotonicMs }>()

  constructor({ db, monotonic, maxDays }: { db: Database; monotonic: MonotonicClock; maxDays: number }) {
    this.#db = db
    this.#monotonic = monotonic
    this.#maxDays = maxDays
  }

  /** Whether responses are stored, as read in the last 30 seconds; undefined if it is not cached. */
  cached(organisationId: string): boolean | undefined {
    const found = this.#cached.get(organisationId)
    return found && elapsedMs(found.readAtMs, this.#monotonic.now()) < maxAgeMs ? found.keeps : undefined
  }

  /** Reads the settings from PostgreSQL. */
  async read(organisationId: string): Promise<ResponseSettings> {
    const row = await this.#db.organisation.findUnique({
      where: { id: organisationId },
      select: { keepResponses: true, responseRetentionDays: true },
    })
    const keeps = row?.keepResponses ?? false
    if (this.#cached.size >= maxCached) this.#cached.clear()
    this.#cached.set(organisationId, { keeps, readAtMs: this.#monotonic.now() })
    return { keeps, retentionDays: Math.min(row?.responseRetentionDays ?? this.#maxDays, this.#maxDays) }
  }
}

/** Whether an organisation stores responses, and for how many days; null = as long as the operator allows. */
export type ResponseSettingsFields = { keep_responses: boolean; response_retention_days: number | null }

const columns = { keepResponses: true, responseRetentionDays: true } as const

function fieldsOf(
  row: { keepResponses: boolean; responseRetentionDays: number | null } | null,
): ResponseSettingsFields {
  if (!row) throw new GatewayError('not_found', 'There is no such organisation.')
  return { keep_responses: row.keepResponses, response_retention_days: row.responseRetentionDays }
}

/** Gets an organisation's settings. Throws 404. */
export async function getResponseSettings({ db }: Platform, organisationId: string): Promise<ResponseSettingsFields> {
  return fieldsOf(await db.organisation.findUnique({ where: { id: organisationId }, select: columns }))
}

/** Updates the given settings, for responses from now on. Throws 400 for a retention beyond the operator's, 404. */
export async function updateResponseSettings(
  { db, config, responseSettings }: Pick<Platform, 'db' | 'config'> & { responseSettings: ResponseSettingsReader },
  organisationId: string,
  changed: { [Field in keyof ResponseSettingsFields]?: ResponseSettingsFields[Field] | undefined },
  actor: Actor,
): Promise<ResponseSettingsFields> {
  const { keep_responses: keeps, response_retention_days: days } = changed
  if ((days ?? 0) > config.responseRetentionDays) {
    const message = `\`response_retention_days\` must be at most ${config.responseRetentionDays} here.`
    throw new GatewayError('invalid_request', message, { param: 'response_retention_days' })
  }
  const where = { id: organisationId }
  const after = await db.$transaction(async tx => {
    const before = fieldsOf(await tx.organisation.findUnique({ where, select: columns }))
    const row = await tx.organisation.update({
      where,
      data: {
        ...(keeps !== undefined && { keepResponses: keeps }),
        ...(days !== undefined && { responseRetentionDays: days }),
      },
      select: columns,
    })
    const changes = changesBetween(before, fieldsOf(row))
    if (Object.keys(changes).length > 0)
      await audit(tx, { organisationId, actor, action: 'response_settings.changed', changes })
    return fieldsOf(row)
  })
  // This process acts on the change at once.
  await responseSettings.read(organisationId)
  return after
}
