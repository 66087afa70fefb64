import type { Alert, Organisation } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Mail } from '../io/mail.ts'
import type { Services } from '../services.ts'
import { alertText } from './texts.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** The pauses between the attempts at an email; after the last one it is given up. */
const pausesMs = [1, 5, 15, 60, 120, 240, 480, 480, 480].map(minutes => minutes * minuteMs)
const mostAttempts = pausesMs.length + 1
/** Longer than the mail server's time-outs add up to for one claim's emails. */
const leaseMs = hourMs / 4
const emailsAtOnce = 20
const mostRounds = 50
const mostRecipients = 50

type Owed = Alert & { organisation: Pick<Organisation, 'name'> }

/**
 * Sends the emails that alerts owe: to the owners and admins of the organisation whose addresses are confirmed. Each by one
 * caller at a time; one that dies in between sends it again later. Answers how many were sent.
 */
export async function emailAlerts(services: Services): Promise<number> {
  let sent = 0
  for (let round = 0; round < mostRounds; round++) {
    const owed = await claim(services)
    const outcomes = await Promise.all(owed.map(alert => send(services, alert)))
    sent += outcomes.filter(Boolean).length
    if (owed.length < emailsAtOnce) break
  }
  return sent
}

/** Whom an alert is emailed to. A blocked key is the operator's concern, too: a provider counts otherwise than the catalog says. */
async function recipientsOf(db: Connection, { organisationId, type }: Pick<Alert, 'organisationId' | 'type'>) {
  const own = await alertRecipients(db, organisationId)
  if (type !== 'key.blocked') return own
  const where = { operator: true, emailVerified: true }
  const operators = await db.user.findMany({ where, select: { email: true }, take: mostRecipients })
  return [...new Set([...own, ...operators.map(({ email }) => email)])]
}

/** Whom an organisation's alerts are emailed to. */
export async function alertRecipients(db: Connection, organisationId: string): Promise<string[]> {
  const memberships = await db.membership.findMany({
    where: { organisationId, role: { in: ['owner', 'admin'] }, user: { emailVerified: true } },
    select: { user: { select: { email: true } } },
    orderBy: { createdAt: 'asc' },
    take: mostRecipients,
  })
  return memberships.map(({ user }) => user.email)
}

async function claim({ db, clock }: Services): Promise<Owed[]> {
  const nowMs = clock.now()
  const rows = await db.$queryRaw<{ id: string }[]>`
    UPDATE alerts SET email_attempts = email_attempts + 1, next_email_at = ${new Date(nowMs + leaseMs)}
    WHERE id IN (
      SELECT id FROM alerts
      WHERE emailed_at IS NULL AND next_email_at <= ${new Date(nowMs)} AND email_attempts < ${mostAttempts}
      ORDER BY next_email_at LIMIT ${emailsAtOnce} FOR UPDATE SKIP LOCKED)
    RETURNING id`
  return db.alert.findMany({
    where: { id: { in: rows.map(({ id }) => id) } },
    include: { organisation: { select: { name: true } } },
  })
}

async function send({ db, mailer, clock, log, config }: Services, alert: Owed): Promise<boolean> {
  const { id, emailAttempts } = alert
  const recipients = await recipientsOf(db, alert)
  const mail: Mail = { to: recipients.join(', '), ...alertText(alert, alert.organisation.name, config.publicUrl) }
  try {
    if (recipients.length > 0) await mailer.send(mail)
  } catch (error) {
    const pauseMs = pausesMs[emailAttempts - 1]
    if (pauseMs !== undefined)
      await db.alert.update({ where: { id }, data: { nextEmailAt: new Date(clock.now() + pauseMs) } })
    log.warn({ err: error, alert: id, attempts: emailAttempts, givenUp: pauseMs === undefined }, 'alert not emailed')
    return false
  }
  await db.alert.update({ where: { id }, data: { emailedAt: new Date(clock.now()) } })
  return true
}
