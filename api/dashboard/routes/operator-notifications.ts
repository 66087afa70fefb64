import { z } from 'zod'
import { topics } from '../../../shared/alerts/incident-groups.ts'
import { prepareTest } from '../../../shared/alerts/incident-messages.ts'
import {
  listDestinations,
  operatorWebhookSecrets,
  presentNotifications,
  readNotifications,
  rollWebhookSecret,
  updateNotifications,
} from '../../../shared/alerts/operator-notifications.ts'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { WebhookSecrets } from '../../../shared/webhooks/secrets.ts'
import { assertRateLimit } from '../../auth/limits.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import type { IncidentMessage, NotificationsAnswer, NotificationsSecret } from '../wire/operator-home.ts'
import { presentMessage } from './operator-incidents.ts'

const path = '/dashboard/api/operator/notifications'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const maxMessages = 50
const maxEmails = 20
/** Test messages of the whole service in an hour. */
const tests = { windowS: 3_600, max: 30 }

const time = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time like 22:00')
const url = z.string().min(1).max(2_048).nullable()
const patch = z.strictObject({
  email_operators: z.boolean().optional(),
  emails: z.array(z.email().max(254)).max(maxEmails).optional(),
  webhook_url: url.optional(),
  slack_url: url.optional(),
  quiet_from: time.nullable().optional(),
  quiet_to: time.nullable().optional(),
  time_zone: z.string().max(64).refine(isTimeZone, 'must be a time zone like Europe/Berlin').optional(),
  topics: z.array(z.enum(topics)).max(topics.length).optional(),
})

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== null
  } catch {
    return false
  }
}

const read = endpoint({
  ...shared,
  method: 'get',
  path,
  summary: 'Retrieve how operators are told of incidents, and the latest messages',
  answers: { 200: { description: 'The settings and messages.' } },
  handle: ({ services }): Promise<NotificationsAnswer> => readAnswer(services),
})

const update = endpoint({
  ...shared,
  method: 'patch',
  path,
  summary: 'Change how operators are told of incidents',
  body: patch,
  answers: { 200: { description: 'The settings and messages.' } },
  async handle({ services, body, actor }): Promise<NotificationsAnswer> {
    await updateNotifications(services, body, actor)
    return readAnswer(services)
  },
})

const secret = endpoint({
  ...shared,
  method: 'get',
  path: `${path}/secret`,
  summary: 'Retrieve the secret that signs webhooks to operators',
  answers: { 200: { description: 'The secret.' } },
  errors: ['not_found'],
  async handle({ services }): Promise<NotificationsSecret> {
    const { db, sealer, clock } = services
    const found = operatorWebhookSecrets(sealer, await readNotifications(db), clock.now())
    if (found === null) throw new GatewayError('not_found', 'There is no secret before there is a webhook URL.')
    return presentSecrets(found)
  },
})

const roll = endpoint({
  ...shared,
  method: 'post',
  path: `${path}/secret`,
  summary: 'Replace the secret that signs webhooks to operators; the previous one signs as well for 24 hours',
  answers: { 200: { description: 'The new secret.' } },
  async handle({ services, actor }): Promise<NotificationsSecret> {
    return presentSecrets(await rollWebhookSecret(services, actor))
  },
})

function presentSecrets({ secret, previousUntil }: WebhookSecrets): NotificationsSecret {
  return { secret, previous_valid_until: previousUntil?.toISOString() ?? null }
}

const test = endpoint({
  ...shared,
  method: 'post',
  path: `${path}/test`,
  summary: 'Send a test of one channel to operators',
  body: z.strictObject({ channel: z.enum(['email', 'webhook', 'slack']) }),
  answers: { 200: { description: 'The messages, which workers send within seconds.' } },
  async handle({ services, body }): Promise<{ data: IncidentMessage[] }> {
    await assertRateLimit(services.redis, 'operator-test', tests, `At most ${tests.max} tests can be sent in an hour.`)
    const ids = await prepareTest(services, body.channel)
    const rows = await services.db.incidentMessage.findMany({ where: { id: { in: ids } } })
    return { data: rows.map(presentMessage) }
  },
})

async function readAnswer({ db, mailer }: Platform): Promise<NotificationsAnswer> {
  const row = await readNotifications(db)
  const [emails, messages] = await Promise.all([
    listDestinations(db, row, 'email'),
    db.incidentMessage.findMany({ orderBy: [{ createdAt: 'desc' }, { id: 'desc' }], take: maxMessages }),
  ])
  return {
    settings: presentNotifications(row),
    recipients: emails.map(({ target }) => target),
    has_mail_server: mailer.isConfigured,
    messages: messages.map(presentMessage),
  }
}

export const operatorNotificationRoutes: Endpoint[] = [read, update, secret, roll, test]
