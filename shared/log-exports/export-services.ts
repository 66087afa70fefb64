import type { ContentLogServices } from '../content-log/content-log-services.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { LogExports } from './log-exports.ts'

/** What exports of logs need. */
export type LogExportServices = ContentLogServices & WebhookServices & { logExports: LogExports }
