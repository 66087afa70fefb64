import { LineStarts } from '../../../shared/batches/run.ts'
import { CrashSuspectLimiter } from '../../../shared/queues/crash-suspect-limiter.ts'
import { hang, type Reply } from '../../emulators/emulator.ts'
import { reply as usual } from '../../emulators/openai.ts'
import { batchOf, type ResultLine, resultsOf } from '../../support/batches/gateway.ts'
import { BatchWorld, broken, coinLines, idsOf } from '../../support/batches/world.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { testClock } from '../../support/wallet/money.ts'

const clock = testClock('2026-11-20T12:00:00Z')
const world = use(test, () => BatchWorld.start({}, clock))
test.beforeEach(() => {
  world.asked.clear()
  world.answers = () => usual
})

/** The services as another process has them. */
const process = () => ({ ...world.gateway.services, crashSuspects: new CrashSuspectLimiter() })
const lost = () => new Promise<never>(() => {})
const starts = async (batchId: string) => {
  const rows = await world.gateway.services.db.batchStart.findMany({ where: { batchId }, orderBy: { line: 'asc' } })
  return rows.map(({ line, openStarts }) => [line, openStarts])
}

test.serial('completed without the one line that workers die of: the lines beside it are answered', async t => {
  const account = await world.gateway.account()
  const door = world.door(account)
  const lines = coinLines(12)
  const id = await world.created(door, lines)
  // A worker in whose hands this line is does nothing more: it is as good as dead.
  const poison = 'line-7'
  world.answers = () => hang
  void world.visit(id, process()).catch(() => {})
  await eventually(() => world.asked.size === 12, 'all lines are under way')
  world.answers = (content): Reply => (content === poison ? hang : usual)
  for (let lives = 2; lives <= 3; lives++) {
    void world.visit(id, process()).catch(() => {})
    await eventually(() => world.asked.get(poison) === lives, 'the poisonous line is asked again')
    await eventually(async () => (await world.row(id)).completed === 11, 'the others are answered')
    t.deepEqual(await starts(id).then(rows => rows.filter(([line]) => line === 8)), [[8, lives]])
  }
  t.is(await world.visit(id, process()), null)
  t.is(world.asked.get(poison), 3)
  const batch = await batchOf(door, id)
  t.is(batch.status, 'completed')
  t.deepEqual(batch.request_counts, { total: 12, completed: 11, failed: 1 })
  const [{ custom_id, error }] = (await resultsOf(door, batch)).errors as [ResultLine]
  t.deepEqual([custom_id, error!.code], [poison, 'internal_error'])
  const { wallets } = world.gateway.services
  const isFree = async () => (await wallets.view(account.organisationId)).reservedNano === 0n
  await eventually(isFree, 'the dead workers’ reservations are given up')
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
  t.deepEqual(await starts(id), [])
})

test.serial('suspects run in small groups, and lines that came after them beside them', async t => {
  const account = await world.gateway.account()
  const door = world.door(account)
  const id = await world.created(door, coinLines(12))
  world.answers = () => hang
  void world.visit(id, process()).catch(() => {})
  await eventually(() => world.asked.size === 12, 'all lines are under way')
  void world.visit(id, process()).catch(() => {})
  const again = () => [...world.asked.values()].filter(times => times > 1).length
  await eventually(() => again() === 8, 'eight are asked again')
  t.is((await starts(id)).filter(([, openStarts]) => openStarts === 2).length, 8)
  t.is((await starts(id)).filter(([, openStarts]) => openStarts === 1).length, 4)
  world.answers = () => usual
  t.is(await world.visit(id, process()), null)
  t.like(await batchOf(door, id), { status: 'completed', request_counts: { completed: 12, failed: 0 } })
  await world.gateway.settled()
})

test.serial(
  'no suspects: lines that an owner handed back; suspects: those it left, until a start of theirs ends',
  async t => {
    const { services } = world.gateway
    const account = await world.gateway.account()
    const id = await world.created(world.door(account), coinLines(3))
    const claim = async () => {
      await services.db.batch.update({ where: { id }, data: { total: 3 } })
      const batch = (await services.batches.claim(id))!
      const lines = new LineStarts(services, batch)
      await lines.open()
      return lines
    }
    const first = await claim()
    await first.mark(1)
    await first.mark(2)
    t.is((await world.row(id)).startedLine, 256)
    await first.close()
    const second = await claim()
    t.deepEqual(await starts(id), [])
    await second.mark(1)
    const third = await claim()
    t.deepEqual(await starts(id), [
      [1, 1],
      [2, 1],
      [3, 1],
    ])
    await third.run(1, async () => {
      t.deepEqual((await starts(id))[0], [1, 2])
      return { result: null, hasResult: false }
    })
    t.deepEqual((await starts(id))[0], [1, 1])
    await t.throwsAsync(() => second.mark(300), { name: 'Superseded' })
    await services.db.batch.delete({ where: { id } })
  },
)

for (const phase of ['validation', 'sealing'] as const)
  test.serial(`failed: a batch whose ${phase} three workers died of`, async t => {
    const account = await world.gateway.account()
    const door = world.door(account)
    const id = await world.created(door, coinLines(2))
    const reached = async (dying: ReturnType<typeof process>, isReached: () => boolean) => {
      void world.visit(id, dying).catch(() => {})
      await eventually(isReached, `a worker dies of the ${phase}`)
    }
    for (let death = 1; death <= 3; death++) {
      const own = process()
      let isReached = false
      const dies = () => {
        isReached = true
        return lost()
      }
      const blobs = broken(own.blobs, 'read', dies)
      const files = broken(own.files, 'store', dies)
      await reached(phase === 'validation' ? { ...own, blobs } : { ...own, files }, () => isReached)
      t.is((await world.row(id)).openStarts, death)
    }
    t.is(await world.visit(id, process()), null)
    const batch = await batchOf(door, id)
    t.is(batch.status, 'failed')
    t.like(batch.errors!.data[0], { code: 'internal_error', line: null })
    t.deepEqual(await world.gateway.settled(), [])
  })
