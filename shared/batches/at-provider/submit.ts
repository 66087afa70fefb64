import { GatewayError } from '../../base/errors.ts'
import { dayMs } from '../../base/time.ts'
import type { Price } from '../../catalog/schema.ts'
import { chatFormatOf } from '../../chat/chat-formats.ts'
import { measureInline } from '../../chat/measure-request.ts'
import { noMedia } from '../../chat/remote-files.ts'
import { admitRequest } from '../../engine/base-run.ts'
import type { StoredFile } from '../../files/files.ts'
import { sourceOf } from '../../files/sources.ts'
import type { SlotOwner } from '../../io/fair-slots.ts'
import { hadNoEffect, isTransient } from '../../jobs/start.ts'
import type { ResolvedKey } from '../../keys/policies.ts'
import { allowedModels, type Policy } from '../../keys/policy.ts'
import type { DirectKind, DirectKinds } from '../../kinds/index.ts'
import type { Platform } from '../../platform.ts'
import type { Call } from '../../providers/contract.ts'
import { ProviderError } from '../../providers/provider-error.ts'
import { asksForRepair } from '../../providers/toolkit/request-fields.ts'
import type { Features } from '../../routing/features.ts'
import { marginOf, maxCostOf, mayExtendPrompt } from '../../routing/pricing.ts'
import { releaseHolds } from '../../wallet/holds.ts'
import { budgetIds, flatCost, type Reservation } from '../../wallet/reservation.ts'
import { BatchKey } from '../batch-key.ts'
import type { BatchServices } from '../batch-services.ts'
import type { Batch } from '../batches.ts'
import { readLines } from '../input.ts'
import { batchRateContext } from '../line-run.ts'
import { type BatchEndpoint, batchEndpoints, isBlank, readRequest } from '../request.ts'
import { moveToGateway, offersOf, type ProviderBatch, providerBatchOf } from './offer.ts'

/** Expiry of the file for the provider, which is useless once its batch has started. */
const fileLifetimeMs = dayMs

/**
 * Decides who runs a batch: submits it to a provider's own batch API where that is requested and possible, else leaves it to
 * the gateway. Returns the updated batch; without an operation it is unknown whether the provider has it. Throws a
 * GatewayError when a provider must run it and none can, or a store is away, a ProviderError when one that must run it may
 * take it later, and Superseded.
 */
export async function submitProviderBatch(services: BatchServices, batch: Batch): Promise<Batch> {
  if (batch.provider !== null) return recoverSubmission(services, batch)
  // Its lines end as expired there.
  const isDue = services.clock.now() >= batch.deadlineAt.getTime()
  if (batch.routing === 'gateway' || isDue) return moveToGateway(services, batch, null)
  try {
    return await submitToProvider(services, batch)
  } catch (error) {
    // A store that is away says nothing about who can run the batch: this step is repeated.
    const isRefusal = error instanceof ProviderError || error instanceof GatewayError
    if (!isRefusal || (error instanceof GatewayError && error.code === 'service_unavailable')) throw error
    const current = { ...(await services.batches.read(batch.id))!, epoch: batch.epoch }
    if (batch.routing === 'provider' && error instanceof ProviderError && isTransient(error)) {
      const withdrawn = await withdraw(services, current)
      if (withdrawn.status !== 'in_progress') return withdrawn
      throw error
    }
    services.log.info({ batch: batch.id, reason: error.message }, 'the gateway runs a batch itself')
    const moved = await moveToGateway(services, current, null)
    if (batch.routing === 'auto') return moved
    const [code, message] =
      error instanceof GatewayError
        ? [error.code, error.message]
        : (['upstream_error', `The provider did not take the batch: ${error.message}`] as const)
    throw new GatewayError(code, message, { param: 'batch_routing', cause: error })
  }
}

/**
 * Looks up a batch whose submission had no reply. The gateway runs it if it is not found or cannot be looked up; one that only a
 * provider may run is submitted again if it is not found.
 */
async function recoverSubmission(services: BatchServices, batch: Batch): Promise<Batch> {
  const providerBatch = providerBatchOf(services, batch)
  const operation = (await providerBatch?.adapter.find?.(batch.id, providerBatch.connection)) ?? null
  if (operation !== null) return services.batches.change(batch, ['in_progress', 'cancelling'], { operation })
  const isRepeatable = batch.routing === 'provider' && providerBatch?.adapter.find !== undefined
  return isRepeatable ? withdraw(services, batch) : moveToGateway(services, batch, null)
}

/** Makes a batch that its provider certainly does not have undecided again, and releases its hold. */
async function withdraw(services: BatchServices, batch: Batch): Promise<Batch> {
  const data = { holdNano: 0n, provider: null, credentialId: null }
  const withdrawn = await services.batches.change(batch, ['in_progress', 'cancelling'], data)
  await releaseHolds(services.scripts, [batch])
  return withdrawn
}

async function submitToProvider(services: BatchServices, batch: Batch): Promise<Batch> {
  const offers = offersOf(services, batch)
  if (offers.length === 0) throw cannot('its lines do not all go to one model of a provider that has one')
  const offer = offers.find(({ target }) => !services.upstreams.isPaused(target.provider.name))
  if (!offer) throw new ProviderError('overloaded', 'The provider is paused.', { unsent: true })
  const verdict = await new BatchKey(services, batch.keyId, offer.kind).resolve()
  if ('error' in verdict) throw verdict.error
  const { key } = verdict
  await services.policies.decide(key, policy => assertPermits(services, policy, offer))
  const { file, holdNano } = await writeProviderInput(services, batch, offer)
  // Writing the file takes time; the policy read before may be stale by now.
  key.forget()
  try {
    const reservation = await reserve(services, key, batch, offer, holdNano)
    const { provider } = offer.target
    const credentialId = services.upstreams.credential(offer.target).credential.id
    const { price } = offer.target.deployment
    const current = await attachHold(services, batch, reservation, { provider: provider.name, credentialId, price })
    if (current.provider === null) return current
    const connection = services.upstreams.connectionTo(provider, 'live', credentialId)
    return await startAtProvider(services, current, { ...offer, connection }, file)
  } finally {
    await services.files.remove([file]).catch(() => {}) // It expires.
  }
}

/** Asserts that a provider may run all lines of a key's batch by itself; returns the policy. Throws a GatewayError. */
function assertPermits({ catalog }: Platform, policy: Policy, { target }: Pick<ProviderBatch, 'target'>): Policy {
  if (policy.ownKeys !== null) throw cannot('its key uses own provider keys')
  if (policy.guardrails !== null) throw cannot('the guardrails of its key hold for each line')
  if (policy.provider !== null) throw cannot('the preferences of its key in `provider` hold for each line')
  if (policy.rpmLimit !== null || policy.tpmLimit !== null) throw cannot('the limits of its key hold for each line')
  if (allowedModels(catalog, policy)?.has(target.model.id) === false) throw cannot('its key may not use the model')
  return policy
}

/** Turns a reservation into the hold of a batch. A batch that was cancelled in the meantime is returned without a provider. */
async function attachHold(
  { batches, admission }: BatchServices,
  batch: Batch,
  reservation: Reservation,
  provider: { provider: string; credentialId: string; price: Price },
): Promise<Batch> {
  const { month, reservedNano, billing } = reservation
  const capNano = billing.capNano === null ? null : BigInt(billing.capNano)
  try {
    const current = await batches.change(batch, ['in_progress'], {
      ...provider,
      month,
      capNano,
      budgets: budgetIds(billing),
      holdNano: BigInt(reservedNano),
    })
    if (current.provider !== null) await admission.transferToJob(reservation)
    return current
  } finally {
    // Releases only what did not become the batch's hold.
    admission.release(reservation)
  }
}

async function startAtProvider(
  services: BatchServices,
  batch: Batch,
  { adapter, kind, connection }: ProviderBatch,
  file: StoredFile,
): Promise<Batch> {
  const source = sourceOf(services, { ...file, filename: `${batch.id}.jsonl`, durationS: null })
  try {
    const operation = await adapter.start(source, { kind, batchId: batch.id }, connection)
    return await services.batches.change(batch, ['in_progress', 'cancelling'], { operation })
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    services.log.warn({ err: error, batch: batch.id, provider: batch.provider }, 'cannot start a batch at its provider')
    if (hadNoEffect(error)) throw error
    return batch
  }
}

/** Reserves the maximum cost of all lines together, under the key's current policy. Throws what the admission throws. */
async function reserve(
  services: Platform,
  key: ResolvedKey,
  batch: Batch,
  offer: Pick<ProviderBatch, 'target'>,
  holdNano: bigint,
): Promise<Reservation> {
  const choose = (policy: Policy) => {
    assertPermits(services, policy, offer)
    return { maxCost: flatCost(Number(holdNano)) }
  }
  const { reservation } = await admitRequest(services, key, { id: batch.id }, choose, batchRateContext)
  return reservation
}

/** Writes the provider's input file, and sums up the maximum cost of its lines. Throws a GatewayError for unsuitable lines. */
async function writeProviderInput(
  services: BatchServices,
  batch: Batch,
  { adapter, direct, kind, target }: Omit<ProviderBatch, 'connection'>,
): Promise<{ file: StoredFile; holdNano: bigint }> {
  const { files, clock } = services
  const { before, between, after, contentType } = adapter.file
  let holdNano = 0n
  let bytes = 0
  const entries = async function* () {
    let lead = before
    for await (const { number, features, call } of readCalls(services, batch, target, kind)) {
      const asksForJson = features.jsonSchema || features.jsonObject
      if (asksForJson && (asksForRepair(call.body as object) || direct.request(call).structuredBy))
        throw cannot(`line ${number} asks for JSON that has to be checked`)
      if (direct.remoteMedia?.(call.body, call.target).length) throw cannot(`line ${number} refers to files by URL`)
      holdNano += maxLineNano(services, batch, target, features)
      const part = Buffer.from(lead + adapter.entry(kind, `l${number}`, call))
      bytes += part.length
      if (bytes > adapter.max.bytes) throw cannot('it is too large')
      lead = between
      yield part
    }
    yield Buffer.from(after)
  }
  if (batch.total > adapter.max.requests) throw cannot('it has too many lines')
  const file = await files.store(entries(), {
    organisationId: batch.organisationId,
    environment: batch.environment,
    purpose: 'batch_part',
    filename: `${batch.id}.jsonl`,
    contentType,
    expiresAtMs: clock.now() + fileLifetimeMs,
  })
  return { file, holdNano }
}

async function* readCalls(services: BatchServices, batch: Batch, target: ProviderBatch['target'], kind: DirectKind) {
  const format = chatFormatOf(kind)
  for await (const group of readLines(services.blobs, batch, { line: 1, byte: 0 })) {
    for (const { bytes, number } of group) {
      if (isBlank(bytes!)) continue
      const { body } = readRequest(bytes!)
      if ('models' in body || 'provider' in body) throw cannot(`line ${number} has a choice of providers or models`)
      const obstacle = format.batchObstacle?.(body) ?? null
      if (obstacle !== null) throw cannot(`line ${number} ${obstacle}`)
      format.noteUnknown?.(body)
      const features = await measuredFeatures(kind, body, bytes!.length, batch)
      if (features.unlisted) throw cannot(`line ${number} has members that cannot be sent`)
      const passesUnknown = services.config.passUnknownFields
      const complete = format.complete?.(body) ?? body
      const call: Call<DirectKind> = {
        target,
        body: complete,
        raw: null,
        maxTokens: null,
        media: noMedia,
        passesUnknown,
      }
      if (mayExtendPrompt(target, features) || features.toolReads)
        throw cannot(`line ${number} lets the provider read more than the request`)
      yield { number, features, call }
    }
  }
}

/** The features of a line with the measured sizes of its audio and documents. */
export async function measuredFeatures<K extends DirectKind>(
  kind: K,
  body: DirectKinds[K]['request'],
  bytes: number,
  owner: SlotOwner,
): Promise<Features> {
  const format = chatFormatOf(kind)
  // The length of the whole line, which exceeds its body's.
  const features = format.readFeatures(body, bytes)
  await measureInline(format, body, features, owner)
  return features
}

/** The maximum cost of one line of a batch at a target. */
export function maxLineNano(
  { config }: Platform,
  batch: Batch,
  target: ProviderBatch['target'],
  features: Features,
): bigint {
  const kind = batchEndpoints[batch.endpoint as BatchEndpoint]
  const { fixedNano, picoPerOutputToken, outputTokens } = maxCostOf(
    [target],
    features,
    marginOf(config, kind, config.discountsPpm.batch),
  )
  return BigInt(fixedNano + Math.ceil((outputTokens * picoPerOutputToken) / 1_000))
}

function cannot(why: string): GatewayError {
  return new GatewayError('invalid_request', `This batch cannot be handed to a provider’s own batch API: ${why}.`, {
    param: 'batch_routing',
  })
}
