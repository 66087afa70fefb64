import { rolesWith } from '../base/roles.ts'
import { addMs, hourMs } from '../base/time.ts'
import type { Alert, Organisation } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { isRefusedRecipient } from '../io/mail.ts'
import type { Platform } from '../platform.ts'
import { emailedTypes, formatAlertEmail } from './templates.ts'

const minuteMs = 60_000
/** The retry delays of an email; it is abandoned after the last retry. */
const retryDelaysMs = [1, 5, 15, 60, 120, 240, 480, 480, 480].map(minutes => minutes * minuteMs)
const maxAttempts = retryDelaysMs.length + 1
/** Longer than the sum of the mail server's time-outs for the emails of one claim. */
const leaseMs = hourMs / 4
/** Of one alert to all of its recipients; the rest follows with the next attempt. */
const maxSendingMs = 5 * minuteMs
const emailsPerRound = 20
const maxRounds = 50
/** The maximum of members, and of operators, that one alert is sent to: one message each, in sequence. */
const maxRecipients = 50

/** Who gets the email of an alert: members of these roles, or these people as long as they are members. */
export type EmailTo = { roles: string[] } | { userIds: string[] }
const ownersAndAdmins: EmailTo = { roles: rolesWith('manage') }

type PendingEmail = Alert & { organisation: Pick<Organisation, 'name'> }

/**
 * Sends the pending emails of alerts, to their recipients with a verified address. A lease lets only one
 * caller send an email at a time; if that caller dies, the email is retried. Returns how many were sent.
 */
export async function sendAlertEmails(services: Platform): Promise<number> {
  let sent = 0
  for (let round = 0; round < maxRounds; round++) {
    const pending = await claimEmails(services)
    const outcomes = await Promise.all(pending.map(alert => sendEmail(services, alert)))
    sent += outcomes.filter(Boolean).length
    if (pending.length < emailsPerRound) break
  }
  return sent
}

/** The recipients of an alert. Operators also get `key.blocked`, because a provider's usage then contradicts the catalog. */
async function recipientsOf(db: Connection, { organisationId, type, emailTo }: Alert) {
  const members = await listAlertRecipients(db, organisationId, (emailTo as EmailTo | null) ?? ownersAndAdmins)
  if (type !== 'key.blocked') return members
  const where = { operator: true, emailVerified: true }
  const operators = await db.user.findMany({ where, select: { email: true }, take: maxRecipients })
  return [...new Set([...members, ...operators.map(({ email }) => email)])]
}

/** Lists the confirmed email addresses that an organisation's alerts go to. */
export async function listAlertRecipients(
  db: Connection,
  organisationId: string,
  to: EmailTo = ownersAndAdmins,
): Promise<string[]> {
  const chosen = 'roles' in to ? { role: { in: to.roles } } : { userId: { in: to.userIds } }
  const memberships = await db.membership.findMany({
    where: { organisationId, ...chosen, user: { emailVerified: true } },
    select: { user: { select: { email: true } } },
    orderBy: { createdAt: 'asc' },
    take: maxRecipients,
  })
  return memberships.map(({ user }) => user.email)
}

async function claimEmails({ db, clock }: Platform): Promise<PendingEmail[]> {
  const nowMs = clock.now()
  const rows = await db.$queryRaw<{ id: string }[]>`
    UPDATE alerts SET email_attempts = email_attempts + 1, next_email_at = ${new Date(nowMs + leaseMs)}
    WHERE id IN (
      SELECT id FROM alerts
      WHERE emailed_at IS NULL AND next_email_at <= ${new Date(nowMs)} AND email_attempts < ${maxAttempts}
        AND type = ANY(${emailedTypes})
      ORDER BY next_email_at LIMIT ${emailsPerRound} FOR UPDATE SKIP LOCKED)
    RETURNING id`
  return db.alert.findMany({
    where: { id: { in: rows.map(({ id }) => id) } },
    include: { organisation: { select: { name: true } } },
  })
}

async function sendEmail(services: Platform, alert: PendingEmail): Promise<boolean> {
  const { db, clock, log } = services
  const { id, emailAttempts } = alert
  const { reached, error } = await sendCopies(services, alert)
  if (error !== null) {
    const delayMs = retryDelaysMs[emailAttempts - 1]
    const next = delayMs === undefined ? {} : { nextEmailAt: new Date(clock.now() + delayMs) }
    await db.alert.update({ where: { id }, data: { emailedTo: delayMs === undefined ? [] : reached, ...next } })
    log.warn({ err: error, alert: id, attempts: emailAttempts, givenUp: delayMs === undefined }, 'alert not emailed')
    return false
  }
  await db.alert.update({ where: { id }, data: { emailedAt: new Date(clock.now()), emailedTo: [] } })
  return true
}

/**
 * Sends one message to each recipient that earlier attempts did not reach, so that members and operators do not see each
 * other's addresses. An address that the server refuses does not hold up the others. Returns everyone reached so
 * far, and the last error.
 */
async function sendCopies({ db, mailer, config, monotonic }: Platform, alert: PendingEmail) {
  const content = formatAlertEmail(alert, alert.organisation.name, config.publicUrl)
  const reached = [...alert.emailedTo]
  const untilMs = addMs(monotonic.now(), maxSendingMs)
  let error: unknown = null
  for (const to of await recipientsOf(db, alert)) {
    if (reached.includes(to)) continue
    if (monotonic.now() > untilMs) return { reached, error: new Error('the mail server is too slow') }
    try {
      await mailer.send({ to, ...content })
      reached.push(to)
    } catch (cause) {
      error = cause
      if (!isRefusedRecipient(cause)) break
    }
  }
  return { reached, error }
}
