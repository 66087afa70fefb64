import { setTimeout as sleep } from 'node:timers/promises'
import type { Beside } from '../io/db.ts'
import type { Job, NewJob } from '../jobs/jobs.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'

/**
 * Writes an admitted job, with whatever `beside` writes, and passes its money on from the reservation. Where nobody hears
 * whether the row was written, it is looked for: a job that stands is never denied. Throws what Postgres and `beside` throw;
 * then nothing stays reserved.
 */
export async function takeOn(services: Services, ticket: Ticket, newJob: NewJob, beside?: Beside<Job>): Promise<Job> {
  const job = await created(services, ticket, newJob, beside)
  await passOn(services, ticket, job).catch(error => later(services, ticket, error))
  return job
}

async function created(services: Services, ticket: Ticket, job: NewJob, beside?: Beside<Job>): Promise<Job> {
  try {
    return await services.jobs.create(job, beside)
  } catch (error) {
    const found = await services.jobs.read(job.id).catch(() => undefined)
    if (found) return found
    if (found === null) services.admission.release(ticket)
    else later(services, ticket, error)
    throw error
  }
}

/**
 * Passes an admitted job's money on: what is held becomes the job's, what was charged counts in Redis before its
 * reservation goes, so that it is never free in between. Twice is once.
 */
export async function passOn(
  { admission, accounts }: Pick<Services, 'admission' | 'accounts'>,
  ticket: Ticket,
  job: Job | null,
): Promise<void> {
  if (!job) return admission.release(ticket)
  if (job.costNano === null) return admission.keepForJob(ticket)
  if (job.environment === 'live') await accounts.install(job.organisationId, job.keyId, job.month)
  admission.release(ticket)
}

const passOnEveryMs = 2_000
const passOnTries = 300

/** A store is away while the money of a job is on its way: it is tried until it is back. Should this process die, the reservation is swept. */
function later(services: Services, ticket: Ticket, cause: unknown): void {
  services.log.warn({ err: cause, job: ticket.id }, 'money of a new job follows later')
  const trying = async () => {
    for (let tries = 0; tries < passOnTries; tries++) {
      await sleep(passOnEveryMs, undefined, { ref: false })
      try {
        return await passOn(services, ticket, await services.jobs.read(ticket.id))
      } catch (error) {
        services.log.debug({ err: error, job: ticket.id }, 'money of a new job follows later')
      }
    }
  }
  void trying()
}
