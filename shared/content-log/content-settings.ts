import type { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { Organisation } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import { lockAllKeys } from '../io/organisation-locks.ts'
import {
  type ContentSetting,
  contentColumns,
  type contentSetting,
  presentContentSetting,
} from '../keys/content-logging.ts'
import type { Policies } from '../keys/policies.ts'

/** What an organisation says about the input and output of its keys. */
export type ContentSettingsFields = {
  /** For keys without a setting of their own; null = nothing. */
  content_logging: ContentSetting | null
  retention_days: number
  redact_emails: boolean
}

type Change = {
  content_logging?: z.output<typeof contentSetting> | undefined
  retention_days?: number | undefined
  redact_emails?: boolean | undefined
}

const columns = {
  contentMode: true,
  contentPercent: true,
  contentUntil: true,
  contentRetentionDays: true,
  contentRedactEmails: true,
} as const

function fieldsOf(row: Pick<Organisation, keyof typeof columns> | null): ContentSettingsFields {
  if (!row) throw new GatewayError('not_found', 'There is no such organisation.')
  return {
    content_logging: presentContentSetting(row),
    retention_days: row.contentRetentionDays,
    redact_emails: row.contentRedactEmails,
  }
}

/** Gets an organisation's settings. Throws 404. */
export async function getContentSettings(
  { db }: { db: Database },
  organisationId: string,
): Promise<ContentSettingsFields> {
  return fieldsOf(await db.organisation.findUnique({ where: { id: organisationId }, select: columns }))
}

/** Updates the given settings, for requests from now on, with their audit event. Throws 400 that names the field, 404. */
export async function updateContentSettings(
  { db, policies, clock }: { db: Database; policies: Policies; clock: Clock },
  organisationId: string,
  { content_logging: logging, retention_days: days, redact_emails: redacts }: Change,
  actor: Actor,
): Promise<ContentSettingsFields> {
  const where = { id: organisationId }
  const data = {
    ...(logging !== undefined && contentColumns(logging, clock.now())),
    ...(days !== undefined && { contentRetentionDays: days }),
    ...(redacts !== undefined && { contentRedactEmails: redacts }),
  }
  const { fields } = await policies.applyDefault(organisationId, () =>
    db.$transaction(async tx => {
      await lockAllKeys(tx, organisationId)
      const before = fieldsOf(await tx.organisation.findUnique({ where, select: columns }))
      const fields = fieldsOf(await tx.organisation.update({ where, data, select: columns }))
      const changes = changesBetween(before, fields)
      if (Object.keys(changes).length > 0)
        await audit(tx, { organisationId, actor, action: 'content_settings.changed', changes })
      return { fields, hashes: logging === undefined ? [] : await renewFollowers(tx, organisationId) }
    }),
  )
  return fields
}

/** Increments the versions of the keys that follow their organisation; returns their hashes. */
async function renewFollowers(tx: Connection, organisationId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ hash: string }[]>`
    UPDATE api_keys SET version = version + 1
    WHERE organisation_id = ${organisationId} AND content_mode IS NULL AND revoked_at IS NULL RETURNING hash`
  return rows.map(({ hash }) => hash)
}
