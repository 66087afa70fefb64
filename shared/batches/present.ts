import { usdFromNano } from '../base/money.ts'
import { unixSeconds } from '../base/time.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { Batch } from './batches.ts'

const over: ReadonlySet<Batch['status']> = new Set(['failed', 'completed', 'expired', 'cancelled'])

/** A batch as its GET returns it: OpenAI's batch object, its cost and its webhook. */
export async function presentBatch(
  services: WebhookServices,
  batch: Batch,
  delivery?: 'pending' | 'delivered' | 'failed',
): Promise<Record<string, unknown>> {
  const { webhookUrl, status } = batch
  const deliveryStatus = async () =>
    delivery ?? (over.has(status) ? await services.webhooks.statusOf({ batchId: batch.id }) : 'pending')
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    model: batch.model,
    errors: batch.errors && { object: 'list', data: batch.errors },
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status,
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: unixSeconds(batch.createdAt),
    in_progress_at: unixSeconds(batch.inProgressAt),
    expires_at: unixSeconds(batch.deadlineAt),
    finalizing_at: unixSeconds(batch.finalizingAt),
    completed_at: unixSeconds(batch.completedAt),
    failed_at: unixSeconds(batch.failedAt),
    expired_at: status === 'expired' ? unixSeconds(batch.expiredAt) : null,
    cancelling_at: unixSeconds(batch.cancellingAt),
    cancelled_at: unixSeconds(batch.cancelledAt),
    request_counts: { total: batch.total, completed: batch.completed, failed: batch.failed },
    usage: usageOf(batch),
    cost_usd: usdFromNano(batch.costNano),
    metadata: batch.metadata,
    batch_routing: batch.routing,
    provider: batch.provider,
    webhook: webhookUrl && { url: webhookUrl, status: await deliveryStatus() },
  }
}

function usageOf({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Batch) {
  return {
    input_tokens: Number(promptTokens),
    input_tokens_details: { cached_tokens: Number(cachedTokens) },
    output_tokens: Number(completionTokens),
    output_tokens_details: { reasoning_tokens: Number(reasoningTokens) },
    total_tokens: Number(promptTokens + completionTokens),
  }
}
