import { type ErrorCode, GatewayError } from '../base/errors.ts'
import type { ResponseStorage } from '../chat/run-input.ts'
import { BufferedResponse } from '../engine/buffered-response.ts'
import { internalError } from '../engine/failures.ts'
import { isUnstorable } from '../io/outage.ts'
import { endJob, failedEnd } from '../jobs/end.ts'
import type { JobServices } from '../jobs/job-services.ts'
import type { End, Job } from '../jobs/jobs.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import { dropOnFailure } from '../responses/payloads.ts'
import type { ResponseServices } from '../responses/response-services.ts'
import type { ResponseRow } from '../responses/stored-responses.ts'
import { failedRunEnd } from './cancel.ts'
import { EventRecorder } from './event-recorder.ts'
import type { HoldAdmission } from './hold-admission.ts'
import type { JobAnswer } from './job-answer.ts'

type Prepared = {
  content: Awaited<ReturnType<ResponseServices['storedResponses']['prepareEnd']>>
  added: Awaited<ReturnType<ResponseServices['conversations']['prepareItems']>> | null
}

/** The answer of a job that makes a stored response in the background. */
export class BackgroundAnswer implements JobAnswer {
  readonly client: BufferedResponse
  readonly run: JobAnswer['run']
  readonly #services: JobServices & ResponseServices
  readonly #job: Job
  readonly #row: ResponseRow
  readonly #wasShown: boolean
  readonly #recorder: EventRecorder | null
  #response: ResponsesObject | null = null
  #prepared: Prepared | null = null

  /** `wasShown`: whether an earlier call of the job, whose worker died, has shown events. */
  private constructor(
    services: ResponseServices & JobServices,
    job: Job,
    row: ResponseRow,
    { head, wasShown }: { head: Partial<ResponsesObject>; wasShown: boolean },
  ) {
    this.#services = services
    this.#job = job
    this.#row = row
    this.#wasShown = wasShown
    const { id, session, streamed, createdAt } = row
    const { responseEvents, log } = services
    this.#recorder = streamed
      ? new EventRecorder(
          events => responseEvents.append(id, row, events),
          error => log.warn({ err: error, response: id }, 'the events of a response are kept no longer'),
        )
      : null
    this.client = this.#recorder ?? new BufferedResponse()
    const { previous_response_id, conversation } = head
    const storage: ResponseStorage = {
      fields: {
        id,
        created_at: Math.floor(createdAt.getTime() / 1000),
        background: true,
        store: true,
        previous_response_id: previous_response_id ?? null,
        ...(conversation !== undefined && { conversation }),
      },
      store: async response => {
        this.#response = response
        return response
      },
    }
    this.run = { session, stream: streamed, storage }
  }

  /** Opens the answer of a job; null if its response was deleted. Throws what the stores throw. */
  static async open(services: ResponseServices & JobServices, job: Job): Promise<BackgroundAnswer | null> {
    const { storedResponses, responseEvents } = services
    const row = await storedResponses.find(job.id, job)
    if (!row) return null
    const wasShown = row.streamed && (await responseEvents.isBegun(row.id))
    return new BackgroundAnswer(services, job, row, { head: await storedResponses.readHead(row.id), wasShown })
  }

  get isComplete(): boolean {
    return this.#response !== null
  }

  get isShown(): boolean {
    return this.#wasShown || (this.#recorder?.isShown ?? false)
  }

  get failure(): GatewayError | null {
    const failed = this.#recorder?.failed ?? null
    return failed && errorOf(failed)
  }

  async save(admission: HoldAdmission): Promise<boolean> {
    await this.#recorder?.flush()
    const isEnded = await this.#store(admission).catch(async error => {
      const refusal = this.#refusalOf(error)
      // A store that is away may take it later.
      if (!refusal) throw error
      const end = this.isShown ? failedRunEnd(this.#job, admission, refusal) : failedEnd(refusal)
      return (await endJob(this.#services, this.#job.id, end)) !== null
    })
    await this.close()
    return isEnded
  }

  /** Why an answer cannot be stored at any time: what it belongs to is gone, or it has what no store takes; null = it may be later. */
  #refusalOf(error: unknown): GatewayError | null {
    if (error instanceof GatewayError) return error.code === 'service_unavailable' ? null : error
    if (!isUnstorable(error)) return null
    this.#services.log.error({ err: error, response: this.#row.id }, 'the response of a job cannot be stored')
    return internalError(error)
  }

  async close(): Promise<void> {
    const { responseEvents, log } = this.#services
    await this.#recorder?.flush()
    // Readers find the end of the response within seconds without it.
    await responseEvents.close(this.#row.id).catch(error => log.debug({ err: error }, 'a response is not announced'))
  }

  /** Stores the response and adds its items to its conversation, in the transaction that ends the job. */
  async #store(admission: HoldAdmission): Promise<boolean> {
    const { storedResponses, conversations } = this.#services
    const row = this.#row
    const { id, conversationId } = row
    this.#prepared ??= await this.#prepare(this.#response!)
    const { content, added } = this.#prepared
    const ended = await endJob(this.#services, id, this.#endOf(this.#response!, admission), undefined, async tx => {
      // Locks the conversation before the owner's totals, in the same order as a synchronous turn, so the two cannot deadlock.
      const isExtended = added && (await conversations.touch(tx, conversationId!, row, row.expiresAt.getTime()))
      await content.update(tx)
      if (isExtended) await added.insert(tx)
    })
    if (ended) {
      await content.clean()
      return true
    }
    // Cancelled, or over already: by our own earlier try whose reply was lost, or without an answer.
    const current = await storedResponses.find(id, row)
    if (!current || current.status === 'queued') await Promise.all([content.drop(), added?.drop()])
    return false
  }

  #endOf(response: ResponsesObject, admission: HoldAdmission): End {
    // As delayed jobs, a failed one costs nothing, also if its provider failed in the middle.
    if (response.status === 'failed') return failedRunEnd(this.#job, admission, errorOf(response))
    return {
      status: 'completed',
      logStatus: 200,
      refund: false,
      costNano: admission.costNano,
      extraNano: BigInt(admission.extraNano),
      ...admission.call(null),
    }
  }

  async #prepare({ output, ...head }: ResponsesObject): Promise<Prepared> {
    const { storedResponses, conversations } = this.#services
    const row = this.#row
    const { id, conversationId, inputCount, expiresAt } = row
    const { status } = head
    const [items] = await storedResponses.readItems([id])
    const input = items!.slice(0, inputCount)
    const content = await storedResponses.prepareEnd(row, { status, head, input, output })
    // A conversation that was deleted meanwhile is not extended.
    if (conversationId === null || status === 'failed' || !(await conversations.find(conversationId, row)))
      return { content, added: null }
    const added = await dropOnFailure(content, () =>
      conversations.prepareItems(conversationId, row, [...input, ...output], {
        expiresAtMs: expiresAt.getTime(),
        isPaidFor: true,
      }),
    )
    return { content, added }
  }
}

function errorOf({ error }: ResponsesObject): GatewayError {
  const { metadata } = (error ?? {}) as { metadata?: { code?: ErrorCode } }
  const code = metadata?.code ?? 'upstream_error'
  return new GatewayError(code, error?.message ?? 'The response failed.')
}
