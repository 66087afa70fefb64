import { newId } from '../../shared/base/ids.ts'
import { createLog } from '../../shared/io/log.ts'
import { Admission, type Reservation } from '../../shared/wallet/admission.ts'
import { checkLedger } from '../../shared/wallet/check.ts'
import { sweepReservations } from '../../shared/wallet/reconcile.ts'
import { flatCost } from '../../shared/wallet/reservation.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
import { passForSweeper } from '../support/wallet/ageing.ts'
import { Process, price, World } from '../support/wallet/history.ts'

const stores = useStores(test)
const world = use(test, () => new World(stores))
test.beforeEach(async () => {
  await world.begin()
  await world.deposit(world.billingContexts[0]!.organisationId, 100_000_000, 0)
})

const wanted = { outputTokens: 1_000, explicit: true, minTokens: 1_000, likelyTokens: 0 }
const reserve = async (process = world.processes[0]!) =>
  (await world.admit(process, world.billingContexts[0]!, wanted)) as Reservation
const bound = flatCost(5_000_000)
const reserved = async () => Number((await world.wallets.view(world.billingContexts[0]!.organisationId)).reservedNano)
const beat = ({ admission } = world.processes[0]!) => world.scripts.beat({ instance: admission.instance, alive: 1 })

/** Sweeps every five seconds for so long; answers how many reservations were released. */
async function watch(seconds: number, beating: boolean): Promise<number> {
  let released = 0
  for (let passed = 0; passed < seconds; passed += 5) {
    await passForSweeper(world.redis, 5_000)
    if (beating) await beat()
    released += await sweepReservations(world.scripts)
  }
  return released
}

test.serial('released once a process was silent for 15 s under the sweeper’s eyes', async t => {
  await reserve()
  t.is(await watch(60, true), 0)
  t.is(await watch(10, false), 0)
  t.is(await reserved(), price(1_000))
  t.is(await watch(10, false), 1)
  t.is(await reserved(), 0)
  t.is(await world.redis.exists('instances'), 0, 'it is forgotten')
})

test.serial('kept when no process could send a heartbeat: after an outage each has its 15 s again', async t => {
  await reserve()
  await watch(5, true)
  // Redis is away: no beat, no sweep. Back again, the sweeper comes first.
  await passForSweeper(world.redis, 120_000)
  t.is(await sweepReservations(world.scripts), 0)
  t.is(await watch(60, true), 0)
  t.is(await reserved(), price(1_000))
})

for (const skewMs of [-60_000, 60_000])
  test.serial(`kept for a process whose clock is ${skewMs / 1_000} s off`, async t => {
    const { scripts, wallets } = world
    const clock = { now: () => Date.now() + skewMs }
    const log = createLog('silent')
    const admission = new Admission({ scripts, wallets, clock, log, deadlineMs: 30_000 })
    await admission.start()
    const reservation = (await admission.admit(world.billingContexts[0]!, '-', newId('req'), bound)) as Reservation
    t.is(await sweepReservations(scripts), 0)
    // The sweeper has watched for long.
    await world.redis.hincrby('sweeper', 'since', -60_000)
    t.is(await sweepReservations(scripts), 0)
    t.is(await reserved(), bound.fixedNano)
    admission.release(reservation)
    await admission.close()
  })

test.serial('released at once for a process that said goodbye', async t => {
  await reserve()
  await world.scripts.beat({ instance: world.processes[0]!.admission.instance, alive: 0 })
  t.is(await sweepReservations(world.scripts), 1)
  t.is(await reserved(), 0)
})

test.serial('released past the deadline, and charged all the same when the request ends after it', async t => {
  const reservation = await reserve()
  await passForSweeper(world.redis, 400 * 86_400_000 + 1)
  await beat()
  t.is(await sweepReservations(world.scripts), 1)
  const [open] = world.truth.open
  await world.settle(open!, 5_000)
  t.is(open!.reservation, reservation)
  const view = await world.wallets.view(reservation.billing.organisationId)
  t.deepEqual([view.reservedNano, view.availableNano], [0n, 100_000_000n - 5_000n])
})

test.serial('kept past the deadline while Redis’ clock is ahead of the others, unless its process is dead', async t => {
  await reserve()
  const aheadMs = 400 * 86_400_000 + 1
  await passForSweeper(world.redis, aheadMs)
  await beat()
  t.is(await sweepReservations(world.scripts, Date.now() - aheadMs), 0)
  t.is(await reserved(), price(1_000))
  await world.scripts.beat({ instance: world.processes[0]!.admission.instance, alive: 0 })
  t.is(await sweepReservations(world.scripts, Date.now() - aheadMs), 1)
  t.is(await reserved(), 0)
})

test.serial('released for a process that died before Redis’ clock was set back', async t => {
  await reserve()
  await world.redis.zadd('instances', Date.now() + 400 * 86_400_000, world.processes[0]!.admission.instance)
  t.is(await watch(25, false), 1)
  t.is(await reserved(), 0)
})

test.serial('released also for a process that died before its first beat after Redis was wiped', async t => {
  await world.wipe()
  await reserve()
  t.is(await watch(25, false), 1)
  t.is(await reserved(), 0)
})

test.serial('released when the reply to an admission was lost: 503, and nothing stays reserved', async t => {
  const process = new Process(world)
  await reserve()
  process.loses = 'admit'
  t.is(await world.admit(process, world.billingContexts[0]!, wanted), 'service_unavailable')
  t.is(await reserved(), price(1_000), 'the other request’s reservation only')
})

test.serial('released without a charge when a provider’s count is no amount; others are not held up', async t => {
  const process = world.processes[0]!
  const reservations = [await reserve(), await reserve(), await reserve()]
  const [first, second, third] = reservations
  process.admission.settle(first!, Number.NaN, 0, null)
  process.admission.settle(second!, 1e300, Number.NaN, null)
  process.admission.settle(third!, 7_000, Number.NaN, null)
  await process.admission.flush()
  const view = await world.wallets.view(first!.billing.organisationId)
  t.deepEqual([view.reservedNano, view.availableNano], [0n, 100_000_000n - 7_000n])
})

test.serial('settled once: a second settlement of a reservation changes nothing', async t => {
  const reservation = await reserve()
  const { admission } = world.processes[0]!
  admission.settle(reservation, 3_000, 0, null)
  admission.settle(reservation, 4_000, 0, null)
  admission.release(reservation)
  await admission.flush()
  const view = await world.wallets.view(reservation.billing.organisationId)
  t.deepEqual([view.reservedNano, view.availableNano], [0n, 100_000_000n - 3_000n])
})

test.serial('held: of very many deposits none is available before its release', async t => {
  const { organisationId } = world.billingContexts[2]!
  for (let hour = 1; hour <= 130; hour++) await world.deposit(organisationId, 1_000_000, hour * 3_600_000)
  const view = async () => world.wallets.view(organisationId)
  t.is((await view()).heldNano, 130_000_000n)
  world.clock.advance(50 * 3_600_000)
  t.is((await view()).availableNano, 50_000_000n)
  world.clock.advance(70 * 3_600_000)
  t.true((await view()).availableNano <= 120_000_000n)
  t.true((await view()).availableNano >= 100_000_000n)
  // Read anew, and after the last release in any case, all of it is there.
  await world.redis.del(`wallet:${organisationId}`)
  t.is((await view()).availableNano, 120_000_000n)
  world.clock.advance(10 * 3_600_000)
  t.is((await view()).availableNano, 130_000_000n)
  t.deepEqual(
    (await checkLedger(world.db, world.redis, world.clock.now())).flatMap(it => it.breaches),
    [],
  )
})
