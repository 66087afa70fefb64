import { newId } from '../../base/ids.ts'
import { chatFormatOf } from '../../chat/chat-formats.ts'
import { noMedia } from '../../chat/remote-files.ts'
import { failureOf } from '../../engine/failures.ts'
import { type Bill, usageEvent } from '../../engine/report.ts'
import type { ResolvedKey } from '../../keys/policies.ts'
import type { BatchAnswer, Operation } from '../../providers/contract.ts'
import { isRequestFault, ProviderError } from '../../providers/provider-error.ts'
import { marginOf } from '../../routing/pricing.ts'
import type { Reservation } from '../../wallet/admission.ts'
import type { BatchServices } from '../batch-services.ts'
import type { Batch } from '../batches.ts'
import { readLines } from '../input.ts'
import { answeredText, type FinishedLine, refusalOf } from '../line-output.ts'
import { isBlank, readRequest } from '../request.ts'
import { ResultWriter } from '../result-writer.ts'
import type { ProviderBatch } from './offer.ts'
import { maxLineNano, measuredFeatures } from './submit.ts'

/** Limits of the answers that are buffered until their lines are read. */
const maxCharacters = 32 * 1024 * 1024
const maxAnswers = 10_000

/**
 * Writes the answers of a provider's finished batch to the journal, each with its charge. Lines without an answer stay open
 * unless the provider refused them: the gateway runs them. Rejects with ProviderErrors, Superseded, InputLost.
 */
export async function collectProviderBatch(
  services: BatchServices,
  batch: Batch,
  providerBatch: ProviderBatch,
): Promise<void> {
  const collector = new Collector(services, batch, providerBatch)
  await services.batchJournal.recount(batch)
  const done = await services.batchJournal.listFinishedLines(batch, 1)
  try {
    const { adapter, connection } = providerBatch
    for await (const answer of adapter.results(batch.operation as Operation, connection)) {
      const line = Number(/^l(\d+)$/.exec(answer.id)?.[1])
      if (!Number.isSafeInteger(line) || done.has(line)) continue
      done.add(line)
      await collector.add(line, answer)
    }
    await collector.flush()
  } finally {
    collector.close()
  }
}

class Collector {
  readonly #services: BatchServices
  readonly #batch: Batch
  readonly #providerBatch: ProviderBatch
  readonly #writer: ResultWriter
  #key: ResolvedKey | null = null
  #buffered = new Map<number, BatchAnswer>()
  #bufferedCharacters = 0
  #failure: unknown = null

  constructor(services: BatchServices, batch: Batch, providerBatch: ProviderBatch) {
    this.#services = services
    this.#batch = batch
    this.#providerBatch = providerBatch
    this.#writer = new ResultWriter(services, batch, {
      resume: () => ({ line: 1, byte: 0 }),
      onWritten() {},
      async release() {}, // The batch has one hold for all lines.
      onFailed: error => {
        this.#failure = error
      },
    })
  }

  async add(line: number, answer: BatchAnswer): Promise<void> {
    if ('error' in answer && !isRequestFault(answer.error)) return
    this.#buffered.set(line, answer)
    this.#bufferedCharacters += 'json' in answer ? JSON.stringify(answer.json).length : 0
    if (this.#buffered.size >= maxAnswers || this.#bufferedCharacters >= maxCharacters) await this.flush()
  }

  /** Reads the lines of the buffered answers and writes their results. */
  async flush(): Promise<void> {
    if (this.#buffered.size === 0) return
    for await (const group of readLines(this.#services.blobs, this.#batch, { line: 1, byte: 0 })) {
      for (const { number, bytes } of group) {
        const answer = this.#buffered.get(number)
        if (!answer) continue
        this.#buffered.delete(number)
        if (isBlank(bytes!)) continue // It was never sent.
        this.#writer.add(await this.#bill(number, bytes!, answer))
      }
      if (this.#writer.backlog.characters > maxCharacters) await this.#writer.drain()
      if (this.#buffered.size === 0) break
    }
    await this.#writer.drain()
    if (this.#failure) throw this.#failure
    this.#buffered.clear()
    this.#bufferedCharacters = 0
  }

  close(): void {
    this.#writer.close()
  }

  async #bill(line: number, bytes: Buffer, answer: BatchAnswer): Promise<FinishedLine> {
    const { customId, body } = readRequest(bytes)
    const { target, direct, kind } = this.#providerBatch
    const format = chatFormatOf(kind)
    const requestId = newId('req')
    const result = { line, customId, reservation: null }
    const refused = (error: ProviderError): FinishedLine => {
      const failure = failureOf([{ target, error }], error)
      const { status, body } = refusalOf(kind, failure, 0)
      const text = answeredText(customId, requestId, status, body)
      return { ...result, failed: true, text, event: null }
    }
    if ('error' in answer) return refused(answer.error)
    const id = newId(format.idPrefix)
    const call = { target, body, raw: null, maxTokens: null, media: noMedia }
    const features = await measuredFeatures(kind, body, bytes.length, this.#batch)
    const reservation = await this.#reservationFor(
      line,
      Number(maxLineNano(this.#services, this.#batch, target, features)),
    )
    try {
      const whole = { adapter: direct, call, json: answer.json, id }
      const { billed, shown } = await format.billAnswer(whole, { features, marginPpm: this.#marginPpm, free: false })
      const text = answeredText(customId, requestId, 200, JSON.stringify(shown))
      return {
        ...result,
        failed: false,
        text,
        event: await this.#event(id, requestId, reservation, billed),
      }
    } catch (error) {
      if (error instanceof ProviderError) return refused(error)
      throw error
    }
  }

  async #event(id: string, requestId: string, reservation: Reservation, billed: Bill) {
    const { policy } = await this.#resolveKey()
    const { kind, target } = this.#providerBatch
    const call = {
      id,
      kind,
      requestId,
      stream: false,
      // The cap under which the whole batch was reserved.
      policy: { ...policy, capNano: reservation.billing.capNano },
      mode: policy.mode,
      attempts: 1,
      firstByteMs: null,
      durationMs: 0,
      marginPpm: this.#marginPpm,
      routing: { batch: this.#batch.id },
      model: target.model.id,
      provider: target.provider.name,
      startedMs: this.#services.clock.now(),
    }
    return usageEvent(call, reservation, billed)
  }

  get #marginPpm(): bigint {
    const { config } = this.#services
    return marginOf(config, this.#providerBatch.kind, config.discountsPpm.batch)
  }

  /** This line's share of the batch's hold, as a reservation. */
  async #reservationFor(line: number, reservedNano: number): Promise<Reservation> {
    const { policy } = await this.#resolveKey()
    const { id, month, capNano } = this.#batch
    return {
      id: `${id}:${line}`,
      billing: { ...policy, capNano: capNano === null ? null : Number(capNano) },
      month,
      reservedNano,
      maxNano: reservedNano,
      outputTokens: 0,
      reservedTokens: 0,
      clamped: false,
      explicit: false,
      countedTokens: 0,
      tokenBucketsUs: { own: 0, shared: 0 },
      rates: { requests: null, tokens: null },
    }
  }

  /** Resolves the key without a scope check: the work to be charged is already done. */
  async #resolveKey(): Promise<ResolvedKey> {
    this.#key ??= await this.#services.policies.findByKeyId(this.#batch.keyId, null)
    return this.#key
  }
}
