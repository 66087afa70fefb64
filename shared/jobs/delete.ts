import { GatewayError } from '../base/errors.ts'
import { dropReferences } from '../files/references.ts'
import type { JobServices } from './job-services.ts'
import type { Job } from './jobs.ts'
import type { JobResult } from './present.ts'
import type { JobInput } from './submit.ts'

/**
 * Deletes a job for its owner: its prompt and metadata, its input files and its results, also from the log of webhooks. Its charge
 * stays. Throws a GatewayError 409 `not_deletable` while it is not over.
 */
export async function deleteMediaJob(services: JobServices, job: Job): Promise<void> {
  const { jobs, files, webhooks, log } = services
  // Before the job, so that a repeated deletion completes an interrupted one.
  if (job.stage === 'over') await webhooks.forgetBodies(job.id)
  if (!(await jobs.delete(job.id))) {
    const current = await jobs.read(job.id)
    if (current?.deletedAt) return
    throw new GatewayError('not_deletable', 'This job is not over yet: wait for its end, or cancel it first.')
  }
  const { outputs = [] } = (job.result ?? {}) as Partial<JobResult>
  await files
    .remove(outputs)
    .catch(error => log.warn({ err: error, job: job.id }, 'results of a deleted job stay until they expire'))
  await dropReferences(services, (job.input as Partial<JobInput>).references ?? {})
}
