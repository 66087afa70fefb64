import { GatewayError } from '../base/errors.ts'
import { dayMs, monthOf } from '../base/time.ts'
import type { FileServices } from '../files/file-services.ts'
import type { TransactionStep } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { Policy } from '../keys/policy.ts'
import { type Origin, traceEnqueued } from '../traces/work.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'
import type { BatchEndpoint } from './request.ts'

/** The parameters of a new batch. Its requests are in a file, or inline in the request itself. */
type BatchParams = {
  endpoint: BatchEndpoint
  input: { fileId: string } | { requests: readonly object[] }
  routing: Batch['routing']
  metadata: Record<string, string> | null
  webhookUrl: string | null
  outputLifeSeconds: number | null
}

const windowMs = dayMs
/** Inline requests are stored as a file, for twice the completion window. */
const inlineLifetimeMs = 2 * windowMs

/** Creates a batch, with what `beside` writes, and wakes a worker. Throws GatewayErrors: 400, 404 for a missing input, 429. */
export async function createBatch(
  services: BatchServices,
  policy: Policy,
  params: BatchParams,
  origin: Origin,
  beside?: TransactionStep<Batch>,
): Promise<Batch> {
  const { batches, batchWakes, clock, urlPolicy, files, log } = services
  const { organisationId, keyId, environment, capNano } = policy
  const { endpoint, input, routing, metadata, webhookUrl, outputLifeSeconds } = params
  if (webhookUrl !== null) await assertPublicUrl(webhookUrl, { ...urlPolicy, param: 'webhook_url' })
  await files.quota.assertRoom(policy)
  const inline = 'requests' in input ? await storeInline(services, policy, input.requests) : null
  const fileId = 'requests' in input ? inline!.fileId : input.fileId
  const nowMs = clock.now()
  const batch = await batches
    .create(
      {
        organisationId,
        keyId,
        environment,
        endpoint,
        routing,
        metadata,
        webhookUrl,
        outputLifeSeconds,
        requestId: origin.requestId,
        traceparent: traceEnqueued(origin.trace, 'batches', 'batch'),
        month: monthOf(nowMs),
        capNano: capNano === null ? null : BigInt(capNano),
        deadlineAt: new Date(nowMs + windowMs),
      },
      async tx => {
        const file = await files.findBatchInput(tx, fileId, { organisationId, environment })
        if (file) return file
        throw new GatewayError('not_found', `There is no file \`${fileId}\` with the purpose \`batch\`.`, {
          param: 'input_file_id',
        })
      },
      beside,
    )
    .catch(async error => {
      // Of a store that failed it is not known whether the batch is there, which would need its input. A file that stays expires.
      const isRefused = error instanceof GatewayError && error.status < 500
      if (inline && isRefused) await files.remove([inline]).catch(() => {})
      throw error
    })
  await batchWakes
    .add(batch.id)
    .catch(error => log.warn({ err: error, batch: batch.id }, 'cannot enqueue a new batch; maintenance requeues it'))
  return batch
}

function storeInline({ files, clock }: FileServices, policy: Policy, requests: readonly object[]) {
  const { organisationId, environment } = policy
  return files.store(linesOf(requests), {
    organisationId,
    environment,
    purpose: 'batch',
    filename: 'requests.jsonl',
    contentType: 'application/jsonl',
    expiresAtMs: clock.now() + inlineLifetimeMs,
  })
}

async function* linesOf(requests: readonly object[]): AsyncGenerator<Uint8Array> {
  for (const request of requests) yield Buffer.from(`${JSON.stringify(request)}\n`)
}
