import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { AlertRule, WebhookDelivery } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection } from '../io/db.ts'
import { lockOrganisation } from '../io/organisation-locks.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import type { Platform } from '../platform.ts'
import { kindOf, type RuleKind, type Window } from './rule-kinds.ts'

export const maxRules = 50
const maxMembers = 50
const resealedPerPage = 500

export const emailChoices = ['owners', 'admins', 'all', 'members'] as const
export type EmailChoice = (typeof emailChoices)[number]

/** The configurable fields of a rule, in the API's format. */
export type RuleFields = {
  name: string
  kind: RuleKind
  threshold: number
  window: Window | null
  min_requests: number
  /** The id or hash of a key. */
  key: string | null
  model: string | null
  environment: 'live' | 'test'
  email: EmailChoice | null
  member_ids: string[]
  webhook: boolean
  /** Undefined = as it was. */
  slack_url?: string | null | undefined
  enabled: boolean
}
type RulePatch = { [Field in keyof RuleFields]?: RuleFields[Field] | undefined }
type Deps = Pick<Platform, 'db' | 'clock' | 'sealer' | 'urlPolicy'>

const placeOf = (id: string) => `alert_rules.slack_url:${id}`
/** How many of its last characters identify a Slack URL. */
const shownCharacters = 4

/** Gets a rule of an organisation. Throws 404. */
export async function getRule(db: Connection, organisationId: string, id: string): Promise<AlertRule> {
  const row = await db.alertRule.findFirst({ where: { id, organisationId } })
  if (!row) throw new GatewayError('not_found', `There is no alert rule ${id}.`)
  return row
}

/** Creates a rule. Throws 400 for a wrong field, 403 beyond the limit. */
export async function createRule(
  services: Deps,
  organisationId: string,
  fields: RuleFields,
  actor: Actor,
): Promise<AlertRule> {
  const id = newId('rule')
  const slack = await slackColumns(services, id, fields.slack_url)
  const now = new Date(services.clock.now())
  return services.db.$transaction(async tx => {
    await lockOrganisation(tx, organisationId)
    if ((await tx.alertRule.count({ where: { organisationId } })) >= maxRules)
      throw new GatewayError('quota_exceeded', `An organisation can have at most ${maxRules} alert rules.`)
    const columns = await columnsOf(tx, organisationId, fields)
    if (columns.email === 'members') await assertMembers(tx, organisationId, columns.memberIds)
    const data = { id, organisationId, ...columns, ...slack, createdAt: now, updatedAt: now }
    const row = await tx.alertRule.create({ data })
    const changes = changesBetween({}, auditedOf(row))
    await audit(tx, { organisationId, actor, action: 'alert_rule.created', target: { id, name: row.name }, changes })
    return row
  })
}

/**
 * Updates the given fields. What fires is over, without an event, once the rule is disabled or measures something else. Throws
 * 400, 404.
 */
export async function updateRule(
  services: Deps,
  organisationId: string,
  id: string,
  patch: RulePatch,
  actor: Actor,
): Promise<AlertRule> {
  const slack = await slackColumns(services, id, patch.slack_url)
  return services.db.$transaction(async tx => {
    await lockOrganisation(tx, organisationId)
    const before = await getRule(tx, organisationId, id)
    const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
    const columns = await columnsOf(tx, organisationId, { ...fieldsOf(before), ...given })
    // Those who have left since they were chosen do not keep the rest of a rule from being changed.
    const isChosen = patch.member_ids !== undefined || before.email !== 'members'
    if (columns.email === 'members' && isChosen) await assertMembers(tx, organisationId, columns.memberIds)
    const isOther = measured.some(column => columns[column] !== before[column])
    const row = await tx.alertRule.update({
      where: { id },
      data: { ...columns, ...slack, ...(isOther && { value: null }), updatedAt: new Date(services.clock.now()) },
    })
    if (isOther || !row.enabled) await tx.alertEpisode.deleteMany({ where: { ruleId: id } })
    const changes = changesBetween(auditedOf(before), auditedOf(row))
    const target = { id, name: row.name }
    if (Object.keys(changes).length > 0)
      await audit(tx, { organisationId, actor, action: 'alert_rule.updated', target, changes })
    return row
  })
}

/** Deletes a rule and ends its pending messages to Slack. Throws 404. */
export async function deleteRule({ db, clock }: Deps, organisationId: string, id: string, actor: Actor): Promise<void> {
  await db.$transaction(async tx => {
    await lockOrganisation(tx, organisationId)
    const { name } = await getRule(tx, organisationId, id)
    await tx.alertRule.delete({ where: { id } })
    await tx.webhookDelivery.updateMany({
      where: { organisationId, alertRuleId: id, status: 'pending' },
      data: { status: 'failed', nextAttemptAt: new Date(clock.now()) },
    })
    await audit(tx, { organisationId, actor, action: 'alert_rule.deleted', target: { id, name } })
  })
}

/** The Slack webhook URL of a rule; null without one. */
export function openSlackUrl(sealer: Sealer, { id, slackUrl }: Pick<AlertRule, 'id' | 'slackUrl'>): string | null {
  return slackUrl === null ? null : sealer.open(slackUrl, placeOf(id))
}

/** A Slack webhook: its URL, and the name of its organisation. */
export type SlackTarget = { url(): string; organisation: string }

/** The Slack webhooks of deliveries by their rules. A rule that was deleted, or has none any more, is absent. */
export async function listSlackTargets(
  { db, sealer }: Pick<Platform, 'db' | 'sealer'>,
  deliveries: readonly Pick<WebhookDelivery, 'alertRuleId'>[],
): Promise<Map<string, SlackTarget>> {
  const ids = [...new Set(deliveries.flatMap(({ alertRuleId }) => alertRuleId ?? []))]
  if (ids.length === 0) return new Map()
  const rows = await db.alertRule.findMany({
    where: { id: { in: ids }, slackUrl: { not: null } },
    include: { organisation: { select: { name: true } } },
  })
  const targetOf = (row: (typeof rows)[number]) => ({
    url: () => openSlackUrl(sealer, row)!,
    organisation: row.organisation.name,
  })
  return new Map(rows.map(row => [row.id, targetOf(row)]))
}

/** Re-encrypts the Slack webhook URLs of all rules with the current key. Returns how many rules changed. */
export async function resealSlackUrls({ db, sealer }: Pick<Platform, 'db' | 'sealer'>): Promise<number> {
  let changed = 0
  for (let after = ''; ; ) {
    const where = { id: { gt: after }, slackUrl: { not: null } }
    const rows = await db.alertRule.findMany({ where, orderBy: { id: 'asc' }, take: resealedPerPage })
    for (const row of rows) {
      const { id, slackUrl } = row
      if (sealer.isCurrent(slackUrl!)) continue
      const data = { slackUrl: sealer.seal(openSlackUrl(sealer, row)!, placeOf(id)) }
      // Compare-and-set: a concurrent change has already used the current key.
      changed += (await db.alertRule.updateMany({ where: { id, slackUrl }, data })).count
    }
    if (rows.length < resealedPerPage) return changed
    after = rows.at(-1)!.id
  }
}

/** The columns that say what a rule measures. */
const measured = ['kind', 'threshold', 'window', 'minRequests', 'keyId', 'model', 'environment'] as const

async function columnsOf(tx: Connection, organisationId: string, fields: RuleFields) {
  const { min_requests, member_ids, key, ...rest } = fields
  checkKind(fields)
  const { name, kind, threshold, window, model, environment, email, webhook, enabled } = rest
  const keyId = key === null ? null : await findKey(tx, organisationId, key)
  const memberIds = email === 'members' ? [...new Set(member_ids)] : []
  return {
    name,
    kind,
    threshold,
    window,
    minRequests: min_requests,
    keyId,
    model,
    environment,
    email,
    memberIds,
    webhook,
    enabled,
  }
}

function checkKind({ kind, threshold, window, ...fields }: RuleFields): void {
  const { windows, max, scope } = kindOf(kind)
  if (windows === null ? window !== null : window === null || !windows.includes(window)) {
    const wanted = windows === null ? 'null' : `one of ${windows.join(', ')}`
    throw invalid('window', `The window of a ${kind} rule must be ${wanted}.`)
  }
  if (threshold <= 0 || threshold > max)
    throw invalid('threshold', `The threshold of a ${kind} rule must be greater than 0 and at most ${max}.`)
  for (const field of ['key', 'model'] as const)
    if (fields[field] !== null && !scope.includes(field))
      throw invalid(field, `A ${kind} rule cannot be limited to a ${field}.`)
}

async function findKey(tx: Connection, organisationId: string, key: string): Promise<string> {
  const where = { organisationId, OR: [{ id: key }, { hash: key }] }
  const row = await tx.apiKey.findFirst({ where, select: { id: true } })
  if (!row) throw invalid('key', 'There is no such key.')
  return row.id
}

async function assertMembers(tx: Connection, organisationId: string, userIds: string[]): Promise<void> {
  if (userIds.length === 0 || userIds.length > maxMembers)
    throw invalid('member_ids', `Choose between 1 and ${maxMembers} members.`)
  const found = await tx.membership.count({ where: { organisationId, userId: { in: userIds } } })
  if (found < userIds.length) throw invalid('member_ids', 'One of these people is not a member.')
}

async function slackColumns({ sealer, urlPolicy }: Deps, id: string, url: string | null | undefined) {
  if (url === undefined) return {}
  if (url === null) return { slackUrl: null, slackEnd: null }
  const { href } = (await assertPublicUrl(url, { ...urlPolicy, param: 'slack_url' })).url
  return { slackUrl: sealer.seal(href, placeOf(id)), slackEnd: href.slice(-shownCharacters) }
}

function fieldsOf(row: AlertRule): RuleFields {
  const { name, threshold, model, environment, webhook, enabled } = row
  return {
    name,
    threshold,
    model,
    environment,
    webhook,
    enabled,
    key: row.keyId,
    member_ids: row.memberIds,
    kind: row.kind as RuleKind,
    window: row.window as Window | null,
    min_requests: row.minRequests,
    email: row.email as EmailChoice | null,
  }
}

/** The fields as the audit log has them: of the Slack URL only its last characters. */
function auditedOf(row: AlertRule) {
  return { ...fieldsOf(row), slack_end: row.slackEnd }
}

function invalid(param: keyof RuleFields, message: string): GatewayError {
  return new GatewayError('invalid_request', message, { param })
}
