import { z } from 'zod'
import { type AlertFields, getAlertSettings, updateAlertSettings } from '../../../shared/alerts/alert-settings.ts'
import { type EmailTo, listAlertRecipients } from '../../../shared/alerts/emails.ts'
import { alertPath, formatAlertEmail } from '../../../shared/alerts/templates.ts'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { Alert } from '../../../shared/generated/prisma/client.ts'
import type { Database } from '../../../shared/io/db.ts'
import { rowsAfter } from '../../../shared/io/keyset.ts'
import type { Platform } from '../../../shared/platform.ts'
import { endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import type { AlertSettings, AlertsAnswer, RaisedAlert } from '../wire/alerts.ts'

const shared = {
  tag: 'Dashboard',
  path: '/dashboard/api/organisations/{organisation}/alerts',
  access: { permission: 'manage' },
} as const

async function present({ db }: Platform, organisationId: string, fields: AlertFields): Promise<AlertSettings> {
  return { ...fields, email_to: await listAlertRecipients(db, organisationId) }
}

const readAlerts = endpoint({
  ...shared,
  method: 'get',
  summary: 'Retrieve alert settings',
  answers: { 200: { description: 'The settings.' } },
  async handle({ services, organisationId }): Promise<AlertSettings> {
    return present(services, organisationId, await getAlertSettings(services, organisationId))
  },
})

const patchAlerts = endpoint({
  ...shared,
  method: 'patch',
  summary: 'Update alert settings',
  body: z.strictObject({
    alert_webhook_url: z.string().min(1).max(2_048).nullish(),
    low_balance_usd: z.number().min(0).max(1_000_000).nullish(),
  }),
  answers: { 200: { description: 'The updated settings.' } },
  errors: ['url_not_allowed'],
  async handle({ services, organisationId, body, actor }): Promise<AlertSettings> {
    return present(services, organisationId, await updateAlertSettings(services, organisationId, body, actor))
  },
})

function presentAlert(alert: Alert, organisation: string): RaisedAlert {
  const { id, type, createdAt, emailedAt } = alert
  const to = alert.emailTo as EmailTo | null
  const hasEmail = to === null || !('roles' in to) || to.roles.length > 0
  return {
    id,
    type,
    summary: formatAlertEmail(alert, organisation, '').subject,
    path: alertPath(alert),
    created_at: createdAt.toISOString(),
    has_email: hasEmail,
    emailed_at: hasEmail ? (emailedAt?.toISOString() ?? null) : null,
  }
}

const listAlerts = endpoint({
  ...shared,
  access: { permission: 'use' },
  method: 'get',
  path: `${shared.path}/history`,
  summary: 'List the alerts that were raised',
  query: z.strictObject({ limit: paging.limit, after: paging.after }),
  answers: { 200: { description: 'A page of alerts, newest first.' } },
  errors: ['not_found'],
  async handle({ services: { db }, organisationId, query }): Promise<AlertsAnswer> {
    const { name } = await db.organisation.findUniqueOrThrow({ where: { id: organisationId } })
    return readPage(
      { ...query, order: 'desc' },
      ({ limit, after }) => listRaised(db, organisationId, limit, after),
      async rows => rows.map(row => presentAlert(row, name)),
    )
  },
})

/** A page of alerts, newest first. `after` is an alert's id. Throws 404 for an unknown one. */
async function listRaised(db: Database, organisationId: string, limit: number, after?: string): Promise<Alert[]> {
  const last = after === undefined ? null : await db.alert.findFirst({ where: { id: after, organisationId } })
  if (after !== undefined && !last) throw new GatewayError('not_found', `There is no alert ${after}.`)
  return db.alert.findMany({
    where: {
      organisationId,
      ...(last && rowsAfter(last)),
    },
    orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
    take: limit,
  })
}

export const alertsRoutes = [readAlerts, patchAlerts, listAlerts]
