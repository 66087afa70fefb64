import { z } from 'zod'
import { ruleKindNames, windows } from '../shared/alerts/rule-kinds.ts'
import type { Prisma } from '../shared/generated/prisma/client.ts'
import type { EventType } from '../shared/webhooks/events.ts'
import examples from './openapi/examples.json' with { type: 'json' }
import { batchAnswer } from './schemas/batches.ts'
import { delayedJob } from './schemas/delayed.ts'
import { jobAnswer, meshAnswer } from './schemas/jobs.ts'

const usd = z.number()
const keyOfAlert = z
  .strictObject({ hash: z.string(), name: z.string(), prefix: z.string(), last4: z.string() })
  .meta({ id: 'AlertedKey' })

const sampleKey = { hash: '0'.repeat(64), name: 'Sample key', prefix: 'svc_sk_live_Samp', last4: 'Smpl' }

const job = z.union([jobAnswer, meshAnswer, delayedJob]).describe('The job object.')
const batch = batchAnswer.describe('The batch object.')

export type WebhookEvent = {
  summary: string
  data: z.ZodType
  /** The data of a sample, in the form that real events of the type have; nothing in it exists. */
  sample(nowMs: number, organisationId: string): Prisma.InputJsonObject
}

/** What `alert.raised` and `alert.resolved` have in common. */
const ruleEvent = {
  rule: z.strictObject({
    id: z.string(),
    name: z.string(),
    kind: z.enum(ruleKindNames),
    threshold: z.number().describe('USD, percent, milliseconds or days, by the kind.'),
    window: z.enum(windows).nullable(),
  }),
  scope: z.strictObject({
    key: z.string().nullable().describe('The id of a key.'),
    model: z.string().nullable(),
    environment: z.enum(['live', 'test']),
  }),
  subject: z
    .strictObject({ id: z.string(), name: z.string() })
    .nullable()
    .describe('The key (by its hash) or the webhook endpoint it is about; null for requests.'),
  value: z.number().nullable().describe('What was measured, in the unit of the threshold.'),
  since: z.iso.datetime().describe('When the alert was raised.'),
  measured_from: z.iso.datetime().nullable().describe('The start of the time that was measured.'),
  test: z.literal(true).optional().describe('Present on events sent to test a channel.'),
}

/** Every webhook event by type: OpenAPI's webhooks, the samples of the dashboard and the checks of docs/webhooks.md follow. */
export const webhookEvents: Record<EventType | 'webhook.test', WebhookEvent> = {
  'job.completed': jobEvent('completed', 'A job completed'),
  'job.failed': jobEvent('failed', 'A job failed'),
  'job.cancelled': jobEvent('cancelled', 'A job was cancelled'),
  'job.expired': jobEvent('expired', 'A job expired before it finished'),
  'batch.completed': batchEvent('completed', 'A batch completed'),
  'batch.failed': batchEvent('failed', 'A batch failed validation'),
  'batch.cancelled': batchEvent('cancelled', 'A batch was cancelled'),
  'batch.expired': batchEvent('expired', 'A batch expired before it finished'),
  'key.spend_alert': {
    summary: 'A key reached 50, 80 or 100 percent of its monthly spend cap',
    data: z.strictObject({
      object: z.literal('key.spend_alert'),
      key: keyOfAlert,
      percent: z.int().describe('50, 80 or 100.'),
      cap_usd: usd,
      spent_usd: usd,
      month: z.string().describe('The UTC month, such as `2026-11`.'),
      resets_at: z.iso.datetime(),
    }),
    sample: nowMs => ({
      object: 'key.spend_alert',
      key: sampleKey,
      percent: 80,
      cap_usd: 10,
      spent_usd: 8.1,
      month: isoTime(nowMs).slice(0, 7),
      resets_at: isoTime(nowMs),
    }),
  },
  'budget.spend_alert': {
    summary: 'A share of a monthly budget of the organisation or a member is spent',
    data: z.strictObject({
      object: z.literal('budget.spend_alert'),
      member: z
        .strictObject({ id: z.string(), name: z.string(), email: z.string() })
        .nullable()
        .describe('Whose keys are summed; null = all keys of the organisation.'),
      percent: z.int(),
      limit_usd: usd,
      spent_usd: usd,
      blocks: z.boolean().describe('Whether requests that do not fit are refused.'),
      month: z.string().describe('The UTC month, such as `2026-11`.'),
      resets_at: z.iso.datetime(),
    }),
    sample: nowMs => ({
      object: 'budget.spend_alert',
      member: null,
      percent: 80,
      limit_usd: 500,
      spent_usd: 402.15,
      blocks: true,
      month: isoTime(nowMs).slice(0, 7),
      resets_at: isoTime(nowMs),
    }),
  },
  'key.blocked': {
    summary: 'A key was blocked because its requests cost more than their reservations',
    data: z.strictObject({
      object: z.literal('key.blocked'),
      key: keyOfAlert,
      reason: z
        .enum(['hourly_limit', 'organisation_limit', 'negative_balance'])
        .describe(
          'The sum of an hour of the key or its organisation was too high, or it drove the balance below zero.',
        ),
      reference: z.string().describe('The id of the last such request.'),
      excess_usd: usd.describe('What the requests of the key cost beyond their reservations within an hour.'),
    }),
    sample: () => ({
      object: 'key.blocked',
      key: sampleKey,
      reason: 'hourly_limit',
      reference: 'chatcmpl-sample',
      excess_usd: 1.39,
    }),
  },
  'wallet.low_balance': {
    summary: 'The balance fell below the alert threshold',
    data: z.strictObject({
      object: z.literal('wallet.low_balance'),
      balance_usd: usd,
      held_usd: usd,
      low_balance_usd: usd.describe('The alert threshold.'),
    }),
    sample: () => ({ object: 'wallet.low_balance', balance_usd: 4.95, held_usd: 0, low_balance_usd: 5 }),
  },
  'auto_top_up.failed': {
    summary: 'An automatic top-up could not charge the saved card',
    data: z.strictObject({
      object: z.literal('auto_top_up.failed'),
      id: z.string().describe('Of the top-up.'),
      amount_usd: usd,
      reason: z.string().describe('The code of the payment provider.'),
      authentication_required: z.boolean().describe('Whether the bank wants the holder of the card to authenticate.'),
      enabled: z.boolean().describe('False once failures turned automatic top-ups off.'),
      next_attempt_at: z.iso.datetime().nullable().describe('The earliest time of the next attempt.'),
    }),
    sample: nowMs => ({
      object: 'auto_top_up.failed',
      id: 'top_sample',
      amount_usd: 50,
      reason: 'insufficient_funds',
      authentication_required: false,
      enabled: true,
      next_attempt_at: isoTime(nowMs),
    }),
  },
  'auto_top_up.limit_reached': {
    summary: 'The balance is low, and the monthly limit leaves no room for an automatic top-up',
    data: z.strictObject({
      object: z.literal('auto_top_up.limit_reached'),
      balance_usd: usd,
      spent_usd: usd.describe('The automatic top-ups of this UTC month.'),
      monthly_limit_usd: usd,
      resets_at: z.iso.datetime(),
    }),
    sample: nowMs => ({
      object: 'auto_top_up.limit_reached',
      balance_usd: 4.95,
      spent_usd: 480,
      monthly_limit_usd: 500,
      resets_at: isoTime(nowMs),
    }),
  },
  'webhook_endpoint.disabled': {
    summary: 'A webhook endpoint was disabled because all its deliveries failed for days',
    data: z.strictObject({
      object: z.literal('webhook_endpoint.disabled'),
      id: z.string(),
      url: z.string(),
      failing_since: z.iso.datetime(),
    }),
    sample: nowMs => ({
      object: 'webhook_endpoint.disabled',
      id: 'whe_sample',
      url: 'https://example.com/webhooks',
      failing_since: isoTime(nowMs),
    }),
  },
  'log_export.paused': {
    summary: 'An export of logs was paused because its batches were not accepted for days',
    data: z.strictObject({
      object: z.literal('log_export.paused'),
      id: z.string(),
      name: z.string(),
      failing_since: z.iso.datetime(),
      error: z.string(),
    }),
    sample: nowMs => ({
      object: 'log_export.paused',
      id: 'exp_sample',
      name: 'SIEM',
      failing_since: isoTime(nowMs),
      error: 'HTTP 503',
    }),
  },
  'log_export.gap': {
    summary: 'Rows were deleted by their age before an export delivered them',
    data: z.strictObject({
      object: z.literal('log_export.gap'),
      id: z.string(),
      name: z.string(),
      stream: z.string(),
      from: z.iso.datetime(),
      to: z.iso.datetime(),
      reason: z.enum(['retention', 'transactions_restarted']),
      noticed_at: z.iso.datetime(),
    }),
    sample: nowMs => ({
      object: 'log_export.gap',
      id: 'exp_sample',
      name: 'SIEM',
      stream: 'requests',
      from: isoTime(nowMs),
      to: isoTime(nowMs),
      reason: 'retention',
      noticed_at: isoTime(nowMs),
    }),
  },
  'alert.raised': {
    summary: 'The condition of an alert rule began to hold',
    data: z.strictObject({ object: z.literal('alert.raised'), ...ruleEvent, resolved_at: z.null() }),
    sample: nowMs => ({ object: 'alert.raised', ...ruleSample(nowMs), resolved_at: null }),
  },
  'alert.resolved': {
    summary: 'The condition of an alert rule no longer holds',
    data: z.strictObject({ object: z.literal('alert.resolved'), ...ruleEvent, resolved_at: z.iso.datetime() }),
    sample: nowMs => ({ object: 'alert.resolved', ...ruleSample(nowMs), resolved_at: isoTime(nowMs) }),
  },
  'webhook.test': {
    summary: 'A test event sent from the dashboard',
    data: z.strictObject({ object: z.literal('webhook.test'), organisation_id: z.string() }),
    sample: (_, organisationId) => ({ object: 'webhook.test', organisation_id: organisationId }),
  },
}

function jobEvent(status: 'completed' | 'failed' | 'cancelled' | 'expired', summary: string): WebhookEvent {
  return {
    summary,
    data: job,
    sample(nowMs) {
      const nowS = Math.floor(nowMs / 1_000)
      return {
        ...examples['GET /v1/videos/{id}'],
        id: 'job_sample',
        status,
        created_at: nowS - 60,
        started_at: nowS - 55,
        completed_at: nowS,
        ...(status === 'completed' && { progress: 100, url: 'https://example.com/sample.mp4', cost_usd: 1.2 }),
        ...(status === 'failed' && {
          error: { code: 'upstream_error', message: 'This is a sample of a failure.' },
        }),
      }
    },
  }
}

function batchEvent(status: 'completed' | 'failed' | 'cancelled' | 'expired', summary: string): WebhookEvent {
  return {
    summary,
    data: batch,
    sample(nowMs) {
      const nowS = Math.floor(nowMs / 1_000)
      return {
        ...examples['GET /v1/batches/{id}'],
        id: 'batch_sample',
        status,
        created_at: nowS - 600,
        [`${status}_at`]: nowS,
        ...(status === 'completed' && { output_file_id: 'file-sample' }),
        request_counts: { total: 2, completed: status === 'completed' ? 2 : 0, failed: 0 },
      }
    },
  }
}

function ruleSample(nowMs: number) {
  return {
    rule: { id: 'rule_sample', name: 'Errors', kind: 'error_rate', threshold: 5, window: '15m' },
    scope: { key: null, model: null, environment: 'live' },
    subject: null,
    value: 7.5,
    since: isoTime(nowMs),
    measured_from: isoTime(nowMs),
    test: true,
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
