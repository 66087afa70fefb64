import type { Price } from '../../catalog/schema.ts'
import type { DirectKind } from '../../kinds/index.ts'
import type { Platform } from '../../platform.ts'
import type { BatchAdapter, DirectAdapter, Operation, ProviderConnection, Target } from '../../providers/contract.ts'
import { releaseHolds } from '../../wallet/holds.ts'
import type { BatchServices } from '../batch-services.ts'
import type { Batch } from '../batches.ts'
import { type BatchEndpoint, batchEndpoints } from '../request.ts'

/** The provider that runs a batch: its batch adapter and client, and the adapter that reads its answers. */
export type ProviderBatch = {
  kind: DirectKind
  target: Target
  direct: DirectAdapter<DirectKind>
  adapter: BatchAdapter
  connection: ProviderConnection
}

/** The operation of a batch that the gateway runs: never submitted to a provider, or moved back from it. */
const here = { here: true } as const

/** Whether it is still open who runs the batch: not decided yet, or the outcome of the submission is unknown. */
export function isUndecided({ status, operation, environment, provider, completed, failed }: Batch): boolean {
  const isOpen = status === 'in_progress' || (status === 'cancelling' && provider !== null)
  return isOpen && environment === 'live' && operation === null && completed + failed === 0
}

export function isAtProvider({ operation }: Batch): boolean {
  return operation !== null && (operation as Operation).here !== true
}

/** The providers that could run the whole batch: those that serve its model and have a batch API for its kind. */
export function offersOf({ upstreams, catalog }: Platform, batch: Batch): Omit<ProviderBatch, 'connection'>[] {
  const kind = batchEndpoints[batch.endpoint as BatchEndpoint]
  const model = batch.model === null ? undefined : catalog.models.get(batch.model)
  if (!model) return []
  return upstreams.targets(model, batch.environment).flatMap(target => {
    const served = upstreams.adapter(kind, target, batch.environment)
    const { headers, parameters } = target.deployment
    // What the deployment adds is added to each request that the gateway sends, and a provider's own batch is one file.
    const adds = headers !== undefined || parameters !== undefined
    const adapter = target.provider.quirks?.batches === true && !adds ? served?.protocol.batch : undefined
    // The provider's own batch cannot run a completion that we translate to chat.
    if (!served || !adapter || served.adapter !== served.protocol.direct[kind]) return []
    return { kind, target, adapter, direct: served.adapter as DirectAdapter<DirectKind> }
  })
}

/**
 * The provider that has a batch, with the price at its reservation; null when it is no longer configured or no longer serves the
 * model.
 */
export function providerBatchOf(services: Platform, batch: Batch): ProviderBatch | null {
  const offer = offersOf(services, batch).find(({ target }) => target.provider.name === batch.provider)
  if (!offer) return null
  const { provider, deployment } = offer.target
  const price = (batch.price as Price | null) ?? deployment.price
  const target = { ...offer.target, deployment: { ...deployment, price } }
  return { ...offer, target, connection: services.upstreams.connectionTo(provider, 'live', batch.credentialId) }
}

/** Moves a batch's open lines to the gateway, and releases the reservation for the provider's run. */
export async function moveToGateway(services: BatchServices, batch: Batch, provider: string | null): Promise<Batch> {
  const data = { operation: here, holdNano: 0n, provider, ...(provider === null && { credentialId: null }) }
  const moved = await services.batches.change(batch, ['in_progress', 'cancelling'], data)
  await services.batchJournal.recount(batch)
  await releaseHolds(services.scripts, [batch])
  return moved
}
