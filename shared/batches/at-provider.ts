import type { Batch } from '../jobs/batches.ts'
import { type Operation, ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { type Away, awayOf, isAway, isUndecided, takeBack } from './away.ts'
import { collect } from './collect.ts'
import { handOver } from './hand-over.ts'

const startLookMs = 5_000
const troubleLookMs = 30_000
const lookMs = { least: 5_000, most: 60_000 }
/** How long after its end a provider is given to say so. */
const patienceMs = 30 * 60_000

/** When to come back to a batch that a provider runs; null = its open lines, if there are any, are the gateway's. */
export type Stay = { delayMs: number | null; current: Batch }

/**
 * The part of a batch's life that is a provider's: hands it over, looks how far it is, takes its answers in. A batch that
 * the gateway runs passes through. Throws a GatewayError about `batch_routing` when only a provider was to run it and none
 * can; Superseded; InputLost.
 */
export async function atProvider(services: Services, batch: Batch): Promise<Stay> {
  let current = batch
  try {
    if (isUndecided(batch)) current = await handOver(services, batch)
    if (isUndecided(current)) return { delayMs: startLookMs, current }
    return isAway(current) ? await look(services, current) : { delayMs: null, current }
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    services.log.warn({ err: error, batch: batch.id, provider: batch.provider }, 'cannot ask a provider about a batch')
    if (services.clock.now() < batch.deadlineAt.getTime() + patienceMs && !isGone(error))
      return { delayMs: troubleLookMs, current }
    return { delayMs: null, current: await takeBack(services, current, null) }
  }
}

async function look(services: Services, batch: Batch): Promise<Stay> {
  const away = awayOf(services, batch)
  if (!away) return { delayMs: null, current: await takeBack(services, batch, null) }
  const operation = batch.operation as Operation
  const { over, completed, failed } = await away.adapter.check(operation, away.line)
  if (over) return { delayMs: null, current: await collected(services, batch, away) }
  const nowMs = services.clock.now()
  const isDue = nowMs >= batch.deadlineAt.getTime()
  if (batch.status === 'cancelling' || isDue) await away.adapter.cancel(operation, away.line)
  if (nowMs >= batch.deadlineAt.getTime() + patienceMs)
    return { delayMs: null, current: await takeBack(services, batch, null) }
  const current = await services.batches.change(batch, ['in_progress', 'cancelling'], { completed, failed })
  const ageMs = nowMs - batch.createdAt.getTime()
  return { delayMs: Math.min(Math.max(ageMs / 20, lookMs.least), lookMs.most), current }
}

async function collected(services: Services, batch: Batch, away: Away): Promise<Batch> {
  await collect(services, batch, away)
  return takeBack(services, batch, batch.provider)
}

/** The provider refused the whole batch in its own validation, or no longer knows it. */
function isGone({ reason, status }: ProviderError): boolean {
  return (reason === 'invalid_request' && status === null) || status === 404
}
