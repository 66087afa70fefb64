import { dayMs } from '../base/time.ts'
import { type NamingBody, sessionInMetadata } from '../chat/sticky-target.ts'
import { BufferedResponse } from '../engine/buffered-response.ts'
import type { StoredFile } from '../files/files.ts'
import { bytesOf } from '../io/bytes.ts'
import { endJob } from '../jobs/end.ts'
import type { Job } from '../jobs/jobs.ts'
import { type DelayedInput, readWork } from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'
import type { HoldAdmission } from './hold-admission.ts'
import type { JobAnswer } from './job-answer.ts'

/** The answer of a delayed job: a file in storage, which is the job's result. */
export class FileAnswer implements JobAnswer {
  readonly client = new BufferedResponse()
  readonly run: JobAnswer['run']
  readonly isShown = false
  readonly failure = null
  readonly #services: DelayedServices
  readonly #job: Job
  #file: StoredFile | null = null

  constructor(services: DelayedServices, job: Job) {
    this.#services = services
    this.#job = job
    this.run = { session: sessionIn(readWork(job).body as NamingBody), stream: false }
  }

  get isComplete(): boolean {
    return this.client.body !== null
  }

  async save(admission: HoldAdmission): Promise<boolean> {
    const services = this.#services
    const { id } = this.#job
    const text = this.client.body!
    const expiresAt = new Date(services.clock.now() + services.config.resultRetentionDays * dayMs)
    this.#file ??= await this.#store(text, expiresAt)
    const { id: answerId } = JSON.parse(text) as { id?: string }
    const ended = await endJob(services, id, {
      status: 'completed',
      logStatus: 200,
      result: this.#file,
      costNano: admission.costNano,
      extraNano: BigInt(admission.extraNano),
      discountPpm: (this.#job.input as DelayedInput).discountPpm,
      refund: false,
      expiresAt,
      ...admission.call(answerId ?? null),
    })
    if (ended) return true
    // Cancelled, or over already: ended by another worker, or by our own earlier try whose reply was lost.
    const current = await services.delayedJobs.read(id)
    if ((current?.result as StoredFile | null)?.fileId !== this.#file.fileId) await services.files.remove([this.#file])
    return false
  }

  async close(): Promise<void> {}

  #store(text: string, expiresAt: Date): Promise<StoredFile> {
    const { id, organisationId, environment } = this.#job
    return this.#services.files.store(bytesOf(Buffer.from(text)), {
      organisationId,
      environment,
      purpose: 'result',
      filename: `${id}.json`,
      contentType: 'application/json',
      expiresAtMs: expiresAt.getTime(),
    })
  }
}

/** The caller's name of the conversation. Messages have no `prompt_cache_key`, so there its type is not checked. */
function sessionIn({ prompt_cache_key: key, metadata }: NamingBody): string | null {
  return (typeof key === 'string' && key) || sessionInMetadata({ metadata })
}
