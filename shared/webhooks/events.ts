/** Every event that endpoints can subscribe to. `api/webhook-events.ts` has the data and a sample of each. */
export const eventTypes = [
  'job.completed',
  'job.failed',
  'job.cancelled',
  'job.expired',
  'batch.completed',
  'batch.failed',
  'batch.cancelled',
  'batch.expired',
  'key.spend_alert',
  'budget.spend_alert',
  'key.blocked',
  'wallet.low_balance',
  'auto_top_up.failed',
  'auto_top_up.limit_reached',
  'webhook_endpoint.disabled',
  'log_export.paused',
  'log_export.gap',
  'alert.raised',
  'alert.resolved',
] as const
export type EventType = (typeof eventTypes)[number]
/** The events that are not about a job or batch: `shared/alerts/` raises them, with an email. */
export type AlertType = Exclude<EventType, `job.${string}` | `batch.${string}`>

/** Everything, and every first part: "job.*". */
const wildcards = ['*', ...new Set(eventTypes.map(type => wildcardOf(type)))]
/** What an endpoint can subscribe to. */
export const eventPatterns: readonly string[] = [...wildcards, ...eventTypes]

/** The patterns that match a type. */
export function patternsOf(type: string): string[] {
  return ['*', wildcardOf(type), type]
}

function wildcardOf(type: string): string {
  return `${type.split('.')[0]}.*`
}
