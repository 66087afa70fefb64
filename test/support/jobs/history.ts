import type { Queue } from 'bullmq'
import { loadConfig } from '../../../shared/base/config.ts'
import { newId } from '../../../shared/base/ids.ts'
import { monthOf } from '../../../shared/base/time.ts'
import { createLog } from '../../../shared/io/log.ts'
import { transferReservation } from '../../../shared/jobs/create.ts'
import { endJob } from '../../../shared/jobs/end.ts'
import { type End, type Job, Jobs } from '../../../shared/jobs/jobs.ts'
import type { Services } from '../../../shared/open-services.ts'
import { CompletionSignals } from '../../../shared/queues/completion-signals.ts'
import { PollSchedule } from '../../../shared/queues/poll-schedule.ts'
import { openQueue } from '../../../shared/queues/queues.ts'
import type { BillingContext, Reservation } from '../../../shared/wallet/admission.ts'
import { reconcile, reconcileHolds, sweepReservations } from '../../../shared/wallet/reconcile.ts'
import { budgetIds, flatCost } from '../../../shared/wallet/reservation.ts'
import { Webhooks } from '../../../shared/webhooks/webhooks.ts'
import type { Stores } from '../gateway.ts'
import { passForSweeper } from '../wallet/ageing.ts'
import { type Process, sum, World } from '../wallet/history.ts'

export const leaseMs = 60_000
const jobDeadlineMs = 2 * 3_600_000

/** What a job's row must say of its money, kept beside the real stores. Nano-dollars. */
export type Known = {
  id: string
  billing: BillingContext
  month: string
  held: number
  charged: number
  over: boolean
}

/** Money of a job that its process could not pass on yet. */
type Owed = { process: Process; reservation: Reservation; job: Job }
export type SubmitCrash = 'none' | 'before the row' | 'after the row' | 'hiccup'
export type EndCrash = 'none' | 'after the commit' | 'before the hold goes'

/** The real stores with jobs, and the truth about them. The processes, organisations and keys are those of `World`. */
export class JobWorld {
  readonly world: World
  readonly jobs: Jobs
  readonly #queue: Queue
  readonly #services: Pick<Services, 'jobs' | 'webhooks' | 'pollSchedule' | 'completionSignals' | 'log'>
  known: Known[] = []
  owed: Owed[] = []

  constructor(stores: Stores) {
    this.world = new World(stores)
    const { quotas, marginPpm } = loadConfig({ DATABASE_URL: stores.databaseUrl, REDIS_URL: stores.redisUrl })
    const { db, redis, clock } = this.world
    this.#queue = openQueue('webhooks', redis)
    const webhooks = new Webhooks({ db, queue: this.#queue, clock })
    this.jobs = new Jobs({ db, webhooks, clock, startLeaseMs: leaseMs, quotas, marginPpm })
    const tellers = {
      pollSchedule: new PollSchedule(redis),
      completionSignals: new CompletionSignals(redis),
      log: createLog('silent'),
    }
    this.#services = { jobs: this.jobs, webhooks, ...tellers }
  }

  async begin(): Promise<void> {
    this.known = []
    this.owed = []
    await this.world.begin()
  }

  async close(): Promise<void> {
    await this.#queue.close()
    await this.world.close()
  }

  available(organisationId: string): number {
    const { truth, clock } = this.world
    const own = this.known.filter(({ billing }) => billing.organisationId === organisationId)
    return truth.available(organisationId, clock.now()) - sum(own, ({ held, charged }) => held + charged)
  }

  spent(keyId: string, month: string): number {
    return sum(
      this.known.filter(it => it.billing.keyId === keyId && it.month === month),
      ({ held, charged }) => held + charged,
    )
  }

  /** What Redis believes to be available now, right or wrong: asking for just that shows when it is too much. */
  async #believed(organisationId: string): Promise<number> {
    const figures = await this.world.redis.hmget(`wallet:${organisationId}`, 'posted', 'reserved')
    return Math.max(0, Number(figures[0] ?? this.available(organisationId)) - Number(figures[1] ?? 0))
  }

  /** A reservation, or the code of the refusal. Throws when more is taken than there is. */
  async #admit(
    { admission }: Process,
    billing: BillingContext,
    id: string,
    nano: number,
  ): Promise<Reservation | string> {
    const room = (billing.capNano ?? Infinity) - this.spent(billing.keyId, monthOf(this.world.clock.now()))
    const available = this.available(billing.organisationId)
    const bound = flatCost(nano)
    const reservation = await admission.admit(billing, '-', id, bound).catch(error => error.code as string)
    if (typeof reservation === 'string') return reservation
    if ('stale' in reservation) throw new Error('stale')
    if (nano > available) throw new Error(`took ${nano} of ${available} available`)
    if (nano > room) throw new Error(`took ${nano} with ${room} left under the cap`)
    return reservation
  }

  /** Asks for all that seems to be available, for each key, and gives it back. */
  async probe(): Promise<void> {
    const process = this.world.processes[0]!
    for (const billing of this.world.billingContexts) {
      const nano = await this.#believed(billing.organisationId)
      const reservation = await this.#admit(process, billing, newId('job'), Math.min(nano, billing.capNano ?? nano))
      if (typeof reservation !== 'string') process.admission.release(reservation)
    }
    await process.admission.flush()
  }

  /**
   * Submits a job as `submitJob` does, up to a crash; it needs so many percent of what seems to be available. The code of
   * the refusal, or null.
   */
  async submit(process: Process, billing: BillingContext, percent: number, held: boolean, crash: SubmitCrash) {
    const nano = Math.floor(((await this.#believed(billing.organisationId)) * percent) / 100)
    const id = newId('job')
    const reservation = await this.#admit(process, billing, id, nano)
    if (typeof reservation === 'string') return reservation
    if (crash === 'before the row') return this.#die(process)
    const job = await this.#create(reservation, billing, nano, held)
    if (crash === 'after the row') return this.#die(process)
    if (crash === 'hiccup') {
      this.owed.push({ process, reservation, job })
      // Once in a while the step was done and only its answer is lost.
      if (!held) return null
      process.loses = 'hold'
      await this.#passOn(this.owed.at(-1)!).catch(() => {})
      process.loses = null
      return null
    }
    await this.#passOn({ process, reservation, job })
    return null
  }

  async #create(reservation: Reservation, billing: BillingContext, nano: number, held: boolean): Promise<Job> {
    const { id, month } = reservation
    const { keyId, organisationId, capNano } = billing
    const job = await this.jobs.create({
      id,
      organisationId,
      keyId,
      month,
      requestId: id,
      environment: 'live',
      model: 'coin',
      kind: held ? 'avatar' : 'video',
      capNano: capNano === null ? null : BigInt(capNano),
      budgets: budgetIds(billing),
      holdNano: held ? BigInt(nano) : 0n,
      chargeNano: held ? null : BigInt(nano),
      webhookUrl: null,
      input: {},
      metadata: {},
      deadlineAt: new Date(this.world.clock.now() + jobDeadlineMs),
    })
    this.known.push({ id, billing, month, held: held ? nano : 0, charged: held ? 0 : nano, over: false })
    return job
  }

  async #passOn({ process, reservation, job }: Owed): Promise<void> {
    await transferReservation({ admission: process.admission, wallets: this.world.wallets }, reservation, job)
    await process.admission.flush()
  }

  /** What a process tries every two seconds. */
  async settleDebts(): Promise<void> {
    const owed = this.owed
    this.owed = []
    for (const debt of owed) await this.#passOn({ ...debt, job: (await this.jobs.read(debt.job.id))! })
  }

  #die(process: Process): null {
    this.world.die(this.world.processes.indexOf(process))
    this.owed = this.owed.filter(debt => debt.process !== process)
    return null
  }

  /** Ends a job, up to a crash; whether it was this call that ended it. */
  async end(known: Known, end: End, crash: EndCrash, stage?: Job['stage']): Promise<boolean> {
    const { wallets, scripts } = this.world
    const dies = async () => {
      throw new Error('the process died')
    }
    const install = crash === 'after the commit' ? dies : wallets.install.bind(wallets)
    const services = {
      ...this.#services,
      metrics: null,
      wallets: Object.assign(Object.create(wallets), { install }),
      scripts: crash === 'before the hold goes' ? { ...scripts, hold: dies } : scripts,
    }
    if (!(await endJob(services, known.id, end, stage))) return false
    if (known.over) throw new Error(`${known.id} ended twice`)
    Object.assign(known, { over: true, held: 0, charged: chargeOf(known, end) })
    return true
  }

  /** One round of what the maintenance worker does for money. */
  async runJobHousekeeping(): Promise<void> {
    const { db, redis, scripts, clock } = this.world
    await reconcile(db, redis, scripts, clock.now())
    await reconcileHolds(db, redis, scripts, clock.now())
  }

  /** Half a minute: living processes beat and try what they owe, the dead are swept, and the house is kept meanwhile. */
  async pass(): Promise<void> {
    const { processes, redis, scripts, clock } = this.world
    for (let round = 0; round < 5; round++) {
      for (const { admission } of processes) await scripts.beat({ instance: admission.instance, alive: 1 })
      if (round % 2 === 0) await this.runJobHousekeeping()
      if (round === 2) await this.settleDebts()
      await sweepReservations(scripts)
      clock.advance(5_000)
      await passForSweeper(redis, 5_000)
    }
    await this.runJobHousekeeping()
  }
}

/** What a job costs after its end: the rules of `Jobs.end`, written a second time. */
function chargeOf({ charged }: Known, { refund, costNano }: End): number {
  if (refund) return 0
  return costNano === undefined ? charged : Number(costNano)
}
