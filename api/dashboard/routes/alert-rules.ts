import { z } from 'zod'
import { testChannel } from '../../../shared/alerts/channel-test.ts'
import { ruleKindNames, windows } from '../../../shared/alerts/rule-kinds.ts'
import { createRule, deleteRule, emailChoices, getRule, maxRules, updateRule } from '../../../shared/alerts/rules.ts'
import { oneLine } from '../../../shared/base/one-line.ts'
import { assertRateLimit } from '../../auth/limits.ts'
import { endpoint } from '../../endpoint.ts'
import { presentRules, readRuleChoices } from '../present/present-alert-rule.ts'
import { presentDelivery } from '../present/present-delivery.ts'
import type { AlertRuleAnswer, AlertRulesAnswer, ChannelTestAnswer } from '../wire/alert-rules.ts'

const base = '/dashboard/api/organisations/{organisation}/alerts/rules'
const forMembers = { tag: 'Dashboard', access: { permission: 'use' } } as const
const forAdmins = { tag: 'Dashboard', access: { permission: 'manage' } } as const
const defaultMinRequests = 20
/** Tests by email, which other members get as well, of an organisation. */
const emailTests = { windowS: 3_600, max: 10 }
const tooManyEmailTests = `At most ${emailTests.max} tests by email can be sent in an hour.`

const word = z.string().trim().min(1).max(200)
const fields = {
  name: oneLine(z.string().trim().min(1).max(100)),
  kind: z.enum(ruleKindNames),
  threshold: z.number(),
  window: z.enum(windows).nullable(),
  min_requests: z.int().min(1).max(1_000_000),
  key: word.nullable(),
  model: word.nullable(),
  environment: z.enum(['live', 'test']),
  email: z.enum(emailChoices).nullable(),
  member_ids: z.array(z.string().max(100)).max(50),
  webhook: z.boolean(),
  slack_url: z.string().min(1).max(2_048).nullish(),
  enabled: z.boolean(),
}
const newRule = z.strictObject({
  ...fields,
  window: fields.window.default(null),
  min_requests: fields.min_requests.default(defaultMinRequests),
  key: fields.key.default(null),
  model: fields.model.default(null),
  environment: fields.environment.default('live'),
  email: fields.email.default(null),
  member_ids: fields.member_ids.default([]),
  webhook: fields.webhook.default(false),
  enabled: fields.enabled.default(true),
})

const listRules = endpoint({
  ...forMembers,
  method: 'get',
  path: base,
  summary: 'List alert rules with their state',
  answers: { 200: { description: 'The rules, oldest first.' } },
  async handle({ services, organisationId }): Promise<AlertRulesAnswer> {
    const rows = await services.db.alertRule.findMany({
      where: { organisationId },
      orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
      take: maxRules,
    })
    const choices = await readRuleChoices(services, organisationId)
    return { data: await presentRules(services, organisationId, rows), max: maxRules, choices }
  },
})

const postRule = endpoint({
  ...forAdmins,
  method: 'post',
  path: base,
  summary: 'Create an alert rule',
  body: newRule,
  answers: { 201: { description: 'The rule.' } },
  errors: ['url_not_allowed', 'quota_exceeded'],
  async handle({ services, organisationId, body, actor }): Promise<AlertRuleAnswer> {
    const row = await createRule(services, organisationId, body, actor)
    return { data: (await presentRules(services, organisationId, [row]))[0]! }
  },
})

const patchRule = endpoint({
  ...forAdmins,
  method: 'patch',
  path: `${base}/{rule}`,
  summary: 'Update an alert rule',
  body: z.strictObject(fields).partial(),
  answers: { 200: { description: 'The updated rule.' } },
  errors: ['not_found', 'url_not_allowed'],
  async handle({ services, organisationId, params, body, actor }): Promise<AlertRuleAnswer> {
    const row = await updateRule(services, organisationId, params.rule!, body, actor)
    return { data: (await presentRules(services, organisationId, [row]))[0]! }
  },
})

const removeRule = endpoint({
  ...forAdmins,
  method: 'delete',
  path: `${base}/{rule}`,
  summary: 'Delete an alert rule',
  answers: { 200: { description: 'Deleted.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<{ deleted: true }> {
    await deleteRule(services, organisationId, params.rule!, actor)
    return { deleted: true }
  },
})

const testRule = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{rule}/test`,
  summary: 'Send a test to a channel of an alert rule',
  body: z.strictObject({ channel: z.enum(['email', 'webhook', 'slack']) }),
  answers: { 202: { description: 'Where the test goes.' } },
  errors: ['not_found', 'rate_limit_exceeded'],
  async handle({ services, organisationId, params, body: { channel } }): Promise<ChannelTestAnswer> {
    const rule = await getRule(services.db, organisationId, params.rule!)
    if (channel === 'email')
      await assertRateLimit(services.redis, `alert-test:${organisationId}`, emailTests, tooManyEmailTests)
    const { emailTo, deliveryIds } = await testChannel(services, rule, channel)
    const rows = await services.db.webhookDelivery.findMany({ where: { id: { in: deliveryIds }, organisationId } })
    return { email_to: emailTo, deliveries: rows.map(presentDelivery) }
  },
})

export const alertRulesRoutes = [listRules, postRule, patchRule, removeRule, testRule]
