import { setTimeout as sleep } from 'node:timers/promises'
import type { TransactionStep } from '../io/db.ts'
import type { Platform } from '../platform.ts'
import type { Reservation } from '../wallet/admission.ts'
import type { JobServices } from './job-services.ts'
import type { Job, NewJob } from './jobs.ts'

/**
 * Inserts an admitted job with what `beside` writes, and transfers its reservation. If the outcome of the insert is unknown,
 * the row is read back: a committed job must be reported as a success. Throws what Postgres and `beside` throw; then nothing
 * stays reserved.
 */
export async function createJob(
  services: JobServices,
  reservation: Reservation,
  newJob: NewJob,
  beside?: TransactionStep<Job>,
): Promise<Job> {
  const job = await insertJob(services, reservation, newJob, beside)
  await transferReservation(services, reservation, job).catch(error => transferLater(services, reservation, error))
  return job
}

async function insertJob(
  services: JobServices,
  reservation: Reservation,
  job: NewJob,
  beside?: TransactionStep<Job>,
): Promise<Job> {
  try {
    return await services.jobs.create(job, beside)
  } catch (error) {
    const found = await services.jobs.read(job.id).catch(() => undefined)
    if (found) return found
    if (found === null) services.admission.release(reservation)
    else transferLater(services, reservation, error)
    throw error
  }
}

/**
 * Transfers the reservation of an admitted job: a hold becomes the job's own; a charge counts in Redis before its
 * reservation is released, so that the money is never spendable in between. Idempotent.
 */
export async function transferReservation(
  { admission, wallets }: Pick<Platform, 'admission' | 'wallets'>,
  reservation: Reservation,
  job: Job | null,
): Promise<void> {
  if (!job) return admission.release(reservation)
  if (job.costNano === null) return admission.transferToJob(reservation)
  if (job.environment === 'live') await wallets.install(job.organisationId, job.keyId, job.month)
  admission.release(reservation)
}

const transferRetryMs = 2_000
const maxTransferTries = 300

/** Retries `transferReservation` while a store is unavailable. If this process dies, the reservation is swept. */
function transferLater(services: JobServices, reservation: Reservation, cause: unknown): void {
  services.log.warn({ err: cause, job: reservation.id }, 'reservation transfer failed; retrying')
  const transfer = async () => {
    for (let tries = 0; tries < maxTransferTries; tries++) {
      await sleep(transferRetryMs, undefined, { ref: false })
      try {
        return await transferReservation(services, reservation, await services.jobs.read(reservation.id))
      } catch (error) {
        services.log.debug({ err: error, job: reservation.id }, 'reservation transfer failed; retrying')
      }
    }
  }
  void transfer()
}
