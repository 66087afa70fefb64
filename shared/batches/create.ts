import { GatewayError } from '../base/errors.ts'
import { monthOf } from '../base/time.ts'
import type { Beside } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { Batch } from '../jobs/batches.ts'
import type { Policy } from '../keys/policy.ts'
import type { Services } from '../services.ts'
import type { BatchEndpoint } from './request.ts'

/** What a batch is asked for. Its requests are in a file, or in the request itself. */
export type BatchOrder = {
  endpoint: BatchEndpoint
  input: { fileId: string } | { requests: readonly object[] }
  routing: Batch['routing']
  metadata: Record<string, string> | null
  webhookUrl: string | null
  outputLifeSeconds: number | null
}

const windowMs = 24 * 3_600_000
/** Requests that came without a file are kept as one, as long as the batch and a while more. */
const inlineForMs = 2 * windowMs

/** Takes a batch on, with whatever `beside` writes, and wakes a worker for it. Throws GatewayErrors: 400, 404 for an input that is not there, 429. */
export async function createBatch(
  services: Services,
  policy: Policy,
  order: BatchOrder,
  requestId: string,
  beside?: Beside<Batch>,
): Promise<Batch> {
  const { batches, batchWakes, clock, door, files, log } = services
  const { organisationId, keyId, environment, capNano } = policy
  const { endpoint, input, routing, metadata, webhookUrl, outputLifeSeconds } = order
  if (webhookUrl !== null) await assertPublicUrl(webhookUrl, { ...door, param: 'webhook_url' })
  await files.quota.assertRoom(policy)
  const inline = 'requests' in input ? await storeInline(services, policy, input.requests) : null
  const fileId = 'requests' in input ? inline!.fileId : input.fileId
  const nowMs = clock.now()
  const fields = { organisationId, keyId, environment, endpoint, routing, metadata, webhookUrl, outputLifeSeconds }
  const batch = await batches
    .create(
      {
        ...fields,
        requestId,
        month: monthOf(nowMs),
        capNano: capNano === null ? null : BigInt(capNano),
        deadlineAt: new Date(nowMs + windowMs),
      },
      async tx => {
        const file = await files.batchInput(tx, fileId, { organisationId, environment })
        if (file) return file
        throw new GatewayError('not_found', `There is no file \`${fileId}\` with the purpose \`batch\`.`, {
          param: 'input_file_id',
        })
      },
      beside,
    )
    .catch(async error => {
      if (inline) await files.remove([inline]).catch(() => {}) // It expires.
      throw error
    })
  await batchWakes.add(batch.id).catch(error => log.warn({ err: error, batch: batch.id }, 'new batch is queued later'))
  return batch
}

function storeInline({ files, clock }: Services, policy: Policy, requests: readonly object[]) {
  const { organisationId, environment } = policy
  return files.store(linesOf(requests), {
    organisationId,
    environment,
    purpose: 'batch',
    filename: 'requests.jsonl',
    contentType: 'application/jsonl',
    expiresAtMs: clock.now() + inlineForMs,
  })
}

async function* linesOf(requests: readonly object[]): AsyncGenerator<Uint8Array> {
  for (const request of requests) yield Buffer.from(`${JSON.stringify(request)}\n`)
}
