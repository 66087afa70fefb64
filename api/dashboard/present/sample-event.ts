import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import { eventTypes } from '../../../shared/webhooks/events.ts'
import examples from '../../openapi/examples.json' with { type: 'json' }

/** The types of which a sample can be sent. */
export const sampleTypes = ['webhook.test', ...eventTypes] as const
type SampleType = (typeof sampleTypes)[number]
/** The types whose data is not a job or a batch. */
type NoticeType = Exclude<SampleType, `job.${string}` | `batch.${string}`>

const key = { hash: '0'.repeat(64), name: 'Sample key', prefix: 'svc_sk_live_Samp', last4: 'Smpl' }
const failed = { code: 'upstream_error', message: 'This is a sample of a failure.' }

/** The data of a sample event, in the form that real events of the type have; nothing in it exists. */
export function sampleData(type: SampleType, organisationId: string, nowMs: number): Prisma.InputJsonObject {
  const nowS = Math.floor(nowMs / 1_000)
  const [subject, status = ''] = type.split('.')
  if (subject === 'job')
    return {
      ...examples['GET /v1/videos/{id}'],
      id: 'job_sample',
      status,
      created_at: nowS - 60,
      started_at: nowS - 55,
      completed_at: nowS,
      ...(status === 'completed' && { progress: 100, url: 'https://example.com/sample.mp4', cost_usd: 1.2 }),
      ...(status === 'failed' && { error: failed }),
    }
  if (subject === 'batch')
    return {
      ...examples['GET /v1/batches/{id}'],
      id: 'batch_sample',
      status,
      created_at: nowS - 600,
      [`${status}_at`]: nowS,
      ...(status === 'completed' && { output_file_id: 'file-sample' }),
      request_counts: { total: 2, completed: status === 'completed' ? 2 : 0, failed: 0 },
    }
  return noticeData(type as NoticeType, organisationId, new Date(nowMs).toISOString())
}

/** A type without a case does not compile. */
function noticeData(type: NoticeType, organisationId: string, now: string): Prisma.InputJsonObject {
  switch (type) {
    case 'key.spend_alert': {
      const month = now.slice(0, 7)
      return { object: type, key, percent: 80, cap_usd: 10, spent_usd: 8.1, month, resets_at: now }
    }
    case 'key.blocked':
      return { object: type, key, reason: 'hourly_limit', reference: 'chatcmpl-sample', excess_usd: 1.39 }
    case 'wallet.low_balance':
      return { object: type, balance_usd: 4.95, held_usd: 0, low_balance_usd: 5 }
    case 'webhook_endpoint.disabled':
      return { object: type, id: 'whe_sample', url: 'https://example.com/webhooks', failing_since: now }
    case 'alert.raised':
    case 'alert.resolved':
      return {
        object: type,
        rule: { id: 'rule_sample', name: 'Errors', kind: 'error_rate', threshold: 5, window: '15m' },
        scope: { key: null, model: null, environment: 'live' },
        subject: null,
        value: 7.5,
        since: now,
        measured_from: now,
        resolved_at: type === 'alert.resolved' ? now : null,
        test: true,
      }
    case 'webhook.test':
      return { object: type, organisation_id: organisationId }
  }
}
