import { GatewayError } from '../base/errors.ts'
import { type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { Platform } from '../platform.ts'

/** An organisation's webhook URL for alerts, and its low-balance threshold; null = none. */
export type AlertFields = { alert_webhook_url: string | null; low_balance_usd: number | null }

const columns = { alertWebhookUrl: true, lowBalanceNano: true } as const

function fieldsOf(row: { alertWebhookUrl: string | null; lowBalanceNano: Nano | null } | null): AlertFields {
  if (!row) throw new GatewayError('not_found', 'There is no such organisation.')
  const { alertWebhookUrl, lowBalanceNano } = row
  return {
    alert_webhook_url: alertWebhookUrl,
    low_balance_usd: lowBalanceNano === null ? null : usdFromNano(lowBalanceNano),
  }
}

/** Gets an organisation's alert settings. Throws 404. */
export async function getAlertSettings({ db }: Platform, organisationId: string): Promise<AlertFields> {
  return fieldsOf(await db.organisation.findUnique({ where: { id: organisationId }, select: columns }))
}

/** Updates the given alert settings. Throws 400 `url_not_allowed`, 404. */
export async function updateAlertSettings(
  { db, urlPolicy }: Platform,
  organisationId: string,
  { alert_webhook_url: url, low_balance_usd: usd }: { [Field in keyof AlertFields]?: AlertFields[Field] | undefined },
  actor: Actor,
): Promise<AlertFields> {
  if (url) await assertPublicUrl(url, { ...urlPolicy, param: 'alert_webhook_url' })
  const where = { id: organisationId }
  return db.$transaction(async tx => {
    const before = fieldsOf(await tx.organisation.findUnique({ where, select: columns }))
    const row = await tx.organisation.update({
      where,
      data: {
        ...(url !== undefined && { alertWebhookUrl: url }),
        ...(usd !== undefined && { lowBalanceNano: usd === null ? null : nanoFromUsd(usd) }),
      },
      select: columns,
    })
    const after = fieldsOf(row)
    const changes = changesBetween(before, after)
    if (Object.keys(changes).length > 0)
      await audit(tx, { organisationId, actor, action: 'alert_settings.changed', changes })
    return after
  })
}
