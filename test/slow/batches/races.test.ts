import { newId } from '../../../shared/base/ids.ts'
import { journalEntry } from '../../../shared/batches/batch-journal.ts'
import type { Batch } from '../../../shared/batches/batches.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import type { Database } from '../../../shared/io/db.ts'
import type { UsageEvent } from '../../../shared/wallet/usage-event.ts'
import { json } from '../../emulators/emulator.ts'
import { reply as usual } from '../../emulators/openai.ts'
import { batchOf, cancelBatch, chatLine, type ResultLine, resultsOf } from '../../support/batches/gateway.ts'
import { BatchWorld, broken, coinLines, idsOf } from '../../support/batches/world.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { testClock } from '../../support/wallet/money.ts'
import { usageEventOf } from '../../support/wallet/usage-event.ts'

/** The usage of a line that cost so much. */
function usageOf({ organisationId, keyId, month, requestId, createdAt }: Batch, cost: number): UsageEvent {
  const own = { id: newId('chatcmpl'), at: createdAt.getTime(), org: organisationId, key: keyId, month, requestId }
  return usageEventOf({ ...own, cost })
}

const clock = testClock('2026-11-20T12:00:00Z')
const world = use(test, () => BatchWorld.start({ BULK_CONCURRENCY: '4' }, clock))
test.beforeEach(() => {
  world.asked.clear()
  world.answers = () => usual
})

const lost = () => new Error('the connection broke')

/** Has every call wait until the test lets them all go. */
function held(): () => void {
  const open = Promise.withResolvers<void>()
  world.answers = () => async (request, response) => {
    await open.promise
    await usual(request, response)
  }
  return open.resolve
}

test.serial('completed: lines that must wait for each other’s money are answered, not refused', async t => {
  const account = await world.gateway.account({ usd: '0.15' })
  const door = world.door(account)
  // Each reserves two thirds of the funds and costs next to nothing.
  const lines = coinLines(6, { max_tokens: 100_000 })
  const id = await world.created(door, lines)
  t.is(await world.visit(id), null)
  t.deepEqual((await batchOf(door, id)).request_counts, { total: 6, completed: 6, failed: 0 })
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
})

test.serial('completed beside a line larger than all funds, which alone is refused', async t => {
  const account = await world.gateway.account({ usd: '0.01' })
  const door = world.door(account)
  const [large] = coinLines(1, { max_tokens: 100_000 })
  const lines = [{ ...large!, custom_id: 'large' }, ...coinLines(40)]
  const id = await world.created(door, lines)
  t.is(await world.visit(id), null)
  const batch = await batchOf(door, id)
  t.deepEqual(batch.request_counts, { total: 41, completed: 40, failed: 1 })
  const [{ custom_id, response }] = (await resultsOf(door, batch)).errors as [ResultLine]
  t.deepEqual([custom_id, response!.status_code], ['large', 402])
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
})

test.serial('completed: a key that is rolled while several of its lines are admitted goes on', async t => {
  const account = await world.gateway.account()
  const lines = coinLines(24)
  const id = await world.created(world.door(account), lines)
  const release = held()
  const visit = world.visit(id)
  await eventually(() => world.asked.size === 4, 'four calls are under way')
  const { services } = world.gateway
  const { keyId } = await world.row(id)
  const { hash } = await services.db.apiKey.findUniqueOrThrow({ where: { id: keyId } })
  const { secret } = await services.keys.roll(account.organisationId, hash, operatorActor)
  release()
  await visit
  const door = world.door({ live: secret })
  t.deepEqual((await batchOf(door, id)).request_counts, { total: 24, completed: 24, failed: 0 })
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
})

test.serial(
  'completed: a result that Postgres refuses ends its own line alone, though the connection breaks meanwhile',
  async t => {
    const account = await world.gateway.account()
    const door = world.door(account)
    const lines = coinLines(10)
    const id = await world.created(door, lines)
    const { services } = world.gateway
    await refuseLine(services.db, id, 4)
    const { batchJournal } = services
    let breaks = 2
    const record: typeof batchJournal.record = (batch, results, resume) => {
      if (results.length === 1 && breaks-- > 0) return Promise.reject(lost())
      return batchJournal.record(batch, results, resume)
    }
    t.is(await world.visit(id, { ...services, batchJournal: broken(batchJournal, 'record', record) }), null)
    const batch = await batchOf(door, id)
    t.deepEqual(batch.request_counts, { total: 10, completed: 9, failed: 1 })
    const { errors } = await resultsOf(door, batch)
    t.deepEqual([errors[0]!.custom_id, errors[0]!.error!.code], ['line-3', 'internal_error'])
    t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
  },
)

test.serial('completed: results whose commit was never confirmed are there once, and are charged once', async t => {
  const account = await world.gateway.account()
  const door = world.door(account)
  const lines = coinLines(40)
  const id = await world.created(door, lines)
  const { services } = world.gateway
  const { batchJournal } = services
  let breaks = 3
  const record: typeof batchJournal.record = async (batch, results, resume) => {
    const status = await batchJournal.record(batch, results, resume)
    if (breaks-- > 0) throw lost()
    return status
  }
  t.is(await world.visit(id, { ...services, batchJournal: broken(batchJournal, 'record', record) }), null)
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
})

test.serial('charged once: a second result of a line changes nothing, whatever it costs', async t => {
  const account = await world.gateway.account()
  const id = await world.created(world.door(account), coinLines(1))
  const { batches, batchJournal, db } = world.gateway.services
  const claimed = (await batches.claim(id))!
  const begun = { status: 'in_progress', inProgressAt: new Date(clock.now()), total: 1 } as const
  const batch = await batches.change(claimed, ['validating'], begun)
  for (const cost of [1_000, 2_000]) {
    const event = usageOf(batch, cost)
    const entry = journalEntry({ line: 1, failed: false, text: '{}', event })
    await batchJournal.record(batch, [entry], { line: 1, byte: 0 })
  }
  t.is((await world.row(id)).costNano, 1_000n)
  const { _sum } = await db.ledgerEntry.aggregate({
    where: { kind: 'charge', organisationId: account.organisationId },
    _sum: { amountNano: true },
  })
  t.is(_sum.amountNano, -1_000n)
  await batches.cancel(id)
  await world.visit(id)
})

test.serial('expired, also when its worker dies between the last line and the files', async t => {
  const account = await world.gateway.account()
  const door = world.door(account)
  const lines = coinLines(30)
  const id = await world.created(door, lines)
  const { services } = world.gateway
  const { batches } = services
  clock.advance(24 * 3_600_000)
  const change: typeof batches.change = (batch, from, data) =>
    data.status === 'finalizing' ? Promise.reject(lost()) : batches.change(batch, from, data)
  await t.throwsAsync(world.visit(id, { ...services, batches: broken(batches, 'change', change) }))
  t.is((await world.row(id)).failed, 30)
  t.is(await world.visit(id), null)
  t.is((await batchOf(door, id)).status, 'expired')
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
})

test.serial(
  'completed though the storage fails in the middle: calls under way end, no line is asked for twice',
  async t => {
    const account = await world.gateway.account()
    const door = world.door(account)
    const long = 'x'.repeat(400_000)
    const lines = Array.from({ length: 8 }, (_, i) =>
      chatLine(`line-${i}`, 'coin', `line-${i} ${long}`, { max_tokens: 20 }),
    )
    const id = await world.created(door, lines)
    const { services } = world.gateway
    const { blobs } = services
    let reads = 0
    const read: typeof blobs.read = (key, range) =>
      range && ++reads === 2 ? Promise.reject(lost()) : blobs.read(key, range)
    const release = held()
    const visit = world.visit(id, { ...services, blobs: broken(blobs, 'read', read) })
    await eventually(() => world.asked.size === 2 && reads === 2, 'the lines before that are under way')
    release()
    await t.throwsAsync(visit, { message: 'the connection broke' })
    t.is((await world.row(id)).completed, 2)
    t.is(await world.visit(id), null)
    t.deepEqual(new Set(world.asked.values()), new Set([1]))
    t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
  },
)

test.serial(
  'completed, its output whole, though the move of a part was never confirmed and the part is old',
  async t => {
    const account = await world.gateway.account()
    const door = world.door(account)
    const million = 'x'.repeat(1_000_000)
    const lines = coinLines(72)
    const id = await world.created(door, lines)
    const { services } = world.gateway
    const { batchJournal } = services
    world.answers = asked => (request, response) => {
      const message = { role: 'assistant', content: `${asked} ${million}`, refusal: null }
      const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
      const head = { id: 'chatcmpl-x', object: 'chat.completion', created: 1_795_132_800, model: 'coin' }
      return json(200, { ...head, choices: [{ index: 0, message, finish_reason: 'stop' }], usage })(request, response)
    }
    const moved: typeof batchJournal.recordPart = async (...args) => {
      await batchJournal.recordPart(...args)
      await services.files.expire(clock.now() + 25 * 3_600_000)
      throw lost()
    }
    t.is(await world.visit(id, { ...services, batchJournal: broken(batchJournal, 'recordPart', moved) }), null)
    t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
  },
)

test.serial('cancelled before it was validated: it has no lines', async t => {
  const account = await world.gateway.account()
  const door = world.door(account)
  const id = await world.created(door, coinLines(3))
  await cancelBatch(door, id)
  t.is(await world.visit(id), null)
  const batch = await batchOf(door, id)
  t.deepEqual([batch.status, batch.request_counts.total], ['cancelled', 0])
  t.is(world.asked.size, 0)
})

test.serial('completed across the end of a month: what was reserved in a month is charged in it', async t => {
  clock.set('2026-11-30T23:59:30Z')
  const account = await world.gateway.account({ monthly_spend_cap_usd: 5 })
  const door = world.door(account)
  const lines = coinLines(12)
  const id = await world.created(door, lines)
  const release = held()
  const visit = world.visit(id)
  await eventually(() => world.asked.size === 4, 'four calls are under way')
  clock.advance(40_000)
  release()
  await visit
  t.deepEqual(await world.faults(door, id, idsOf(lines), account.organisationId), [])
  const { keyId } = await world.row(id)
  const months = await world.gateway.services.db.keySpend.findMany({ where: { keyId }, orderBy: { month: 'asc' } })
  t.deepEqual(
    months.map(({ month }) => month),
    ['2026-11', '2026-12'],
  )
})

/** Has Postgres refuse the result of a line, as it does a value that a column cannot hold. */
async function refuseLine(db: Database, batchId: string, line: number): Promise<void> {
  await db.$executeRawUnsafe(`
    CREATE FUNCTION refuse_line() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE numeric_value_out_of_range; END $$`)
  await db.$executeRawUnsafe(`
    CREATE TRIGGER refuse_line BEFORE INSERT ON batch_lines FOR EACH ROW
    WHEN (NEW.batch_id = '${batchId}' AND NEW.line = ${line} AND NOT NEW.failed) EXECUTE FUNCTION refuse_line()`)
}
