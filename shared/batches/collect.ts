import { newId } from '../base/ids.ts'
import type { Bill } from '../chat/bill.ts'
import { failureOf } from '../chat/failures.ts'
import { noMedia } from '../chat/media.ts'
import { idPrefix } from '../chat/order.ts'
import { marginOf } from '../chat/pricing.ts'
import { usageEvent } from '../chat/report.ts'
import { billWhole } from '../chat/whole.ts'
import type { Batch } from '../jobs/batches.ts'
import type { Known } from '../keys/policies.ts'
import { type BatchAnswer, isRequestFault, type Operation, ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import { spenderOf } from '../wallet/spender.ts'
import type { Away } from './away.ts'
import { mostNano } from './hand-over.ts'
import { readLines } from './input.ts'
import { answeredText, type Finished, measuredFeatures } from './line.ts'
import { readRequest } from './request.ts'
import { ResultWriter } from './writer.ts'

/** Answers are held until the lines they belong to are read: so much of them at a time. */
const mostCharacters = 32 * 1024 * 1024
const mostAnswers = 10_000

/**
 * Takes the answers of a provider's own batch that is over into the journal, each with its charge. Lines that it did not
 * answer, but for those it refused, stay open: the gateway runs them. Rejects with ProviderErrors, Superseded, InputLost.
 */
export async function collect(services: Services, batch: Batch, away: Away): Promise<void> {
  const collector = new Collector(services, batch, away)
  await services.batchJournal.recount(batch)
  const done = await services.batchJournal.done(batch, 1)
  try {
    for await (const answer of away.adapter.results(batch.operation as Operation, away.line)) {
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
  readonly #services: Services
  readonly #batch: Batch
  readonly #away: Away
  readonly #writer: ResultWriter
  #known: Known | null = null
  #held = new Map<number, BatchAnswer>()
  #heldCharacters = 0
  #failure: unknown = null

  constructor(services: Services, batch: Batch, away: Away) {
    this.#services = services
    this.#batch = batch
    this.#away = away
    this.#writer = new ResultWriter(services, batch, {
      resume: () => ({ line: 1, byte: 0 }),
      written() {},
      async giveUp() {}, // The batch reserved one sum.
      failed: error => {
        this.#failure = error
      },
    })
  }

  async add(line: number, answer: BatchAnswer): Promise<void> {
    if ('error' in answer && !isRequestFault(answer.error)) return
    this.#held.set(line, answer)
    this.#heldCharacters += 'json' in answer ? JSON.stringify(answer.json).length : 0
    if (this.#held.size >= mostAnswers || this.#heldCharacters >= mostCharacters) await this.flush()
  }

  /** Reads the lines of the answers in hand and writes their results. */
  async flush(): Promise<void> {
    if (this.#held.size === 0) return
    for await (const group of readLines(this.#services.blobs, this.#batch, { line: 1, byte: 0 })) {
      for (const { number, bytes } of group) {
        const answer = this.#held.get(number)
        if (!answer) continue
        this.#held.delete(number)
        this.#writer.add(await this.#finished(number, bytes!, answer))
      }
      if (this.#writer.backlog.characters > mostCharacters) await this.#writer.drain()
      if (this.#held.size === 0) break
    }
    await this.#writer.drain()
    if (this.#failure) throw this.#failure
    this.#held.clear()
    this.#heldCharacters = 0
  }

  close(): void {
    this.#writer.close()
  }

  async #finished(line: number, bytes: Buffer, answer: BatchAnswer): Promise<Finished> {
    const { customId, body } = readRequest(bytes)
    const { target, direct, kind } = this.#away
    const requestId = newId('req')
    const result = { line, customId, reservation: null }
    const refused = (error: ProviderError): Finished => {
      const failure = failureOf([{ target, error }], error)
      const text = answeredText(customId, requestId, failure.status, JSON.stringify(failure.body))
      return { ...result, failed: true, text, event: null }
    }
    if ('error' in answer) return refused(answer.error)
    const id = newId(idPrefix[kind])
    const call = { target, body, raw: null, maxTokens: null, media: noMedia }
    const features = await measuredFeatures(kind, body, bytes.length, this.#batch.organisationId)
    const ticket = await this.#ticket(line, Number(mostNano(this.#services, this.#batch, target, features)))
    const marginPpm = marginOf(this.#services.config, kind, this.#services.config.discountsPpm.batch)
    try {
      const whole = { kind, adapter: direct, call, json: answer.json, id }
      const { billed, shown } = await billWhole(whole, { marginPpm, free: false })
      const text = answeredText(customId, requestId, 200, JSON.stringify(shown))
      return {
        ...result,
        failed: false,
        text,
        event: await this.#event(id, requestId, ticket, billed),
      }
    } catch (error) {
      if (error instanceof ProviderError) return refused(error)
      throw error
    }
  }

  async #event(id: string, requestId: string, ticket: Ticket, billed: Bill) {
    const { policy } = await this.#key()
    const { kind, target } = this.#away
    const about = {
      id,
      kind,
      requestId,
      stream: false,
      // The cap that the whole batch was reserved under.
      policy: { ...policy, capNano: ticket.spender.capNano },
      mode: policy.mode,
      attempts: 1,
      firstByteMs: null,
      durationMs: 0,
      routing: { batch: this.#batch.id },
    }
    const place = { model: target.model.id, provider: target.provider.name, startedMs: this.#services.clock.now() }
    return usageEvent({ ...about, ...place }, ticket, billed)
  }

  /** What the whole batch reserved, as far as it was for this line. */
  async #ticket(line: number, reservedNano: number): Promise<Ticket> {
    const { policy } = await this.#key()
    const { id, month, capNano } = this.#batch
    return {
      id: `${id}:${line}`,
      spender: { ...spenderOf(policy), capNano: capNano === null ? null : Number(capNano) },
      month,
      reservedNano,
      outputTokens: 0,
      clamped: false,
      countedTokens: 0,
      countedAtUs: 0,
      rates: { requests: null, tokens: null },
    }
  }

  /** The key as it was, or as it is now: what it is charged for was done already. */
  async #key(): Promise<Known> {
    this.#known ??= await this.#services.policies.ofKey(this.#batch.keyId, null)
    return this.#known
  }
}
