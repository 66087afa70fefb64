import {
  type ClaimedMessage,
  claimMessages,
  type MessageOutcome,
  prepareMessages,
  recordMessage,
  writeMessage,
} from '../shared/alerts/incident-messages.ts'
import {
  listDestinations,
  openOperatorSlackUrl,
  operatorWebhookSecrets,
  quietUntilMs,
  readNotifications,
} from '../shared/alerts/operator-notifications.ts'
import type { OperatorNotifications } from '../shared/generated/prisma/client.ts'
import { isSuccess } from '../shared/io/http.ts'
import { isRefusedRecipient } from '../shared/io/mail.ts'
import { PinnedPools } from '../shared/io/pinned-pools.ts'
import { assertPublicUrl } from '../shared/io/safe-url.ts'
import type { Platform } from '../shared/platform.ts'
import { failedReply, postWebhook } from '../shared/webhooks/post.ts'
import { newestFirst, signatureHeaders } from '../shared/webhooks/secrets.ts'
import { type Post, slackMessage } from '../shared/webhooks/slack.ts'

const timeoutMs = 15_000
const connectTimeoutMs = 5_000
const maxRounds = 10
const maxErrorLength = 500

/** Prepares the messages about incidents that are due and sends them to operators. Returns how many were delivered. */
export async function sendIncidentMessages(services: Platform): Promise<number> {
  await prepareMessages(services)
  const pools = new PinnedPools(connectTimeoutMs, services.urlPolicy.proxies)
  let delivered = 0
  try {
    for (let round = 0; round < maxRounds; round++) {
      const claimed = await claimMessages(services)
      if (claimed.length === 0) break
      const settings = await readNotifications(services.db)
      const outcomes = await Promise.all(claimed.map(message => sendAndRecord(services, settings, message, pools)))
      delivered += outcomes.filter(({ state }) => state === 'delivered').length
    }
  } finally {
    await pools.close()
  }
  return delivered
}

async function sendAndRecord(
  services: Platform,
  settings: OperatorNotifications,
  message: ClaimedMessage,
  pools: PinnedPools,
): Promise<MessageOutcome> {
  const outcome = await send(services, settings, message, pools)
  await recordMessage(services, message.row, outcome)
  if (outcome.state === 'failed') {
    const { id, channel, attempts } = message.row
    services.log.warn({ message: id, channel, attempts, error: outcome.error }, 'operators not told of an incident')
  }
  return outcome
}

async function send(
  services: Platform,
  settings: OperatorNotifications,
  message: ClaimedMessage,
  pools: PinnedPools,
): Promise<MessageOutcome> {
  const { row, incident } = message
  const { channel, event, target } = row
  if (event !== 'test') {
    if (!incident) return { state: 'skipped', reason: 'The incident was deleted.' }
    if (event === 'opened' && incident.closedAt !== null)
      return {
        state: 'skipped',
        reason: 'It was over before it could be told; the message that it is resolved tells it.',
      }
    // Quiet hours do not apply to webhooks: the receiver schedules its own alerts.
    const untilMs = channel === 'webhook' ? null : quietUntilMs(settings, services.clock.now())
    if (untilMs !== null) return { state: 'postponed', untilMs }
  }
  const destinations = await listDestinations(services.db, settings, channel as 'email')
  if (!destinations.some(one => one.target === target))
    return { state: 'skipped', reason: 'It is no recipient any more.' }
  return channel === 'email' ? sendEmail(services, settings, message) : post(services, settings, message, pools)
}

async function sendEmail(
  { mailer, config }: Platform,
  settings: OperatorNotifications,
  message: ClaimedMessage,
): Promise<MessageOutcome> {
  if (!mailer.isConfigured) return { state: 'failed', error: 'SMTP_URL is not set.', isFinal: true }
  const { subject, text, path, label } = writeMessage(message, settings)
  const link = { label, url: `${config.publicUrl}/dashboard${path}` }
  try {
    await mailer.send({ to: message.row.target, subject, text, link })
    return { state: 'delivered' }
  } catch (error) {
    const text = (error as Error).message.slice(0, maxErrorLength)
    return { state: 'failed', error: text, isFinal: isRefusedRecipient(error) }
  }
}

async function post(
  { urlPolicy, sealer, config, clock }: Platform,
  settings: OperatorNotifications,
  message: ClaimedMessage,
  pools: PinnedPools,
): Promise<MessageOutcome> {
  let request: Post
  if (message.row.channel === 'slack') {
    const { subject, text, path } = writeMessage(message, settings)
    const link = `${config.publicUrl}/dashboard${path}`
    request = slackMessage(openOperatorSlackUrl(sealer, settings)!, { subject, text, link })
  } else {
    const nowMs = clock.now()
    const secrets = newestFirst(operatorWebhookSecrets(sealer, settings, nowMs)!)
    request = webhook(message, { url: settings.webhookUrl!, secrets, publicUrl: config.publicUrl, nowMs })
  }
  const target = await assertPublicUrl(request.url, urlPolicy).catch(failedReply)
  const reply = 'error' in target ? target : await postWebhook(request, target, pools, { timeoutMs, passedMs: 0 })
  const { status, error } = reply
  if (status !== null && isSuccess(status)) return { state: 'delivered' }
  return { state: 'failed', error: error ?? `HTTP ${status}`, isFinal: status === 410 }
}

/** The webhook of a message, signed as those of organisations; its id is the same on every attempt. */
function webhook(
  { row, incident }: ClaimedMessage,
  { url, secrets, publicUrl, nowMs }: { url: string; secrets: string[]; publicUrl: string; nowMs: number },
): Post {
  const data = incident
    ? {
        object: 'incident',
        id: incident.id,
        title: incident.title,
        provider: incident.provider,
        models: incident.models,
        message: incident.message,
        opened_at: incident.openedAt.toISOString(),
        closed_at: incident.closedAt?.toISOString() ?? null,
        url: `${publicUrl}/dashboard/operator/incidents/${incident.id}`,
      }
    : { object: 'incident', test: true }
  const body = JSON.stringify({ type: `incident.${row.event}`, timestamp: row.createdAt.toISOString(), data })
  const signed = signatureHeaders(secrets, row.id, nowMs, body)
  const headers = { 'content-type': 'application/json', 'user-agent': 'headgate', ...signed }
  return { url, headers, body }
}
