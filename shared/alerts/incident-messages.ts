import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { IncidentGroup, IncidentMessage, OperatorNotifications } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Platform } from '../platform.ts'
import { type IncidentSummary, settleMs, summarise, topicOf } from './incident-groups.ts'
import { listDestinations, type NotificationChannel, readNotifications } from './operator-notifications.ts'

/** The delay between the start of an incident and its message, so that faults that begin together are one message. */
const groupingMs = 20_000
/** Longer than the time-outs of one message, of a slow mail server as well. */
const leaseMs = 3 * 60_000
const minuteMs = 60_000
/** The delays of retries; a message is abandoned after the last. */
const retryDelaysMs = [0.25, 1, 5, 15, 60, 120, 240].map(minutes => minutes * minuteMs)
const maxGroups = 100
const maxClaimed = 20
const maxRecords = 500

type MessageEvent = 'opened' | 'resolved' | 'test'

/**
 * Puts a message for each destination into the outbox: one when an incident has lasted for 20 s, one when it has been over for two
 * minutes. One that was over before it was told gets the second only. A unique index keeps a message from being added twice.
 */
export async function prepareMessages({ db, clock }: Platform): Promise<number> {
  const nowMs = clock.now()
  const [noticedBefore, overBefore, now] = [nowMs - groupingMs, nowMs - settleMs, nowMs].map(ms => new Date(ms!))
  return db.$transaction(async tx => {
    // Other workers skip what this one prepares.
    const groups = await tx.$queryRaw<{ id: string; key: string; isOver: boolean }[]>`
      SELECT id, key, closed_at IS NOT NULL AS "isOver" FROM incident_groups
      WHERE resolved_told_at IS NULL AND (
        (closed_at IS NULL AND opened_told_at IS NULL AND created_at <= ${noticedBefore!})
        OR (closed_at <= ${overBefore!} AND created_at <= ${noticedBefore!}))
      ORDER BY created_at LIMIT ${maxGroups} FOR UPDATE SKIP LOCKED`
    if (groups.length === 0) return 0
    const settings = await readNotifications(tx)
    const destinations = await listDestinations(tx, settings)
    const chosen = groups.filter(group => settings.topics.includes(topicOf(group) ?? ''))
    const data = chosen.flatMap(({ id, isOver }) =>
      destinations.map(to => newMessage({ groupId: id, event: isOver ? 'resolved' : 'opened', ...to }, now!)),
    )
    const { count } = await tx.incidentMessage.createMany({ data, skipDuplicates: true })
    const idsOf = (over: boolean) => groups.filter(({ isOver }) => isOver === over).map(({ id }) => id)
    await tx.incidentGroup.updateMany({ where: { id: { in: idsOf(false) } }, data: { openedToldAt: now! } })
    await tx.incidentGroup.updateMany({ where: { id: { in: idsOf(true) } }, data: { resolvedToldAt: now! } })
    return count
  })
}

function newMessage(
  about: { groupId: string | null; event: MessageEvent; channel: NotificationChannel; target: string },
  now: Date,
): Omit<IncidentMessage, 'attempts' | 'error' | 'endedAt'> {
  return { id: newId('imsg'), ...about, status: 'pending', nextAttemptAt: now, createdAt: now }
}

/** Puts a test of one channel into the outbox. Returns the ids of its messages. Throws 400 if the channel leads nowhere. */
export async function prepareTest({ db, clock }: Platform, channel: NotificationChannel): Promise<string[]> {
  const destinations = await listDestinations(db, await readNotifications(db), channel)
  if (destinations.length === 0) {
    const message = channel === 'email' ? 'There is no recipient.' : 'This channel has no URL.'
    throw new GatewayError('invalid_request', message, { param: 'channel' })
  }
  const now = new Date(clock.now())
  const data = destinations.map(to => newMessage({ groupId: null, event: 'test', ...to }, now))
  await db.incidentMessage.createMany({ data })
  return data.map(({ id }) => id)
}

/** A claimed message with what it is about; `incident` is null for a test. */
export type ClaimedMessage = { row: IncidentMessage; incident: (IncidentGroup & IncidentSummary) | null }

/** Claims messages that are due: a lease keeps others from sending them, until a worker that died would have ended. */
export async function claimMessages({ db, clock }: Platform): Promise<ClaimedMessage[]> {
  const nowMs = clock.now()
  const claimed = await db.$queryRaw<{ id: string }[]>`
    UPDATE incident_messages SET attempts = attempts + 1, next_attempt_at = ${new Date(nowMs + leaseMs)}
    WHERE id IN (
      SELECT id FROM incident_messages WHERE status = 'pending' AND next_attempt_at <= ${new Date(nowMs)}
      ORDER BY next_attempt_at LIMIT ${maxClaimed} FOR UPDATE SKIP LOCKED)
    RETURNING id`
  const rows = await db.incidentMessage.findMany({ where: { id: { in: claimed.map(({ id }) => id) } } })
  const incidents = await readIncidents(
    db,
    rows.flatMap(({ groupId }) => groupId ?? []),
  )
  return rows.map(row => ({ row, incident: incidents.get(row.groupId ?? '') ?? null }))
}

/** Incidents by their ids, each with its summary. */
export async function readIncidents(
  db: Connection,
  ids: readonly string[],
): Promise<Map<string, IncidentGroup & IncidentSummary>> {
  const groups = await db.incidentGroup.findMany({ where: { id: { in: [...ids] } } })
  const records = await db.incident.findMany({
    where: { groupId: { in: groups.map(({ id }) => id) } },
    orderBy: [{ openedAt: 'desc' }, { id: 'desc' }],
    take: maxRecords,
  })
  const byGroup = Map.groupBy(records, ({ groupId }) => groupId!)
  return new Map(groups.map(group => [group.id, { ...group, ...summarise(group, byGroup.get(group.id) ?? []) }]))
}

/** The end of an attempt: delivered, not needed any more, to be sent later, or failed. */
export type MessageOutcome =
  | { state: 'delivered' }
  | { state: 'skipped'; reason: string }
  | { state: 'postponed'; untilMs: number }
  | { state: 'failed'; error: string; isFinal?: boolean }

/** Records the end of an attempt of a claimed message. */
export async function recordMessage(
  { db, clock }: Platform,
  { id, attempts }: Pick<IncidentMessage, 'id' | 'attempts'>,
  outcome: MessageOutcome,
): Promise<void> {
  const nowMs = clock.now()
  const ended = { endedAt: new Date(nowMs) }
  const delayMs = outcome.state === 'failed' && !outcome.isFinal ? retryDelaysMs[attempts - 1] : undefined
  const data = {
    delivered: () => ({ status: 'delivered', error: null, ...ended }),
    skipped: () => ({ status: 'skipped', error: (outcome as { reason: string }).reason, ...ended }),
    postponed: () => ({
      attempts: attempts - 1,
      nextAttemptAt: new Date((outcome as { untilMs: number }).untilMs),
    }),
    failed: () => ({
      error: (outcome as { error: string }).error,
      ...(delayMs === undefined ? { status: 'failed', ...ended } : { nextAttemptAt: new Date(nowMs + delayMs) }),
    }),
  }[outcome.state]()
  await db.incidentMessage.updateMany({ where: { id, status: 'pending' }, data })
}

/** The text of a message. */
type MessageText = { subject: string; text: string; path: string; label: string }

/** Writes the message of an event; `settings` have the time zone. */
export function writeMessage(
  { row, incident }: ClaimedMessage,
  { timeZone }: Pick<OperatorNotifications, 'timeZone'>,
): MessageText {
  if (!incident)
    return {
      subject: 'Test: messages about incidents arrive here',
      text: 'An operator has sent this test. Nothing is wrong.',
      path: '/operator/notifications',
      label: 'Open the settings',
    }
  const { title, message, models, openedAt, closedAt, id } = incident
  const began = `It began ${formatTime(openedAt, timeZone)}`
  const lines = [
    closedAt ? `${began} and ended ${formatTime(closedAt, timeZone)}.` : `${began} and lasts.`,
    ...(models.length > 1 ? [`Models: ${models.join(', ')}.`] : []),
    ...(message ? [`The latest error: ${message}`] : []),
  ]
  const isOver = row.event === 'resolved'
  return {
    subject: `${isOver ? 'Resolved' : 'Incident'}: ${title}`,
    text: lines.join('\n\n'),
    path: `/operator/incidents/${id}`,
    label: 'Open the incident',
  }
}

function formatTime(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat('en-GB', { timeZone, dateStyle: 'medium', timeStyle: 'short' })
    .format(at)
    .concat(` (${timeZone})`)
}
