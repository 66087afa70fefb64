import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isBusy } from '../chat/failures.ts'
import type { Line } from '../io/lines.ts'
import type { Resume } from '../jobs/batch-journal.ts'
import type { Batch, BatchStatus } from '../jobs/batches.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Services } from '../services.ts'
import { pauseBeforeNext } from './again.ts'
import { BatchKey, type Judged } from './batch-key.ts'
import { Changes } from './changes.ts'
import { readLines } from './input.ts'
import { answered, Calls, cutOff, ends, type Finished, featuresOf, type Go, go, unanswered } from './line.ts'
import { LineStarts } from './line-starts.ts'
import { OutputParts } from './parts.ts'
import { type BatchEndpoint, type BatchRequestLine, batchEndpoints, isBlank, readRequest } from './request.ts'
import { ResultWriter, type Unwritten } from './writer.ts'

/** What a batch may hold in memory at a time: the lines it works on, and the results on their way to the journal. */
const mostBytes = 32 * 1024 * 1024
const mostUnwritten = 4_000
const answersFade = 0.99
const lookEveryMs = 1_000
/** How long calls under way may still take once the batch is to end, or this process is. */
const graceMs = 12_000
/** When other batches wait for a worker, this one makes room after so long, once its calls under way have ended. */
const sliceMs = 30_000
const makeRoomMs = 60_000

/**
 * Runs the lines of a batch that have no result yet, until each has one; or until `stopping`, and somebody else goes on:
 * false. The lines of a batch that is cancelled or expires end without being run. Rejects with Superseded, InputLost and
 * what the storage throws.
 */
export async function runLines(services: Services, batch: Batch, stopping: AbortSignal): Promise<boolean> {
  const runner = new LineRunner(services, batch)
  const stop = () => runner.stop()
  stopping.addEventListener('abort', stop, { once: true })
  if (stopping.aborted) stop()
  try {
    return await runner.run()
  } finally {
    stopping.removeEventListener('abort', stop)
  }
}

class LineRunner {
  readonly #services: Services
  readonly #batch: Batch
  readonly #kind: DirectKind
  readonly #key: BatchKey
  readonly #writer: ResultWriter
  readonly #calls: Calls
  readonly #parts: OutputParts
  /** Lines without a written result, by number, each with the byte it begins at; the first is the lowest. */
  readonly #open = new Map<number, number>()
  readonly #startedMs = Date.now()
  #next: Resume
  #serving = 0
  #servingBytes = 0
  /** How long the longest answers are of late: as many may be on their way as lines are served. */
  #answerCharacters = 0
  readonly #mostServing: number
  readonly #starts: LineStarts
  /** Cuts every pause short. */
  readonly #hurry = new AbortController()
  #grace: NodeJS.Timeout | null = null
  #ending: keyof typeof ends | null = null
  #expiry: Promise<unknown> | null = null
  #stopped = false
  #failure: unknown = null
  /** Lines that ended, and the end of all: the answers of a turn free their places in the lane before more lines are begun. */
  readonly #changes = new Changes()

  constructor(services: Services, batch: Batch) {
    this.#services = services
    this.#batch = batch
    this.#kind = batchEndpoints[batch.endpoint as BatchEndpoint]
    this.#calls = new Calls(services.admission, batch.id)
    this.#key = new BatchKey(services, batch.keyId, this.#kind)
    this.#next = { line: batch.resumeLine, byte: Number(batch.resumeByte) }
    // A few more than there are places in a lane: they have reserved and only wait for their turn.
    this.#mostServing = services.config.bulkConcurrency * 2
    this.#writer = new ResultWriter(services, batch, {
      resume: () => this.#resume(),
      written: (results, status) => this.#written(results, status),
      giveUp: reservations => this.#calls.giveUp(reservations),
      failed: error => this.#fail(error),
    })
    this.#parts = new OutputParts(services, batch)
    this.#starts = new LineStarts(services, batch)
    setMaxListeners(0, this.#hurry.signal)
    this.#note(batch.status)
  }

  async run(): Promise<boolean> {
    // The key before the first lines, which would all ask for it at once.
    const [done] = await Promise.all([
      this.#services.batchJournal.done(this.#batch, this.#next.line),
      this.#starts.open(),
      this.#parts.open(),
      this.#key.known(),
    ])
    const looking = setInterval(() => void this.#look(), lookEveryMs)
    try {
      // What is under way may end although nothing more can be read.
      const unread = await this.#takeAll(done).then(
        () => null,
        (error: Error) => error,
      )
      if (unread) this.stop()
      while (this.#serving > 0 && this.#failure === null) await this.#changes.next()
      await this.#writer.drain()
      await this.#parts.idle()
      const failure = this.#failure ?? unread
      if (this.#serving === 0) await this.#starts.close()
      if (failure !== null) throw failure
      return !this.#stopped
    } finally {
      clearInterval(looking)
      if (this.#grace) clearTimeout(this.#grace)
      this.#hurry.abort()
      this.#calls.cut()
      this.#writer.close()
    }
  }

  async #takeAll(done: ReadonlySet<number>): Promise<void> {
    for await (const group of readLines(this.#services.blobs, this.#batch, this.#next)) {
      for (const line of group) {
        if (!done.has(line.number) && !isBlank(line.bytes!)) {
          while (!this.#hasRoom() && !this.#isOver()) await this.#changes.next()
          if (this.#isOver()) return
          if (!this.#starts.isNoted(line.number)) await this.#starts.note(line.number)
          this.#take(line)
        }
        this.#next = { line: line.number + 1, byte: line.end }
      }
    }
  }

  /** Lets calls under way finish for a while and takes no more lines. */
  stop(withinMs?: number): void {
    this.#stopped = true
    this.#finishSoon(withinMs)
  }

  #isOver(): boolean {
    return this.#stopped || this.#failure !== null
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    this.#hurry.abort()
    this.#calls.cut()
    this.#changes.note()
  }

  #finishSoon(withinMs = graceMs): void {
    this.#hurry.abort()
    this.#grace ??= setTimeout(() => this.#calls.cut(this.#ending === 'cancelled' ? 'at_once' : 'unbilled'), withinMs)
    this.#changes.note()
  }

  async #look(): Promise<void> {
    const { batches, batchWakes, log } = this.#services
    try {
      this.#note(await batches.look(this.#batch))
      if (this.#isOver() || this.#ending || Date.now() - this.#startedMs < sliceMs) return
      if (await batchWakes.areWaiting(Date.now())) this.stop(makeRoomMs)
    } catch (error) {
      if ((error as Error).name === 'Superseded') this.#fail(error)
      else log.debug({ err: error, batch: this.#batch.id }, 'cannot look at a batch')
    }
  }

  #note(status: BatchStatus): void {
    if (this.#ending) return
    if (status === 'cancelling') this.#ending = 'cancelled'
    else if (this.#services.clock.now() >= this.#batch.deadlineAt.getTime()) this.#ending = 'expired'
    if (this.#ending) this.#finishSoon()
  }

  #hasRoom(): boolean {
    const { results, characters } = this.#writer.backlog
    if (results >= mostUnwritten || characters >= mostBytes) return false
    if (this.#serving === 0) return true
    const expected = this.#servingBytes + this.#serving * this.#answerCharacters
    return this.#serving < this.#mostServing && expected < mostBytes
  }

  #take({ number, bytes }: Line): void {
    this.#open.set(number, this.#next.byte)
    this.#serving++
    this.#servingBytes += bytes!.length
    void this.#finish(number, readRequest(bytes!), bytes!.length)
  }

  /** Runs a line and hands its result to the writer. Never rejects. */
  async #finish(line: number, request: BatchRequestLine, bytes: number): Promise<void> {
    try {
      const result = await this.#serve(line, request, bytes)
      if (result) {
        this.#answerCharacters = Math.max(result.text.length, this.#answerCharacters * answersFade)
        this.#writer.add(result)
      }
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#serving--
      this.#servingBytes -= bytes
      this.#changes.note()
    }
  }

  #resume(): Resume {
    const [first] = this.#open
    return first ? { line: first[0], byte: first[1] } : this.#next
  }

  #written(results: readonly Unwritten[], status: BatchStatus): void {
    for (const { entry } of results) this.#open.delete(entry.line)
    this.#parts.grew(results)
    this.#note(status)
    this.#changes.note()
  }

  /** Runs a line until it has its result; null when the run stops before that. */
  async #serve(number: number, request: BatchRequestLine, bytes: number): Promise<Finished | null> {
    const refusal = this.#starts.refusal(number)
    if (refusal) return unanswered(number, request.customId, refusal)
    for (let failures = 0; !this.#isOver(); ) {
      if (this.#ending) {
        if (this.#ending === 'expired') await this.#noteExpiry()
        return unanswered(number, request.customId, ends[this.#ending])
      }
      const requestId = newId('req')
      const judged = await this.#key.known()
      const went = await this.#starts.run(number, async () => {
        const came = await this.#go(judged, request, bytes, requestId)
        return { came, hasResult: 'body' in came }
      })
      if ('body' in went) return answered(number, request.customId, requestId, { ...went, status: 200 })
      if ('cut' in went && this.#ending === 'cancelled' && went.event && went.event.cost > 0)
        return cutOff(number, request.customId, { ...ends.cancelled, request_id: requestId }, went)
      // Whatever is charged nothing need not hold money while it waits.
      if (went.reservation) void this.#calls.giveUp([went.reservation])
      if ('cut' in went) continue
      const { error } = went
      if (error.status >= 500 && !isBusy(error) && error.status !== 503) failures++
      if (await this.#again(error, judged, request, failures)) continue
      const refused = { status: error.status, body: JSON.stringify(error.body), event: went.event, reservation: null }
      return answered(number, request.customId, requestId, refused)
    }
    return null
  }

  async #go(judged: Judged, { body }: BatchRequestLine, bytes: number, requestId: string): Promise<Go> {
    if ('error' in judged) return { reservation: null, event: null, error: judged.error }
    // A suspect may have waited for its turn.
    if (this.#isOver() || this.#ending) return { reservation: null, event: null, cut: true }
    const { known } = judged
    const { organisationId: owner, deadlineAt } = this.#batch
    const { config } = this.#services
    const features = featuresOf(this.#kind, body, bytes)
    return go(
      this.#services,
      {
        ...{ kind: this.#kind, known, scope: known.scope!, body, features, requestId },
        bulk: { owner, discountPpm: config.discountsPpm.batch, deadlineMs: deadlineAt.getTime() },
      },
      this.#calls,
    )
  }

  /** Waits for the moment at which a refused line may be tried again; false = its refusal is its result. */
  async #again(error: GatewayError, { hash }: Judged, { body }: BatchRequestLine, failures: number): Promise<boolean> {
    if (error.status === 401) return this.#key.changed(hash)
    if (error.status === 402) return this.#calls.moneyBack()
    if (error.code === 'no_provider_available' && !this.#key.isServed(body)) return false
    // The sandbox would only say the same again.
    if (error.status >= 500 && this.#batch.environment === 'test') return false
    const pauseMs = pauseBeforeNext(error, failures)
    if (pauseMs === null) return false
    await sleep(pauseMs, undefined, { signal: this.#hurry.signal }).catch(() => {})
    return true
  }

  /** Before the first line that ends by it: whoever finds them all ended must know how. */
  #noteExpiry(): Promise<unknown> {
    const expiredAt = new Date(this.#services.clock.now())
    return (this.#expiry ??= this.#services.batches.change(this.#batch, ['in_progress'], { expiredAt }))
  }
}
