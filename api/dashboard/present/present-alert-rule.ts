import type { RuleKind, Window } from '../../../shared/alerts/rule-kinds.ts'
import type { AlertRule } from '../../../shared/generated/prisma/client.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { AlertRulesAnswer, DashboardRule, EmailChoice } from '../wire/alert-rules.ts'

const maxChoices = 1_000
const maxEpisodes = 5_000

/** The latest message of a rule to Slack. */
type LatestMessage = { ruleId: string; id: string; status: string; createdAt: Date }

/** Presents rules of one organisation with their state. */
export async function presentRules(
  { db }: Platform,
  organisationId: string,
  rows: readonly AlertRule[],
): Promise<DashboardRule[]> {
  const ids = rows.map(({ id }) => id)
  const [keys, episodes, messages] = await Promise.all([
    db.apiKey.findMany({
      where: { organisationId, id: { in: rows.flatMap(({ keyId }) => keyId ?? []) } },
      select: { id: true, name: true },
    }),
    db.alertEpisode.findMany({ where: { ruleId: { in: ids } }, orderBy: { since: 'asc' }, take: maxEpisodes }),
    db.$queryRaw<LatestMessage[]>`
      SELECT rule_id AS "ruleId", latest.* FROM unnest(${ids}::text[]) AS rules(rule_id), LATERAL (
        SELECT id, status, created_at AS "createdAt" FROM webhook_deliveries
        WHERE alert_rule_id = rule_id AND organisation_id = ${organisationId} ORDER BY created_at DESC LIMIT 1) latest`,
  ])
  const names = new Map(keys.map(({ id, name }) => [id, name]))
  return rows.map(row => {
    const firing = episodes.filter(({ ruleId }) => ruleId === row.id)
    const message = messages.find(({ ruleId, status }) => ruleId === row.id && status === 'failed')
    return {
      ...fieldsOf(row),
      key_name: row.keyId === null ? null : (names.get(row.keyId) ?? row.keyId),
      slack_end: row.slackEnd,
      value: row.value,
      evaluated_at: row.evaluatedAt?.toISOString() ?? null,
      firing: firing[0]
        ? { since: firing[0].since.toISOString(), subjects: firing.flatMap(({ name }) => name ?? []) }
        : null,
      slack_failure: message ? { id: message.id, created_at: message.createdAt.toISOString() } : null,
    }
  })
}

function fieldsOf(row: AlertRule) {
  const { id, name, threshold, minRequests, keyId, model, environment, memberIds, webhook, enabled } = row
  return {
    id,
    name,
    kind: row.kind as RuleKind,
    threshold,
    window: row.window as Window | null,
    min_requests: minRequests,
    key: keyId,
    model,
    environment,
    email: row.email as EmailChoice | null,
    member_ids: memberIds,
    webhook,
    enabled,
  }
}

/** What rules can be limited to, and who can get their emails. */
export async function readRuleChoices(
  { db, catalog }: Platform,
  organisationId: string,
): Promise<AlertRulesAnswer['choices']> {
  const [keys, members] = await Promise.all([
    db.apiKey.findMany({
      where: { organisationId, revokedAt: null },
      select: { id: true, name: true },
      orderBy: { name: 'asc' },
      take: maxChoices,
    }),
    db.membership.findMany({
      where: { organisationId },
      select: { userId: true, user: { select: { name: true } } },
      orderBy: { createdAt: 'asc' },
      take: maxChoices,
    }),
  ])
  const models = [...catalog.models.values()].filter(({ disabled }) => !disabled).map(({ id }) => id)
  return { keys, models, members: members.map(({ userId, user }) => ({ id: userId, name: user.name })) }
}
