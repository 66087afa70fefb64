import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import { maxOpenStarts, poisonError } from '../queues/crash-suspect-limiter.ts'
import { traceStep } from '../traces/work.ts'
import { releaseHolds } from '../wallet/holds.ts'
import { stepProviderBatch } from './at-provider/step.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'
import { InputLost } from './input.ts'
import { type FinalFiles, finalizeFiles } from './output-files.ts'
import type { BatchEndpoint, LineFault } from './request.ts'
import { runLines } from './run.ts'
import { validateInput } from './validate.ts'

const yieldDelayMs = 1_000
const none = { outputFileId: null, errorFileId: null }

/**
 * Claims a batch and advances it as far as possible: validates its input, runs its lines, finalizes its files. Returns the
 * delay in milliseconds before the next step, null when it is over. Fails a batch whose validation, provider submission or
 * finalizing killed too many workers. Throws Superseded once another worker has claimed it.
 */
export async function stepBatch(services: BatchServices, id: string, stopping: AbortSignal): Promise<number | null> {
  const claimed = await services.batches.claim(id)
  if (!claimed) return null
  try {
    const step = { traceparent: claimed.traceparent, queue: 'batches', name: 'process batch', id }
    if (claimed.openStarts < maxOpenStarts)
      return await traceStep(services.tracing, step, () => advance(services, claimed, stopping))
    await runPhase(services, claimed, () => failPoisoned(services, claimed))
    return null
  } finally {
    // The step has ended, with or without an error. Superseded is ignored here.
    await services.batches.endStep(claimed, 0).catch(() => {})
  }
}

async function advance(services: BatchServices, claimed: Batch, stopping: AbortSignal): Promise<number | null> {
  const validated = await runPhase(services, claimed, () => validateBatch(services, claimed))
  if (!validated) return null
  // Validation and execution are counted separately.
  const batch = { ...validated, openStarts: claimed.inProgressAt === null ? 0 : claimed.openStarts }
  try {
    const { delayMs, current } = await runPhase(services, batch, () => stepProviderBatch(services, batch))
    if (delayMs !== null) return delayMs
    if (current.status === 'finalizing') await runPhase(services, batch, () => finishBatch(services, current))
    else if (await runOpenLines(services, current, stopping))
      await runPhase(services, { ...batch, openStarts: 0 }, () => finishBatch(services, current))
    // The batches it yielded to go first; a stopping worker leaves it to another at once.
    else return stopping.aborted ? 0 : yieldDelayMs
  } catch (error) {
    if (error instanceof InputLost) await failBatch(services, batch, [inputLost])
    else if (error instanceof GatewayError && error.param === 'batch_routing')
      await failBatch(services, batch, [faultOf(error)])
    else throw error
  }
  return null
}

/** Runs a phase of a batch; a suspect waits for a permit, and its start is counted. */
function runPhase<T>(services: BatchServices, batch: Batch, phase: () => Promise<T>): Promise<T> {
  const { crashSuspects, batches } = services
  const countAndRun = async () => {
    if (batch.openStarts > 0) await batches.begin(batch)
    return phase()
  }
  return crashSuspects.run(batch.openStarts, countAndRun, () => batches.endStep(batch, batch.openStarts))
}

/** Fails a batch that killed its workers, with its results unless finalizing them was the cause. */
async function failPoisoned(services: BatchServices, batch: Batch): Promise<void> {
  const current = { ...(await services.batches.read(batch.id))!, epoch: batch.epoch }
  const isFinalizing = batch.status === 'finalizing' || batch.openStarts >= 2 * maxOpenStarts
  const files = isFinalizing ? none : await finalizeFiles(services, current)
  await endBatch(services, current, 'failed', { ...files, faults: [{ ...poisonError, line: null, param: null }] })
}

/** Validates a batch's input; returns the batch in progress, null when it is over. */
async function validateBatch(services: BatchServices, batch: Batch): Promise<Batch | null> {
  const { batches, blobs, clock } = services
  if (batch.inProgressAt !== null) return batch
  if (batch.status === 'cancelling') {
    await endBatch(services, batch, 'cancelled', none)
    return null
  }
  const input = await blobs.read(batch.inputKey)
  const outcome = input
    ? await validateInput(services, input.stream, batch.endpoint as BatchEndpoint)
    : { faults: [inputLost] }
  if ('faults' in outcome) {
    await endBatch(services, batch, 'failed', { ...none, faults: outcome.faults })
    return null
  }
  const inProgressAt = new Date(clock.now())
  const { total, model } = outcome
  const started = await batches.change(batch, ['validating'], {
    status: 'in_progress',
    inProgressAt,
    total,
    model,
    openStarts: 1,
  })
  return started.inProgressAt === null ? validateBatch(services, started) : started
}

/** Runs the open lines and moves the batch to `finalizing`; false when the run stopped before the end. */
async function runOpenLines(services: BatchServices, batch: Batch, stopping: AbortSignal): Promise<boolean> {
  if (!(await runLines(services, batch, stopping))) return false
  const finalizingAt = new Date(services.clock.now())
  await services.batches.beginFinalizing(batch)
  await services.batches.change(batch, ['in_progress'], { status: 'finalizing', finalizingAt })
  return true
}

async function finishBatch(services: BatchServices, batch: Batch): Promise<void> {
  const current = (await services.batches.read(batch.id))!
  const files = await finalizeFiles(services, { ...current, epoch: batch.epoch })
  const { status, expiredAt } = (await services.batches.read(batch.id))!
  const end = status === 'cancelling' ? 'cancelled' : expiredAt ? 'expired' : 'completed'
  await endBatch(services, { ...current, epoch: batch.epoch }, end, files)
}

/** Fails a batch that cannot continue, with the results it has. */
async function failBatch(services: BatchServices, batch: Batch, faults: LineFault[]): Promise<void> {
  const current = { ...(await services.batches.read(batch.id))!, epoch: batch.epoch }
  await endBatch(services, current, 'failed', { ...(await finalizeFiles(services, current)), faults })
}

function faultOf({ code, message, param }: GatewayError): LineFault {
  return { code, line: null, message, param }
}

const inputLost: LineFault = {
  code: 'not_found',
  line: null,
  message: 'The input file is no longer there. Upload it again and create a new batch.',
  param: 'input_file_id',
}

type Terminal = 'failed' | 'completed' | 'expired' | 'cancelled'

/**
 * Ends a batch: its status, its files and its webhook outbox row in one transaction. Maintenance tasks repeat the steps
 * after it if they are interrupted. Throws Superseded.
 */
async function endBatch(
  services: BatchServices,
  batch: Batch,
  status: Terminal,
  { faults = null, ...files }: FinalFiles & { faults?: LineFault[] | null },
): Promise<void> {
  const { batches, batchJournal, config, webhooks, files: store, scripts, log } = services
  const parts = await batchJournal.listParts(batch)
  const lifeMs = batch.outputLifeSeconds === null ? config.fileRetentionDays * dayMs : batch.outputLifeSeconds * 1_000
  const ids = [files.outputFileId, files.errorFileId].filter(id => id !== null)
  const ended = await batches.end(
    batch,
    status,
    { ...files, holdNano: 0n, ...(faults && { errors: faults }) },
    async tx => {
      await store.publish(tx, ids, 'batch_output', lifeMs)
      await batchJournal.clear(tx, batch.id)
    },
  )
  log.info({ batch: batch.id, status, completed: batch.completed, failed: batch.failed }, 'batch ended')
  const steps = [
    () => releaseHolds(scripts, [batch]),
    () => store.remove(parts),
    () => store.releaseInput(batch.inputFileId),
    () => webhooks.enqueue(ended.deliveryIds),
  ]
  for (const step of steps)
    await step().catch(error => log.warn({ err: error, batch: batch.id }, 'a step after the end of a batch failed'))
}
