import { GatewayError } from '../base/errors.ts'
import { type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import { type Actor, audit, changesBetween } from '../keys/audit.ts'
import type { Services } from '../services.ts'

/** Where an organisation's alerts go, and when its balance counts as low; null = nowhere, and never. */
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

/** How an organisation wants its alerts. Throws 404. */
export async function alertSettings({ db }: Services, organisationId: string): Promise<AlertFields> {
  return fieldsOf(await db.organisation.findUnique({ where: { id: organisationId }, select: columns }))
}

/** Changes some of it. Throws 400 `url_not_allowed`, 404. */
export async function changeAlertSettings(
  { db, door }: Services,
  organisationId: string,
  { alert_webhook_url: url, low_balance_usd: usd }: { [Field in keyof AlertFields]?: AlertFields[Field] | undefined },
  actor: Actor,
): Promise<AlertFields> {
  if (url) await assertPublicUrl(url, { ...door, param: 'alert_webhook_url' })
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
