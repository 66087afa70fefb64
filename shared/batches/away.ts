import type { Batch } from '../jobs/batches.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { BatchAdapter, DirectAdapter, Operation, ProviderLine, Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { dropHolds } from '../wallet/holds.ts'
import { type BatchEndpoint, batchEndpoints } from './request.ts'

/** A batch at the provider that runs it: how to ask about it, and what its answers are read with. */
export type Away = {
  kind: DirectKind
  target: Target
  direct: DirectAdapter<DirectKind>
  adapter: BatchAdapter
  line: ProviderLine
}

/** The operation of a batch whose lines are run here: never handed over, or back again. */
const here = { here: true } as const

/** Nobody has decided yet who runs the batch; or a provider was asked to, and its answer never came. */
export function isUndecided({ status, operation, environment, provider, completed, failed }: Batch): boolean {
  const isOpen = status === 'in_progress' || (status === 'cancelling' && provider !== null)
  return isOpen && environment === 'live' && operation === null && completed + failed === 0
}

export function isAway({ operation }: Batch): boolean {
  return operation !== null && (operation as Operation).here !== true
}

/** Who could run a batch of this model whole: the first provider of the model that has a batch API for its kind. */
export function offersOf({ upstreams, catalog }: Services, batch: Batch): Omit<Away, 'line'>[] {
  const kind = batchEndpoints[batch.endpoint as BatchEndpoint]
  const model = batch.model === null ? undefined : catalog.models.get(batch.model)
  if (!model) return []
  return upstreams.targets(model, batch.environment).flatMap(target => {
    const served = upstreams.adapter(kind, target, batch.environment)
    const adapter = target.provider.quirks?.batches === true ? served?.protocol.batch : undefined
    // A completion over a chat model is not what the provider's own batch would run.
    if (!served || !adapter || served.adapter !== served.protocol.direct[kind]) return []
    return { kind, target, adapter, direct: served.adapter as DirectAdapter<DirectKind> }
  })
}

/** The provider that has a batch; null when it is no longer configured or no longer serves the model. */
export function awayOf(services: Services, batch: Batch): Away | null {
  const offer = offersOf(services, batch).find(({ target }) => target.provider.name === batch.provider)
  if (!offer) return null
  return { ...offer, line: services.upstreams.line(offer.target.provider, 'live', batch.credentialId) }
}

/** Has the gateway run whatever lines have no result: what was reserved for the provider's run is given up. */
export async function takeBack(services: Services, batch: Batch, provider: string | null): Promise<Batch> {
  const data = { operation: here, holdNano: 0n, provider, ...(provider === null && { credentialId: null }) }
  const back = await services.batches.change(batch, ['in_progress', 'cancelling'], data)
  await services.batchJournal.recount(batch)
  await dropHolds(services.scripts, [batch])
  return back
}
