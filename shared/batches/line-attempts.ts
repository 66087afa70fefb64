import { setTimeout as sleep } from 'node:timers/promises'
import type { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isBusy } from '../engine/failures.ts'
import type { DirectKind } from '../kinds/index.ts'
import { requestFormatOf } from '../routing/request-formats.ts'
import type { BatchKey, KeyVerdict } from './batch-key.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'
import {
  answeredLine,
  cutOffLine,
  endErrors,
  type FinishedLine,
  type LineCalls,
  type LineOutcome,
  refusalOf,
  runLine,
  unansweredLine,
} from './line.ts'
import type { LineStarts } from './line-starts.ts'
import type { BatchRequestLine } from './request.ts'
import { retryPauseMs } from './retry.ts'
import type { RunControl } from './run-control.ts'

/** A line to run; `bytes` is its length. */
export type NumberedRequest = { number: number; bytes: number; request: BatchRequestLine }

type Options = {
  kind: DirectKind
  key: BatchKey
  calls: LineCalls
  starts: LineStarts
  control: RunControl
}

/** Runs single lines of a batch, each with its retries. */
export class LineAttempts {
  readonly #services: BatchServices
  readonly #batch: Batch
  readonly #kind: DirectKind
  readonly #key: BatchKey
  readonly #calls: LineCalls
  readonly #starts: LineStarts
  readonly #control: RunControl

  constructor(services: BatchServices, batch: Batch, { kind, key, calls, starts, control }: Options) {
    this.#services = services
    this.#batch = batch
    this.#kind = kind
    this.#key = key
    this.#calls = calls
    this.#starts = starts
    this.#control = control
  }

  /** Runs a line until it has its result; null when the run ends before that. Rejects with what the stores throw. */
  async run(line: NumberedRequest): Promise<FinishedLine | null> {
    const { number, request } = line
    const control = this.#control
    const refusal = this.#starts.refusal(number)
    if (refusal) return unansweredLine(number, request.customId, refusal)
    for (let failures = 0; !control.isOver; ) {
      if (control.ending) {
        if (control.ending === 'expired') await control.recordExpiry()
        return unansweredLine(number, request.customId, endErrors[control.ending])
      }
      const requestId = newId('req')
      const verdict = await this.#key.resolve()
      const outcome = await this.#starts.run(number, async () => {
        const result = await this.#attempt(verdict, line, requestId)
        return { result, hasResult: 'body' in result }
      })
      if ('body' in outcome) return answeredLine(number, request.customId, requestId, { ...outcome, status: 200 })
      if ('cut' in outcome && control.ending === 'cancelled' && outcome.event && outcome.event.cost > 0)
        return cutOffLine(number, request.customId, { ...endErrors.cancelled, request_id: requestId }, outcome)
      // An attempt without a charge need not hold money during its backoff.
      if (outcome.reservation) void this.#calls.release([outcome.reservation])
      if ('cut' in outcome) continue
      const { error, event } = outcome
      if (error.status >= 500 && !isBusy(error) && error.status !== 503) failures++
      if (await this.#waitForRetry(error, verdict, request, failures)) continue
      const refused = { ...refusalOf(this.#kind, error), event, reservation: null }
      return answeredLine(number, request.customId, requestId, refused)
    }
    return null
  }

  async #attempt(key: KeyVerdict, { bytes, request }: NumberedRequest, requestId: string): Promise<LineOutcome> {
    if ('error' in key) return { reservation: null, event: null, error: key.error }
    // A suspect may have waited for its permit.
    if (this.#control.isOver || this.#control.ending) return { reservation: null, event: null, cut: true }
    const { organisationId: owner, deadlineAt } = this.#batch
    const bulk = {
      owner,
      discountPpm: this.#services.config.discountsPpm.batch,
      deadlineMs: deadlineAt.getTime(),
    }
    const { body } = request
    const features = requestFormatOf(this.#kind).readFeatures(body, bytes)
    return runLine(this.#services, { kind: this.#kind, key: key.key, body, features, requestId, bulk }, this.#calls)
  }

  /** Waits until a refused line may be retried; false = its refusal is its result. */
  async #waitForRetry(
    error: GatewayError,
    { hash }: KeyVerdict,
    { body }: BatchRequestLine,
    failures: number,
  ): Promise<boolean> {
    if (error.status === 401) return this.#key.hasChanged(hash)
    if (error.status === 402) return this.#calls.waitForRelease()
    if (error.code === 'no_provider_available' && !this.#key.isServed(body)) return false
    // The sandbox is deterministic: a retry would fail the same way.
    if (error.status >= 500 && this.#batch.environment === 'test') return false
    const pauseMs = retryPauseMs(error, failures)
    if (pauseMs === null) return false
    await sleep(pauseMs, undefined, { signal: this.#control.wakeUp }).catch(() => {})
    return true
  }
}
