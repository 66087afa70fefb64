import { GatewayError } from '../base/errors.ts'
import { type Actor, audit, changesBetween } from '../keys/audit.ts'
import type { Services } from '../services.ts'

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
export async function getResponseSettings({ db }: Services, organisationId: string): Promise<ResponseSettingsFields> {
  return fieldsOf(await db.organisation.findUnique({ where: { id: organisationId }, select: columns }))
}

/** Updates the given settings, for responses from now on. Throws 400 for a retention beyond the operator's, 404. */
export async function updateResponseSettings(
  { db, config, responseSettings }: Services,
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
