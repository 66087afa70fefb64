import { z } from 'zod'
import type { WebhookAttempt, WebhookDelivery } from '../../shared/generated/prisma/client.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { getWebhookSecrets, rotateWebhookSecret, type WebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { findOrganisation, number, org } from './flags.ts'
import { type Command, command } from './parse.ts'

const maxListed = 1_000
const delivery = z.string().regex(/^evt_\w+$/, 'must be the delivery’s id (evt_…)')

const secretsShown = ({ secret, previous, previousUntil }: WebhookSecrets) => ({
  data: { secret, previous_secret: previous, previous_valid_until: previousUntil?.toISOString() ?? null },
  text: secret,
})

const record = (row: WebhookDelivery) => ({
  id: row.id,
  job: row.jobId,
  type: row.type,
  url: row.url,
  status: row.status,
  attempts: row.attempts,
  next_attempt_at: row.status === 'pending' ? row.nextAttemptAt.toISOString() : null,
  created_at: row.createdAt.toISOString(),
  delivered_at: row.deliveredAt?.toISOString() ?? null,
})

const attemptRecord = ({ number, at, durationMs, status, error, response }: WebhookAttempt) => ({
  number,
  at: at.toISOString(),
  duration_ms: durationMs,
  status,
  error,
  response,
})

const line = (row: WebhookDelivery) =>
  `${row.id}  ${row.createdAt.toISOString()}  ${row.status.padEnd(9)}  ${row.type}  ${row.jobId}  ${row.url}`
const attemptLine = (row: WebhookAttempt) =>
  `  ${row.number}  ${row.at.toISOString()}  ${row.durationMs} ms  ${row.status ?? row.error}`

export const webhooks: Command[] = [
  command({
    name: 'webhook-secret show',
    summary: 'Prints the secret that signs the webhooks of an organisation.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    run: async (services, { org }) => secretsShown(await getWebhookSecrets(services, org, services.clock.now())),
  }),
  command({
    name: 'webhook-secret rotate',
    summary: 'Replaces the secret that signs the webhooks of an organisation, and prints the new one.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    run: async (services, { org }) =>
      secretsShown(await rotateWebhookSecret(services, org, operatorActor, services.clock.now())),
  }),
  command({
    name: 'webhook list',
    summary: 'Lists the latest webhook deliveries of an organisation.',
    help: '--org ID [--status pending|delivered|failed] [--limit N]',
    flags: z.strictObject({
      org,
      status: z.enum(['pending', 'delivered', 'failed']).optional(),
      limit: number.pipe(z.int().min(1).max(maxListed)).default(20),
    }),
    async run(services, { org, status, limit }) {
      await findOrganisation(services, org)
      const rows = await services.webhooks.list(org, { limit, ...(status && { status }) })
      return { data: { data: rows.map(record) }, text: rows.map(line).join('\n') || 'No deliveries.' }
    },
  }),
  command({
    name: 'webhook show',
    summary: 'Shows a webhook delivery with its attempts.',
    help: '--delivery evt_…',
    flags: z.strictObject({ delivery }),
    async run({ webhooks }, { delivery }) {
      const row = await webhooks.show(null, delivery)
      const data = { ...record(row), log: row.log.map(attemptRecord) }
      return { data: { data }, text: [line(row), ...row.log.map(attemptLine)].join('\n') }
    },
  }),
  command({
    name: 'webhook redeliver',
    summary: 'Sends a webhook event again.',
    help: '--delivery evt_…',
    flags: z.strictObject({ delivery }),
    async run({ webhooks }, { delivery }) {
      const row = await webhooks.redeliver(null, delivery)
      return { data: { data: record(row) }, text: line(row) }
    },
  }),
]
