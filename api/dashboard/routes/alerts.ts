import { z } from 'zod'
import { listAlertRecipients } from '../../../shared/alerts/emails.ts'
import { type AlertFields, getAlertSettings, updateAlertSettings } from '../../../shared/alerts/settings.ts'
import type { Services } from '../../../shared/services.ts'
import { endpoint } from '../../endpoint.ts'
import type { AlertSettings } from '../wire/webhooks.ts'

const shared = {
  tag: 'Dashboard',
  path: '/dashboard/api/organisations/{organisation}/alerts',
  access: { role: 'admin' },
} as const

async function present({ db }: Services, organisationId: string, fields: AlertFields): Promise<AlertSettings> {
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

export const alertsRoutes = [readAlerts, patchAlerts]
