import { isDeepStrictEqual } from 'node:util'
import { GatewayError } from '../base/errors.ts'
import type { OperatorNotifications } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import type { Platform } from '../platform.ts'
import { newSigningSecret, validSecrets, type WebhookSecrets } from '../webhooks/secrets.ts'
import type { Topic } from './incident-groups.ts'

const id = 'operators'
const shownCharacters = 4
const maxOperators = 50
const minuteMs = 60_000
const minutesPerDay = 1_440

/** How operators are told of incidents, without secrets. */
type NotificationFields = {
  email_operators: boolean
  emails: string[]
  webhook_url: string | null
  /** The last characters of Slack's URL; null = none. */
  slack_end: string | null
  quiet_from: string | null
  quiet_to: string | null
  time_zone: string
  topics: Topic[]
}

/** A change; absent = unchanged. */
type NotificationPatch = {
  [Field in Exclude<keyof NotificationFields, 'slack_end'>]?: NotificationFields[Field] | undefined
} & { slack_url?: string | null | undefined }

export type NotificationChannel = 'email' | 'webhook' | 'slack'
/** Where a message goes. `target` names an address, or the host of a URL, which may contain a secret. */
type Destination = { channel: NotificationChannel; target: string }

const placeOf = (column: 'webhook_secret' | 'slack_url') => `operator_notifications.${column}`
const initial: OperatorNotifications = {
  id,
  emailOperators: true,
  emails: [],
  webhookUrl: null,
  slackUrl: null,
  slackEnd: null,
  webhookSecret: null,
  previousWebhookSecret: null,
  webhookSecretRotatedAt: null,
  quietFrom: null,
  quietTo: null,
  timeZone: 'UTC',
  topics: ['providers', 'service'],
}

/** Reads how operators are told; until somebody changes it, each operator gets emails. */
export async function readNotifications(db: Connection): Promise<OperatorNotifications> {
  return (await db.operatorNotifications.findUnique({ where: { id } })) ?? initial
}

/** The settings as they are shown. */
export function presentNotifications(row: OperatorNotifications): NotificationFields {
  return {
    email_operators: row.emailOperators,
    emails: row.emails,
    webhook_url: row.webhookUrl,
    slack_end: row.slackEnd,
    quiet_from: row.quietFrom,
    quiet_to: row.quietTo,
    time_zone: row.timeZone,
    topics: row.topics as Topic[],
  }
}

/** Updates the given settings, audited. Throws 400, `url_not_allowed` among them. */
export async function updateNotifications(
  { db, sealer, urlPolicy }: Platform,
  patch: NotificationPatch,
  actor: Actor,
): Promise<NotificationFields> {
  const { webhook_url: webhook, slack_url: slack } = patch
  if (webhook) await assertPublicUrl(webhook, { ...urlPolicy, param: 'webhook_url' })
  const slackHref = slack ? (await assertPublicUrl(slack, { ...urlPolicy, param: 'slack_url' })).url.href : null
  return db.$transaction(async tx => {
    // One change at a time: the row may not exist yet.
    await tx.operatorNotifications.createMany({ data: [initial], skipDuplicates: true })
    await tx.$queryRaw`SELECT id FROM operator_notifications WHERE id = ${id} FOR UPDATE`
    const row = await readNotifications(tx)
    const data = {
      ...(patch.email_operators !== undefined && { emailOperators: patch.email_operators }),
      ...(patch.emails !== undefined && { emails: [...new Set(patch.emails)] }),
      ...(webhook !== undefined && { webhookUrl: webhook }),
      ...(webhook && !row.webhookSecret && { webhookSecret: sealSecret(sealer) }),
      ...(slack !== undefined && {
        slackUrl: slackHref && sealer.seal(slackHref, placeOf('slack_url')),
        slackEnd: slackHref?.slice(-shownCharacters) ?? null,
      }),
      ...(patch.quiet_from !== undefined && { quietFrom: patch.quiet_from }),
      ...(patch.quiet_to !== undefined && { quietTo: patch.quiet_to }),
      ...(patch.time_zone !== undefined && { timeZone: patch.time_zone }),
      ...(patch.topics !== undefined && { topics: [...new Set(patch.topics)] }),
    }
    const { quietFrom, quietTo } = { ...row, ...data }
    if ((quietFrom === null) !== (quietTo === null) || (quietFrom !== null && quietFrom === quietTo))
      throw new GatewayError('invalid_request', 'Quiet hours need a beginning and another end.', { param: 'quiet_to' })
    const after = await tx.operatorNotifications.update({ where: { id }, data })
    const changes = changesBetween(auditable(row), auditable(after))
    if (Object.keys(changes).length > 0)
      await audit(tx, { organisationId: null, actor, action: 'operator_notifications.changed', changes })
    return presentNotifications(after)
  })
}

/** A path or query may contain a secret of the receiver, as the whole URL of Slack does. */
function auditable(row: OperatorNotifications) {
  const fields = presentNotifications(row)
  return {
    ...fields,
    emails: fields.emails.join(', '),
    topics: fields.topics.join(', '),
    webhook_url: fields.webhook_url && new URL(fields.webhook_url).origin,
  }
}

const sealSecret = (sealer: Sealer) => sealer.seal(newSigningSecret(), placeOf('webhook_secret'))

/** The secrets that sign webhooks to operators now; null before there was a URL. */
export function operatorWebhookSecrets(
  sealer: Sealer,
  { webhookSecret, previousWebhookSecret: previous, webhookSecretRotatedAt: rotatedAt }: OperatorNotifications,
  nowMs: number,
): WebhookSecrets | null {
  if (webhookSecret === null) return null
  return validSecrets(sealer, placeOf('webhook_secret'), { secret: webhookSecret, previous, rotatedAt }, nowMs)
}

/** The URL of Slack; null without one. */
export function openOperatorSlackUrl(sealer: Sealer, { slackUrl }: OperatorNotifications): string | null {
  return slackUrl === null ? null : sealer.open(slackUrl, placeOf('slack_url'))
}

/**
 * Replaces the secret that signs webhooks to operators, audited; the previous one also signs for 24 hours. Throws 400 without a URL.
 */
export async function rollWebhookSecret({ db, sealer, clock }: Platform, actor: Actor): Promise<WebhookSecrets> {
  const nowMs = clock.now()
  const row = await db.$transaction(async tx => {
    await tx.$queryRaw`SELECT id FROM operator_notifications WHERE id = ${id} FOR UPDATE`
    const { webhookUrl, webhookSecret } = await readNotifications(tx)
    if (webhookUrl === null)
      throw new GatewayError('invalid_request', 'There is no webhook URL.', { param: 'webhook_url' })
    await audit(tx, { organisationId: null, actor, action: 'operator_notifications.secret_rolled' })
    const data = {
      webhookSecret: sealSecret(sealer),
      previousWebhookSecret: webhookSecret,
      webhookSecretRotatedAt: new Date(nowMs),
    }
    return tx.operatorNotifications.update({ where: { id }, data })
  })
  return operatorWebhookSecrets(sealer, row, nowMs)!
}

/** Re-encrypts the secrets with the current key; returns whether any changed. */
export async function resealNotifications({ db, sealer }: Pick<Platform, 'db' | 'sealer'>): Promise<boolean> {
  const { webhookSecret, previousWebhookSecret, slackUrl } = await readNotifications(db)
  const reseal = (text: string | null, place: string) =>
    text === null || sealer.isCurrent(text) ? text : sealer.seal(sealer.open(text, place), place)
  const before = { webhookSecret, previousWebhookSecret, slackUrl }
  const data = {
    webhookSecret: reseal(webhookSecret, placeOf('webhook_secret')),
    previousWebhookSecret: reseal(previousWebhookSecret, placeOf('webhook_secret')),
    slackUrl: reseal(slackUrl, placeOf('slack_url')),
  }
  if (isDeepStrictEqual(data, before)) return false
  // Compare-and-set: a concurrent change has already used the current key.
  return (await db.operatorNotifications.updateMany({ where: { id, ...before }, data })).count > 0
}

/** Where messages go, all channels, or those of one. */
export async function listDestinations(
  db: Connection,
  row: OperatorNotifications,
  only?: NotificationChannel,
): Promise<Destination[]> {
  const operators = row.emailOperators
    ? await db.user.findMany({
        where: { operator: true, emailVerified: true },
        select: { email: true },
        orderBy: { email: 'asc' },
        take: maxOperators,
      })
    : []
  const emails = [...new Set([...operators.map(({ email }) => email), ...row.emails])]
  const all: Destination[] = [
    ...emails.map(target => ({ channel: 'email', target }) as const),
    ...(row.webhookUrl ? [{ channel: 'webhook', target: new URL(row.webhookUrl).host } as const] : []),
    ...(row.slackEnd ? [{ channel: 'slack', target: `…${row.slackEnd}` } as const] : []),
  ]
  return all.filter(({ channel }) => only === undefined || channel === only)
}

/**
 * When the quiet hours that last now end; null outside of them. Across a change of the clocks of the time zone it is off by an hour:
 * whoever waits asks again.
 */
export function quietUntilMs(row: OperatorNotifications, nowMs: number): number | null {
  const { quietFrom, quietTo, timeZone } = row
  if (quietFrom === null || quietTo === null) return null
  const options = { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
  const [now, from, to] = [new Intl.DateTimeFormat('en-GB', options).format(nowMs), quietFrom, quietTo].map(minutesOf)
  const isQuiet = from! < to! ? now! >= from! && now! < to! : now! >= from! || now! < to!
  if (!isQuiet) return null
  const leftMinutes = (to! - now! + minutesPerDay) % minutesPerDay
  return Math.floor(nowMs / minuteMs) * minuteMs + leftMinutes * minuteMs
}

function minutesOf(time: string): number {
  const [hours, minutes] = time.split(':').map(Number)
  return hours! * 60 + minutes!
}
