import { GatewayError } from '../base/errors.ts'
import type { Batch } from '../jobs/batches.ts'
import { givenUp, maxOpenStarts } from '../jobs/suspects.ts'
import type { Services } from '../services.ts'
import { atProvider } from './at-provider.ts'
import { endBatch } from './end.ts'
import { InputLost } from './input.ts'
import type { BatchEndpoint, LineFault } from './request.ts'
import { runLines } from './run.ts'
import { sealFiles } from './seal.ts'
import { validateInput } from './validate.ts'

const makeRoomMs = 1_000
const none = { outputFileId: null, errorFileId: null }

/**
 * Takes a batch and brings it as far as it goes: validates its input, runs its lines, seals its files. Gives the delay in
 * milliseconds after which to come back, null when it is over or somebody else's. One whose validation, hand-over or sealing
 * saw too many workers die is failed. Throws Superseded once somebody else has taken it.
 */
export async function visitBatch(services: Services, id: string, stopping: AbortSignal): Promise<number | null> {
  const claimed = await services.batches.claim(id)
  if (!claimed) return null
  try {
    if (claimed.openStarts < maxOpenStarts) return await visit(services, claimed, stopping)
    await inTurn(services, claimed, () => giveUp(services, claimed))
    return null
  } finally {
    // Whatever came of it, it has ended. Of a batch that is over, or somebody else's, there is nothing to say.
    await services.batches.endVisit(claimed, 0).catch(() => {})
  }
}

async function visit(services: Services, claimed: Batch, stopping: AbortSignal): Promise<number | null> {
  const validating = await inTurn(services, claimed, () => validated(services, claimed))
  if (!validating) return null
  // Once it is validated, what follows is a phase of its own.
  const batch = { ...validating, openStarts: claimed.inProgressAt === null ? 0 : claimed.openStarts }
  try {
    const { delayMs, current } = await inTurn(services, batch, () => atProvider(services, batch))
    if (delayMs !== null) return delayMs
    if (current.status === 'finalizing') await inTurn(services, batch, () => finish(services, current))
    else if (await ran(services, current, stopping))
      await inTurn(services, { ...batch, openStarts: 0 }, () => finish(services, current))
    // Those it made room for go first; a worker that stops leaves it to another at once.
    else return stopping.aborted ? 0 : makeRoomMs
  } catch (error) {
    if (error instanceof InputLost) await failed(services, batch, [inputLost])
    else if (error instanceof GatewayError && error.param === 'batch_routing')
      await failed(services, batch, [faultOf(error)])
    else throw error
  }
  return null
}

/** Runs a phase of a batch; that of a suspect when its turn has come, and counted. */
function inTurn<T>(services: Services, batch: Batch, phase: () => Promise<T>): Promise<T> {
  const { suspects, batches } = services
  const counted = async () => {
    if (batch.openStarts > 0) await batches.begin(batch)
    return phase()
  }
  return suspects.run(batch.openStarts, counted, () => batches.endVisit(batch, batch.openStarts))
}

/** Fails a batch, with the results it has unless it is their sealing that its workers died of. */
async function giveUp(services: Services, batch: Batch): Promise<void> {
  const current = { ...(await services.batches.read(batch.id))!, epoch: batch.epoch }
  const isSealing = batch.status === 'finalizing' || batch.openStarts >= 2 * maxOpenStarts
  const files = isSealing ? none : await sealFiles(services, current)
  await endBatch(services, current, 'failed', { ...files, faults: [{ ...givenUp, line: null, param: null }] })
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
  const begun = await batches.change(batch, ['validating'], {
    ...{ status: 'in_progress', inProgressAt, total, model },
    openStarts: 1,
  })
  return begun.inProgressAt === null ? validated(services, begun) : begun
}

/** Runs the lines that are left; false when this process is stopping. */
async function ran(services: Services, batch: Batch, stopping: AbortSignal): Promise<boolean> {
  if (!(await runLines(services, batch, stopping))) return false
  const finalizingAt = new Date(services.clock.now())
  await services.batches.beginSealing(batch)
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
