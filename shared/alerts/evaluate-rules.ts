import { elapsedMs } from '../base/time.ts'
import { type AlertEpisode, type AlertRule, Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import { type NewAlert, raiseAlerts } from './raise.ts'
import { channelsOf } from './rule-channels.ts'
import { ruleEvent } from './rule-events.ts'
import { isPeriod } from './rule-kinds.ts'
import { type Breach, type Measure, measureRules, type Subject } from './rule-measures.ts'
import { maxRules } from './rules.ts'

/** Other housekeeping waits for a run. What is left over is first in the next one. */
const maxRunMs = 10_000
const maxStatementMs = 2_000
const organisationsPerPage = 100
/** A rule that was evaluated this far in the future was so by a worker whose clock was wrong. */
const maxAheadMs = 10 * 60_000
/** An episode is over after so many evaluations in a row that find the condition over. */
const calmToEnd = 2

/** Evaluates the enabled rules of all organisations, those evaluated longest ago first, within a limited time. */
export async function evaluateRules(services: WebhookServices): Promise<void> {
  const { db, clock, monotonic, log } = services
  const now = new Date(clock.now())
  const startedMs = monotonic.now()
  for (;;) {
    const organisationIds = await listDue(db, now)
    for (const organisationId of organisationIds) {
      if (elapsedMs(startedMs, monotonic.now()) > maxRunMs) return
      try {
        await evaluateOrganisation(services, organisationId, now)
      } catch (error) {
        // One with too many requests to measure in time must not keep the others from being evaluated.
        log.warn({ err: error, organisation: organisationId }, 'alert rules not evaluated')
        await db.alertRule.updateMany({ where: { organisationId, enabled: true }, data: { evaluatedAt: now } })
      }
    }
    if (organisationIds.length < organisationsPerPage) return
  }
}

async function listDue(db: Connection, now: Date): Promise<string[]> {
  const rows = await db.$queryRaw<{ id: string }[]>`
    SELECT organisation_id AS id FROM alert_rules
    WHERE enabled AND ${isDue(now)}
    GROUP BY 1 ORDER BY min(coalesce(evaluated_at, '-infinity')), 1 LIMIT ${organisationsPerPage}`
  return rows.map(({ id }) => id)
}

/** The condition of rules that no other worker has evaluated since `now`. */
function isDue(now: Date): Prisma.Sql {
  const ahead = new Date(now.getTime() + maxAheadMs)
  return Prisma.sql`(evaluated_at IS NULL OR evaluated_at < ${now} OR evaluated_at > ${ahead})`
}

async function evaluateOrganisation(services: WebhookServices, organisationId: string, now: Date): Promise<void> {
  const { db, webhooks } = services
  const rules = await db.alertRule.findMany({ where: { organisationId, enabled: true }, take: maxRules })
  const measures = await db.$transaction(async tx => {
    await tx.$executeRawUnsafe(`SET LOCAL statement_timeout = ${maxStatementMs}`)
    return measureRules(tx, organisationId, rules, now.getTime())
  })
  const deliveryIds = await db.$transaction(async tx => {
    const current = await lockUnchanged(tx, rules, now)
    const alerts = await updateEpisodes(tx, current, measures, now)
    await saveValues(tx, current, measures, now)
    return (await raiseAlerts(services, tx, alerts)).deliveryIds
  })
  await webhooks.enqueue(deliveryIds)
}

/** Locks the rules that were neither changed, deleted nor evaluated by another worker since they were read. */
async function lockUnchanged(tx: Connection, rules: readonly AlertRule[], now: Date): Promise<AlertRule[]> {
  const locked = await tx.$queryRaw<{ id: string; updatedAt: Date }[]>`
    SELECT id, updated_at AS "updatedAt" FROM alert_rules
    WHERE id = ANY(${rules.map(({ id }) => id)}) AND enabled AND ${isDue(now)}
    ORDER BY id FOR UPDATE`
  const versions = new Map(locked.map(({ id, updatedAt }) => [id, updatedAt.getTime()]))
  return rules.filter(({ id, updatedAt }) => versions.get(id) === updatedAt.getTime())
}

/** Opens, continues and ends episodes. Returns the alerts of those that began or ended. */
async function updateEpisodes(
  tx: Connection,
  rules: readonly AlertRule[],
  measures: ReadonlyMap<string, Measure>,
  now: Date,
): Promise<NewAlert[]> {
  const open = await tx.alertEpisode.findMany({ where: { ruleId: { in: rules.map(({ id }) => id) } } })
  const alerts: NewAlert[] = []
  for (const rule of rules) {
    const measure = measures.get(rule.id)!
    const own = new Map(open.filter(({ ruleId }) => ruleId === rule.id).map(episode => [episode.subject, episode]))
    for (const episode of own.values()) {
      if (!isOfPastPeriod(rule, episode, measure)) continue
      own.delete(episode.subject)
      alerts.push(await end(tx, rule, episode, measure, now))
    }
    for (const breach of measure.breaches) {
      const episode = own.get(breach.subject)
      own.delete(breach.subject)
      if (!episode) alerts.push(await begin(tx, rule, breach, measure, now))
      else if (episode.calm > 0) await setCalm(tx, episode, 0)
    }
    for (const episode of own.values()) {
      if (episode.calm + 1 < calmToEnd) await setCalm(tx, episode, episode.calm + 1)
      else alerts.push(await end(tx, rule, episode, measure, now))
    }
  }
  return alerts
}

/** An episode about a day, a week or a month ends with it: the next one has an alert of its own. */
function isOfPastPeriod({ window }: AlertRule, { since }: AlertEpisode, { from }: Measure): boolean {
  return isPeriod(window) && from !== null && since < from
}

async function setCalm(tx: Connection, { ruleId, subject }: AlertEpisode, calm: number): Promise<void> {
  await tx.alertEpisode.update({ where: { ruleId_subject: { ruleId, subject } }, data: { calm } })
}

async function begin(
  tx: Connection,
  rule: AlertRule,
  { value, ...subject }: Breach,
  measure: Measure,
  since: Date,
): Promise<NewAlert> {
  await tx.alertEpisode.create({ data: { ruleId: rule.id, ...subject, since } })
  return alertOf(rule, subject, { value, since, from: measure.from, resolvedAt: null })
}

async function end(
  tx: Connection,
  rule: AlertRule,
  { ruleId, since, calm: _, ...subject }: AlertEpisode,
  { value, from }: Measure,
  now: Date,
): Promise<NewAlert> {
  await tx.alertEpisode.delete({ where: { ruleId_subject: { ruleId, subject: subject.subject } } })
  return alertOf(rule, subject, { value, since, from: from && new Date(Math.min(+from, +since)), resolvedAt: now })
}

type Times = { value: number | null; since: Date; from: Date | null; resolvedAt: Date | null }

function alertOf(rule: AlertRule, subject: Subject, times: Times): NewAlert {
  const data = ruleEvent({ rule, subject, ...times })
  return {
    organisationId: rule.organisationId,
    keyId: null,
    type: data.object,
    cause: `rule:${rule.id}:${subject.subject}:${times.since.getTime()}:${times.resolvedAt ? 'resolved' : 'raised'}`,
    data,
    channels: channelsOf(rule),
  }
}

async function saveValues(
  tx: Connection,
  rules: readonly AlertRule[],
  measures: ReadonlyMap<string, Measure>,
  now: Date,
): Promise<void> {
  const ids = rules.map(({ id }) => id)
  const values = ids.map(id => measures.get(id)!.value)
  await tx.$executeRaw`
    UPDATE alert_rules r SET evaluated_at = ${now}, value = v.value
    FROM unnest(${ids}::text[], ${values}::float8[]) AS v(id, value) WHERE r.id = v.id`
}
