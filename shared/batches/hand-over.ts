import { GatewayError } from '../base/errors.ts'
import { noMedia } from '../chat/media.ts'
import { boundOf, marginOf } from '../chat/pricing.ts'
import type { Batch } from '../jobs/batches.ts'
import type { StoredFile } from '../jobs/files.ts'
import { allowedModels } from '../keys/allowlist.ts'
import type { Known } from '../keys/policies.ts'
import { authorise } from '../keys/policy.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind } from '../kinds/index.ts'
import { sourceOf } from '../media/sources.ts'
import { hadNoEffect } from '../media/start.ts'
import { type Call, ProviderError } from '../providers/contract.ts'
import { hasFunctions } from '../providers/functions-over-tools.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import { spenderOf } from '../wallet/spender.ts'
import { type Away, awayOf, offersOf, takeBack } from './away.ts'
import { BatchKey } from './batch-key.ts'
import { readLines } from './input.ts'
import { inBatchMinutes, measuredFeatures } from './line.ts'
import { type BatchEndpoint, batchEndpoints, isBlank, readRequest } from './request.ts'

/** A file for the provider is of no use once its batch has begun; a start that failed leaves it until then. */
const fileForMs = 24 * 3_600_000

/**
 * Decides who runs a batch: hands it to a provider's own batch API where that is wanted and possible, else leaves it to the
 * gateway. Gives the batch as it is then; without an operation nobody knows yet whether the provider has it. Throws a
 * GatewayError when it was to go to a provider and cannot, and Superseded.
 */
export async function handOver(services: Services, batch: Batch): Promise<Batch> {
  if (batch.provider !== null) return found(services, batch)
  if (batch.routing === 'gateway') return takeBack(services, batch, null)
  try {
    return await handedOver(services, batch)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    services.log.info({ batch: batch.id, reason: error.message }, 'the gateway runs a batch itself')
    const current = (await services.batches.read(batch.id))!
    const back = await takeBack(services, { ...current, epoch: batch.epoch }, null)
    if (batch.routing === 'auto') return back
    throw new GatewayError(error.code, error.message, { param: 'batch_routing', cause: error })
  }
}

/** Looks for a batch whose start was never answered. The gateway runs it when it is not there, or nobody can tell. */
async function found(services: Services, batch: Batch): Promise<Batch> {
  const away = awayOf(services, batch)
  const operation = (await away?.adapter.find?.(batch.id, away.line)) ?? null
  if (operation === null) return takeBack(services, batch, null)
  return services.batches.change(batch, ['in_progress', 'cancelling'], { operation })
}

async function handedOver(services: Services, batch: Batch): Promise<Batch> {
  const [offer] = offersOf(services, batch)
  if (!offer) throw cannot('its lines do not all go to one model of a provider that has one')
  const judged = await new BatchKey(services, batch.keyId, offer.kind).known()
  if ('error' in judged) throw judged.error
  const { known } = judged
  const { policy } = known
  if (policy.rpmLimit !== null || policy.tpmLimit !== null) throw cannot('the limits of its key hold for each line')
  if (allowedModels(services.catalog, policy)?.has(offer.target.model.id) === false)
    throw cannot('its key may not use the model')
  const { file, holdNano } = await prepared(services, batch, offer)
  try {
    const ticket = await reserved(services, known, batch, holdNano)
    const { provider } = offer.target
    const credentialId = services.upstreams.credential(offer.target).credential.id
    const asked = await held(services, batch, ticket, { provider: provider.name, credentialId })
    if (asked.provider === null) return asked
    const line = services.upstreams.line(provider, 'live', credentialId)
    return await started(services, asked, { ...offer, line }, file)
  } finally {
    await services.files.remove([file]).catch(() => {}) // It expires.
  }
}

/** Makes a reservation the hold of a batch. One that was cancelled meanwhile stays as it is, without a provider. */
async function held(
  { batches, admission }: Services,
  batch: Batch,
  ticket: Ticket,
  asked: { provider: string; credentialId: string },
): Promise<Batch> {
  const { month, reservedNano, spender } = ticket
  const capNano = spender.capNano === null ? null : BigInt(spender.capNano)
  try {
    const current = await batches.change(batch, ['in_progress'], {
      ...asked,
      month,
      capNano,
      holdNano: BigInt(reservedNano),
    })
    if (current.provider !== null) await admission.keepForJob(ticket)
    return current
  } finally {
    // What became the batch's own stays.
    admission.release(ticket)
  }
}

async function started(services: Services, batch: Batch, away: Away, file: StoredFile): Promise<Batch> {
  const { adapter, kind, line } = away
  const source = sourceOf(services, { ...file, filename: `${batch.id}.jsonl`, durationS: null })
  try {
    const operation = await adapter.start(source, { kind, batchId: batch.id }, line)
    return await services.batches.change(batch, ['in_progress', 'cancelling'], { operation })
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    services.log.warn({ err: error, batch: batch.id, provider: batch.provider }, 'a provider did not take a batch')
    if (hadNoEffect(error))
      throw new GatewayError('upstream_error', `The provider did not take the batch: ${error.message}`)
    return batch
  }
}

/** Reserves what all lines together may cost. Throws what the admission throws. */
function reserved({ policies, admission, clock }: Services, known: Known, batch: Batch, holdNano: bigint) {
  const bound = {
    estimatedTokens: 0,
    fixedNano: Number(holdNano),
    picoPerOutputToken: 0,
    outputTokens: 0,
    explicit: true,
  }
  return policies.decide(known, ({ policy, fresh, scope }) => {
    authorise(policy, scope, clock.now())
    return admission.admit(inBatchMinutes(spenderOf(policy)), fresh, batch.id, bound)
  })
}

/** Writes the file of requests as the provider takes it, and adds up what they may cost. Throws a GatewayError when it cannot be. */
async function prepared(
  services: Services,
  batch: Batch,
  { adapter, direct, kind, target }: Omit<Away, 'line'>,
): Promise<{ file: StoredFile; holdNano: bigint }> {
  const { files, clock } = services
  const { before, between, after, contentType } = adapter.file
  let holdNano = 0n
  let bytes = 0
  const entries = async function* () {
    let lead = before
    for await (const { number, features, call } of calls(services, batch, target, kind)) {
      if (direct.remoteMedia?.(call.body).length) throw cannot(`line ${number} refers to files by URL`)
      holdNano += mostNano(services, batch, target, features)
      const part = Buffer.from(lead + adapter.entry(kind, `l${number}`, call))
      bytes += part.length
      if (bytes > adapter.most.bytes) throw cannot('it is too large')
      lead = between
      yield part
    }
    yield Buffer.from(after)
  }
  if (batch.total > adapter.most.requests) throw cannot('it has too many lines')
  const file = await files.store(entries(), {
    organisationId: batch.organisationId,
    environment: batch.environment,
    purpose: 'batch_part',
    filename: `${batch.id}.jsonl`,
    contentType,
    expiresAtMs: clock.now() + fileForMs,
  })
  return { file, holdNano }
}

async function* calls(services: Services, batch: Batch, target: Away['target'], kind: DirectKind) {
  for await (const group of readLines(services.blobs, batch, { line: 1, byte: 0 })) {
    for (const { bytes, number } of group) {
      if (isBlank(bytes!)) continue
      const { body } = readRequest(bytes!)
      if ('models' in body || 'provider' in body) throw cannot(`line ${number} has a choice of providers or models`)
      if (kind === 'chat' && hasFunctions(body as ChatRequest)) throw cannot(`line ${number} has functions, not tools`)
      const call: Call<DirectKind> = { target, body, raw: null, maxTokens: null, media: noMedia }
      const features = await measuredFeatures(kind, body, bytes!.length, batch.organisationId)
      yield { number, features, call }
    }
  }
}

/** The most that one line of a batch may cost at a target. */
export function mostNano({ config }: Services, batch: Batch, target: Away['target'], features: Features): bigint {
  const kind = batchEndpoints[batch.endpoint as BatchEndpoint]
  const { fixedNano, picoPerOutputToken, outputTokens } = boundOf(
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
