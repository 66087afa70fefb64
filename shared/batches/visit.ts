import { GatewayError } from '../base/errors.ts'
import type { Batch } from '../jobs/batches.ts'
import type { Services } from '../services.ts'
import { atProvider } from './at-provider.ts'
import { endBatch } from './end.ts'
import { InputLost } from './input.ts'
import type { BatchEndpoint, LineFault } from './request.ts'
import { runLines } from './run.ts'
import { sealFiles } from './seal.ts'
import { validateInput } from './validate.ts'

const none = { outputFileId: null, errorFileId: null }

/**
 * Takes a batch and brings it as far as it goes: validates its input, runs its lines, seals its files. Gives the delay in
 * milliseconds after which to come back, null when it is over or somebody else's. Throws Superseded once somebody else has
 * taken it.
 */
export async function visitBatch(services: Services, id: string, stopping: AbortSignal): Promise<number | null> {
  const claimed = await services.batches.claim(id)
  if (!claimed) return null
  const batch = await validated(services, claimed)
  if (!batch) return null
  try {
    const { delayMs, current } = await atProvider(services, batch)
    if (delayMs !== null) return delayMs
    if (current.status !== 'finalizing' && !(await ran(services, current, stopping))) return 0
    await finish(services, current)
  } catch (error) {
    if (error instanceof InputLost) await failed(services, batch, [inputLost])
    else if (error instanceof GatewayError && error.param === 'batch_routing')
      await failed(services, batch, [faultOf(error)])
    else throw error
  }
  return null
}

/** The batch once its input is known to be good; null when it is over. */
async function validated(services: Services, batch: Batch): Promise<Batch | null> {
  const { batches, blobs, clock } = services
  if (batch.inProgressAt !== null) return batch
  if (batch.status === 'cancelling') {
    await endBatch(services, batch, 'cancelled', none)
    return null
  }
  const input = await blobs.read(batch.inputKey)
  const found = input
    ? await validateInput(services, input.stream, batch.endpoint as BatchEndpoint)
    : { faults: [inputLost] }
  if ('faults' in found) {
    await endBatch(services, batch, 'failed', { ...none, faults: found.faults })
    return null
  }
  const inProgressAt = new Date(clock.now())
  const { total, model } = found
  const begun = await batches.change(batch, ['validating'], { status: 'in_progress', inProgressAt, total, model })
  return begun.inProgressAt === null ? validated(services, begun) : begun
}

/** Runs the lines that are left; false when this process is stopping. */
async function ran(services: Services, batch: Batch, stopping: AbortSignal): Promise<boolean> {
  if (!(await runLines(services, batch, stopping))) return false
  const finalizingAt = new Date(services.clock.now())
  await services.batches.change(batch, ['in_progress'], { status: 'finalizing', finalizingAt })
  return true
}

async function finish(services: Services, batch: Batch): Promise<void> {
  const current = (await services.batches.read(batch.id))!
  const files = await sealFiles(services, { ...current, epoch: batch.epoch })
  const { status, expiredAt } = (await services.batches.read(batch.id))!
  const end = status === 'cancelling' ? 'cancelled' : expiredAt ? 'expired' : 'completed'
  await endBatch(services, { ...current, epoch: batch.epoch }, end, files)
}

/** Ends a batch that cannot go on with what it has. */
async function failed(services: Services, batch: Batch, faults: LineFault[]): Promise<void> {
  const current = { ...(await services.batches.read(batch.id))!, epoch: batch.epoch }
  await endBatch(services, current, 'failed', { ...(await sealFiles(services, current)), faults })
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
