import fc from 'fast-check'
import type { End } from '../../../shared/jobs/jobs.ts'
import { checkLedger, openReservations } from '../../../shared/wallet/check.ts'
import { maintainPartitions } from '../../../shared/wallet/partitions.ts'
import { type EndCrash, JobWorld, type Known, leaseMs, type SubmitCrash } from '../../support/jobs/history.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'

const stores = useStores(test)
const jobWorld = use(test, () => new JobWorld(stores))
test.before(async () => {
  await maintainPartitions(jobWorld.world.db, Date.parse('2027-01-30T10:00:00Z'), 13)
})

const which = fc.nat(2)
const any = fc.nat(1_000)
const kind = <K extends string>(name: K) => ({ kind: fc.constant(name) })
const submitCrash = fc.constantFrom<SubmitCrash[]>('none', 'none', 'none', 'before the row', 'after the row', 'hiccup')
const endCrash = fc.constantFrom<EndCrash[]>('none', 'none', 'after the commit', 'before the hold goes')
const endings = ['completed', 'failed', 'cancelled', 'expired'] as const
const starts = ['runs', 'refused', 'unclear', 'lost'] as const

const step = fc.oneof(
  { weight: 9, arbitrary: fc.record({ ...kind('submit'), which, process: fc.nat(1), percent: fc.constantFrom(0, 10, 30, 60, 100, 100), held: fc.boolean(), crash: submitCrash }) },
  { weight: 5, arbitrary: fc.record({ ...kind('start'), any, outcome: fc.constantFrom(...starts), twice: fc.boolean() }) },
  { weight: 8, arbitrary: fc.record({ ...kind('end'), any, how: fc.constantFrom(...endings), share: fc.integer({ min: 0, max: 150 }), crash: endCrash, twice: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ ...kind('deposit'), which, nano: fc.integer({ min: 1, max: 20_000_000 }) }) },
  { weight: 2, arbitrary: fc.record(kind('wipe')) },
  { weight: 2, arbitrary: fc.record(kind('house')) },
  { weight: 1, arbitrary: fc.record(kind('pass')) },
  { weight: 1, arbitrary: fc.record(kind('debts')) },
  { weight: 1, arbitrary: fc.record({ ...kind('advance'), hours: fc.constantFrom(1, 40) }) },
) // biome-ignore format: one kind of step per line
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never
type Of<K extends Step['kind']> = Extract<Step, { kind: K }>

async function take(step: Step): Promise<void> {
  const { world } = jobWorld
  switch (step.kind) {
    case 'submit':
      await jobWorld.submit(
        world.processes[step.process]!,
        world.billingContexts[step.which]!,
        step.percent,
        step.held,
        step.crash,
      )
      return
    case 'start':
      return start(step)
    case 'end':
      return end(step)
    case 'deposit':
      return world.deposit(world.billingContexts[step.which]!.organisationId, step.nano, 0)
    case 'wipe':
      return void (await world.redis.flushdb())
    case 'house':
      return jobWorld.runJobHousekeeping()
    case 'pass':
      return jobWorld.pass()
    case 'debts':
      return jobWorld.settleDebts()
    case 'advance':
      world.clock.advance(step.hours * 3_600_000)
      return maintainPartitions(world.db, world.clock.now(), 13)
  }
}

/** One visit to a job that waits; several workers may come at once. */
async function start({ any, outcome, twice }: Of<'start'>): Promise<void> {
  const { jobs, known, world } = jobWorld
  const job = known[any % known.length]
  if (!job) return
  const claims = await Promise.all([
    jobs.claimStart(job.id, 'runway', null),
    twice && jobs.claimStart(job.id, 'fal', null),
  ])
  const won = claims.filter(claim => claim)
  if (won.length > 1) throw new Error(`${job.id} was claimed twice`)
  const [claim] = won
  if (!claim) return
  if (outcome === 'runs') return void (await jobs.markRunning(claim, { id: job.id }))
  if (outcome === 'refused') return jobs.releaseStart(claim)
  if (outcome === 'unclear') return void (await jobWorld.end(job, failed, 'none', 'starting'))
  world.clock.advance(leaseMs + 1)
  const lost = await jobs.claimLostStart(job.id)
  if (!lost) throw new Error('a lost start is not taken up')
  // Who had it before comes back too late to give it away.
  await jobs.releaseStart(claim)
  const to = { provider: 'fal', credentialId: null, claimedUntil: jobs.startLeaseEnd() }
  if (await jobs.moveStart(claim, to)) throw new Error('a lost claim was used')
  if (twice) await jobWorld.end(job, failed, 'none', 'starting')
  else await jobs.markRunning(lost, { id: job.id })
}

const failed: End = { status: 'failed', logStatus: 502, refund: true }

/** Ends a job in one way, or in two at the same time, of which one counts. */
async function end({ any, how, share, crash, twice }: Of<'end'>): Promise<void> {
  const open = jobWorld.known.filter(({ over }) => !over)
  const job = open[any % open.length]
  if (!job) return
  // The excess of a hold is known only at the end, and a crash may leave it out of Redis until then.
  const max = crash === 'none' ? share : Math.min(share, 100)
  const ways = [endOf(job, how, max), ...(twice ? [endOf(job, 'completed', 100)] : [])]
  const ended = await Promise.all(ways.map(way => jobWorld.end(job, way, crash)))
  if (ended.filter(Boolean).length !== 1) throw new Error(`${job.id} did not end once`)
  if (await jobWorld.end(job, failed, 'none')) throw new Error(`${job.id} ended again`)
}

function endOf(job: Known, how: (typeof endings)[number], share: number): End {
  const { held, billing } = job
  // A capped key never pays more than it held.
  const part = billing.capNano === null ? share : Math.min(share, 100)
  const costNano = BigInt(Math.floor((held * part) / 100))
  if (how === 'completed') return { status: how, logStatus: 200, refund: false, ...(held > 0 && { costNano }) }
  if (how === 'cancelled')
    return { status: how, logStatus: 499, refund: share < 50, ...(held > 0 && { costNano: BigInt(held) }) }
  return { status: how, logStatus: 502, refund: true }
}

async function balances(): Promise<void> {
  const { world, known } = jobWorld
  for (const id of new Set(world.billingContexts.map(billing => billing.organisationId))) {
    const { balanceNano } = await world.db.wallet.findUniqueOrThrow({ where: { organisationId: id } })
    const { _sum } = await world.db.ledgerEntry.aggregate({ where: { organisationId: id }, _sum: { amountNano: true } })
    const charged = known
      .filter(({ billing }) => billing.organisationId === id)
      .reduce((all, job) => all + job.charged, 0)
    if (balanceNano !== (_sum.amountNano ?? 0n))
      throw new Error(`balance is ${balanceNano}, Σ ledger ${_sum.amountNano}`)
    if (Number(balanceNano) !== world.truth.deposited(id) - charged) throw new Error(`balance is ${balanceNano}`)
  }
}

/** One round of housekeeping, then nothing may be amiss, with some jobs in flight still. */
async function reckon(): Promise<void> {
  const { world } = jobWorld
  await jobWorld.pass()
  for (const id of new Set(world.billingContexts.map(billing => billing.organisationId))) {
    const { availableNano, reservedNano } = await world.wallets.view(id)
    if (Number(availableNano) !== jobWorld.available(id))
      throw new Error(`available is ${availableNano}, should be ${jobWorld.available(id)}`)
    const held = jobWorld.known
      .filter(({ billing }) => billing.organisationId === id)
      .reduce((all, job) => all + job.held, 0)
    if (Number(reservedNano) !== held) throw new Error(`reserved is ${reservedNano}, should be ${held}`)
  }
  const breaches = (await checkLedger(world.db, world.redis)).flatMap(it => it.breaches)
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
  const others = (await openReservations(world.redis)).filter(({ instance }) => instance !== 'jobs')
  if (others.length > 0) throw new Error(`left open: ${JSON.stringify(others)}`)
  for (const { id, charged } of jobWorld.known.filter(({ over }) => over)) {
    const { costNano } = (await jobWorld.jobs.read(id))!
    if (Number(costNano) !== charged) throw new Error(`${id} costs ${costNano}, should cost ${charged}`)
  }
}

/** No history begins later than this: on a slow machine there are fewer of them. */
const enoughMs = 8_000

test('every job costs what was booked for it, and no money is spent twice, in random histories', async t => {
  t.timeout(120_000)
  const startedMs = Date.now()
  let histories = 0
  const property = fc.asyncProperty(
    fc.array(fc.tuple(step, fc.boolean()), { minLength: 3, maxLength: 20, size: 'max' }),
    async history => {
      if (Date.now() - startedMs > enoughMs) return
      histories++
      await jobWorld.begin()
      const { world } = jobWorld
      await world.deposit(world.billingContexts[0]!.organisationId, 100_000_000, 0)
      await world.deposit(world.billingContexts[2]!.organisationId, 30_000_000, 0)
      for (const [step, probes] of history) {
        await take(step)
        if (probes) await jobWorld.probe()
      }
      await balances()
      await reckon()
    },
  )
  await t.notThrowsAsync(fc.assert(property, { numRuns: 400, includeErrorInReport: true }))
  t.log(`${histories} histories in ${Date.now() - startedMs} ms`)
})

test.serial(
  '402 after Redis was wiped: what jobs in flight hold is not available, whatever was read anew since',
  async t => {
    await jobWorld.begin()
    const { world } = jobWorld
    const [process, billing] = [world.processes[0]!, world.billingContexts[0]!]
    await world.deposit(billing.organisationId, 100_000_000, 0)
    for (const held of [true, false]) await jobWorld.submit(process, billing, 60, held, 'none')
    await world.redis.flushdb()
    t.true(await jobWorld.end(jobWorld.known[1]!, failed, 'none'))
    t.is(await jobWorld.submit(process, billing, 100, false, 'none'), 'insufficient_credits')
    t.is((await world.wallets.view(billing.organisationId)).availableNano, 40_000_000n)
  },
)
