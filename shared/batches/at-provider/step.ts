import type { Operation } from '../../providers/contract.ts'
import { ProviderError } from '../../providers/provider-error.ts'
import type { BatchServices } from '../batch-services.ts'
import type { Batch } from '../batches.ts'
import { collectProviderBatch } from './collect.ts'
import { isAtProvider, isUndecided, moveToGateway, type ProviderBatch, providerBatchOf } from './offer.ts'
import { submitProviderBatch } from './submit.ts'

const unconfirmedPollMs = 5_000
/** A hand-over that is repeated sends the whole file again. */
const errorPollMs = { min: 30_000, max: 10 * 60_000 }
const pollMs = { min: 5_000, max: 60_000 }
/** Grace period after a batch's deadline in which its provider may still report the end. */
const endGraceMs = 30 * 60_000

/** The delay before the next poll of a provider's batch; null = the gateway runs its open lines, if any. */
type ProviderStep = { delayMs: number | null; current: Batch }

/**
 * One step of a batch at a provider: submits it, polls it, or collects its answers. A batch that the gateway runs passes
 * through. Throws a GatewayError about `batch_routing` when only a provider may run it and none can; Superseded; InputLost.
 */
export async function stepProviderBatch(services: BatchServices, batch: Batch): Promise<ProviderStep> {
  let current = batch
  try {
    if (isUndecided(batch)) current = await submitProviderBatch(services, batch)
    if (isUndecided(current)) return { delayMs: unconfirmedPollMs, current }
    return isAtProvider(current) ? await pollProvider(services, current) : { delayMs: null, current }
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    services.log.warn({ err: error, batch: batch.id, provider: batch.provider }, 'cannot ask a provider about a batch')
    const leftMs = batch.deadlineAt.getTime() + endGraceMs - services.clock.now()
    if (leftMs > 0 && !isGone(error)) return { delayMs: errorDelayMs(services, batch, error), current }
    return { delayMs: null, current: await moveToGateway(services, current, null) }
  }
}

async function pollProvider(services: BatchServices, batch: Batch): Promise<ProviderStep> {
  const providerBatch = providerBatchOf(services, batch)
  if (!providerBatch) return { delayMs: null, current: await moveToGateway(services, batch, null) }
  const operation = batch.operation as Operation
  const { isOver, completed, failed } = await providerBatch.adapter.check(operation, providerBatch.connection)
  if (isOver) return { delayMs: null, current: await collectAndMove(services, batch, providerBatch) }
  const nowMs = services.clock.now()
  const isDue = nowMs >= batch.deadlineAt.getTime()
  if (batch.status === 'cancelling' || isDue) await providerBatch.adapter.cancel(operation, providerBatch.connection)
  if (nowMs >= batch.deadlineAt.getTime() + endGraceMs)
    return { delayMs: null, current: await moveToGateway(services, batch, null) }
  const current = await services.batches.change(batch, ['in_progress', 'cancelling'], { completed, failed })
  const ageMs = nowMs - batch.createdAt.getTime()
  return { delayMs: Math.min(Math.max(ageMs / 20, pollMs.min), pollMs.max), current }
}

async function collectAndMove(services: BatchServices, batch: Batch, providerBatch: ProviderBatch): Promise<Batch> {
  await collectProviderBatch(services, batch, providerBatch)
  return moveToGateway(services, batch, batch.provider)
}

/** The delay after an error: what the provider asked for, growing with the batch's age, but not past its deadline. */
function errorDelayMs({ clock }: BatchServices, batch: Batch, { retryAfterMs }: ProviderError): number {
  const nowMs = clock.now()
  const askedMs = Math.max(retryAfterMs ?? 0, (nowMs - batch.createdAt.getTime()) / 20)
  const untilDueMs = Math.max(batch.deadlineAt.getTime() - nowMs, 0)
  return Math.max(errorPollMs.min, Math.min(askedMs, errorPollMs.max, untilDueMs))
}

/** The provider refused the whole batch in its own validation, or no longer knows it. */
function isGone({ reason, status }: ProviderError): boolean {
  return (reason === 'invalid_request' && status === null) || status === 404
}
