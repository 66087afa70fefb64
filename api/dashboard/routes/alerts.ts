import { z } from 'zod'
import { alertRecipients } from '../../../shared/alerts/emails.ts'
import { type AlertFields, alertSettings, changeAlertSettings } from '../../../shared/alerts/settings.ts'
import type { Services } from '../../../shared/services.ts'
import { endpoint } from '../../endpoint.ts'
import type { AlertSettings } from '../wire/webhooks.ts'

const shared = {
  tag: 'Dashboard',
  path: '/dashboard/api/organisations/{organisation}/alerts',
  access: { role: 'admin' },
} as const

async function present({ db }: Services, organisationId: string, fields: AlertFields): Promise<AlertSettings> {
  return { ...fields, email_to: await alertRecipients(db, organisationId) }
}

const readAlerts = endpoint({
  ...shared,
  method: 'get',
  summary: 'Where alerts go, and when the balance counts as low',
  answers: { 200: { description: 'The settings.' } },
  async handle({ services, organisationId }): Promise<AlertSettings> {
    return present(services, organisationId, await alertSettings(services, organisationId))
  },
})

const patchAlerts = endpoint({
  ...shared,
  method: 'patch',
  summary: 'Change where alerts go, and when the balance counts as low',
  body: z.strictObject({
    alert_webhook_url: z.string().min(1).max(2_048).nullish(),
    low_balance_usd: z.number().min(0).max(1_000_000).nullish(),
  }),
  answers: { 200: { description: 'The settings as they are now.' } },
  errors: ['url_not_allowed'],
  async handle({ services, organisationId, body, actor }): Promise<AlertSettings> {
    return present(services, organisationId, await changeAlertSettings(services, organisationId, body, actor))
  },
})

export const alertsRoutes = [readAlerts, patchAlerts]
