import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../../dev/migrate.ts'
import { Emulator } from '../../emulators/emulator.ts'
import { chatReply, failure } from '../../emulators/openai.ts'
import {
  type BatchObject,
  batchOf,
  cancelBatch,
  chatLine,
  costNano,
  createBatch,
  type Door,
  ended,
  jsonLines,
  lineFaults,
  type Results,
  resultsOf,
  uploadInput,
} from '../../support/batches/gateway.ts'
import { breaches, ledgerCheck, observe, quiet } from '../../support/chaos.ts'
import { createAccount, eventually, type Process, startProcess } from '../../support/gateway.ts'
import { privatePostgres, privateRedis } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useFolder } from '../../support/use.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

/** One request of this many is one that the provider refuses. */
const refusedEach = 50
const inFlight = 64
const minKills = 4
/** `CHAOS_LINES=20000 node test/run.ts test/nightly/chaos/chaos-batches.test.ts` for a long run. */
const killedLines = Number(process.env.CHAOS_LINES ?? 3_000)

const storage = useFolder(test)
const postgres = use(test, privatePostgres)
const redis = use(test, privateRedis)
const upstream = use(test, startUpstream)
const workers: Process[] = []
/** How often the provider was asked, by request. */
const calls = new Map<string, number>()
let called = 0

test.before(() => migrate(postgres.url))
const env = use(test, async () => ({
  ...(await moneyEnvironment(upstream.url)),
  STORAGE_URL: `file:${storage}`,
  BULK_CONCURRENCY: String(inFlight),
}))
const services = use(test, () => observe(stores(), env))
const web = use(test, () => startProcess('web', stores(), env))
test.beforeEach(() => {
  calls.clear()
  called = 0
})
test.afterEach.always(async () => {
  await Promise.all(workers.splice(0).map(({ kill }) => kill()))
})

const stores = () => ({ databaseUrl: postgres.url, redisUrl: redis.url })

/** Answers by echo after some milliseconds; every fiftieth request is refused. Counts the calls by what they say. */
async function startUpstream(): Promise<Emulator> {
  const answer = chatReply({ delayMs: 4 })
  const refusal = failure(400, 'This prompt is not allowed.', 'invalid_request_error', null)
  const emulator = await Emulator.start((request, response) => {
    emulator.requests.length = 0 // They are not read again, and there are many.
    const id = request.body.messages[0].content
    calls.set(id, (calls.get(id) ?? 0) + 1)
    called++
    return (isRefused(id) ? refusal : answer)(request, response)
  })
  return emulator
}

function isRefused(id: string): boolean {
  return Number(id.split('-')[1]) % refusedEach === 0
}

async function startWorker(): Promise<Process> {
  const worker = await startProcess('worker', stores(), env)
  workers.push(worker)
  return worker
}

type Run = Door & { organisationId: string; ids: string[]; batchId: string }

/** An organisation of its own that has a batch of so many requests run. */
async function begin(lines: number): Promise<Run> {
  const { organisationId, live } = await createAccount(services)
  const door = { url: web.url, key: live }
  const ids = Array.from({ length: lines }, (_, i) => `request-${i}`)
  const input = await uploadInput(door, jsonLines(ids.map(id => chatLine(id, 'coin', id, { max_tokens: 20 }))))
  const { id } = await createBatch(door, input, { batch_routing: 'gateway' })
  return { ...door, organisationId, ids, batchId: id }
}

/** Waits until the provider was asked so many more times, or the batch is at its end. */
async function more(run: Run, count: number): Promise<void> {
  const goal = called + count
  const isSealing = async () => {
    const { status } = await batchOf(run, run.batchId)
    return !['validating', 'in_progress'].includes(status)
  }
  await eventually(async () => called >= goal || (await isSealing().catch(() => false)), `${count} more calls`, 90_000)
}

/** Holds a finished batch to what it must be: every request once, its counts, its money. */
async function checked(t: ExecutionContext, run: Run, batch: BatchObject): Promise<Results> {
  const results = await resultsOf(run, batch)
  t.deepEqual(lineFaults(run.ids, results), [])
  const { output, errors } = results
  t.deepEqual(batch.request_counts, { total: run.ids.length, completed: output.length, failed: errors.length })
  t.true(output.every(({ custom_id, response }) => response!.body.choices[0].message.content === `Echo: ${custom_id}`))
  t.true(output.every(({ custom_id }) => !isRefused(custom_id)))

  await quiet(services)
  const { organisationId } = run
  const where = { organisationId, kind: 'charge' } as const
  const { _sum } = await services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  const chargedNano = 0 - Number(_sum.amountNano ?? 0n)
  t.is(chargedNano, costNano(results))
  t.is(Math.round(batch.cost_usd! * 1e9), chargedNano)
  t.is((await services.wallets.view(organisationId)).reservedNano, 0n)
  t.deepEqual(await breaches(services), [])
  return results
}

/** What every batch that ran to its end has: the refused requests alone in the error file. */
async function checkedWhole(t: ExecutionContext, run: Run, batch: BatchObject): Promise<void> {
  t.is(batch.status, 'completed')
  const { errors } = await checked(t, run, batch)
  t.is(errors.length, run.ids.length / refusedEach)
  t.true(errors.every(({ custom_id, response }) => isRefused(custom_id) && response?.status_code === 400))
}

test.serial('completed, every line once, though workers are killed all the time', async t => {
  t.timeout(240_000)
  // A killed worker is started again at once, while the other goes on.
  const pair = [startWorker(), startWorker()]
  const run = await begin(killedLines)
  let kills = 0
  // The surviving worker takes the batch over, so that the next kill hits it again.
  for (; kills <= minKills; kills++) {
    await more(run, killedLines * (0.025 + 0.15 * Math.random()))
    await sleep(Math.random() * 100)
    await (await pair[kills % 2]!).kill()
    if (kills < minKills) pair[kills % 2] = startWorker()
  }
  const batch = await ended(run, run.batchId, 120_000)
  t.is(batch.status, 'completed')
  const { errors } = await checked(t, run, batch)
  // What was under way at three kills is taken for their cause. Kills follow each other in seconds here, so there may be some.
  const [givenUp, refused] = [
    errors.filter(({ error }) => error !== null),
    errors.filter(({ error }) => error === null),
  ]
  t.true(givenUp.length <= killedLines / 50, `${givenUp.length} lines were given up`)
  t.true(givenUp.every(({ error }) => error!.code === 'internal_error'))
  t.true(refused.every(({ custom_id, response }) => isRefused(custom_id) && response?.status_code === 400))
  const refusedOrGivenUp = [...refused, ...givenUp].filter(({ custom_id }) => isRefused(custom_id)).length
  t.is(refusedOrGivenUp, run.ids.length / refusedEach)
  const { epoch } = await services.db.batch.findUniqueOrThrow({ where: { id: run.batchId } })
  t.log(`${kills} kills, ${epoch} claims, ${called - run.ids.length} calls made again`)
  t.true(epoch > 1, 'it changed hands')
  t.is((await ledgerCheck(stores())).exitCode, 0)
})

test.serial('completed, no line run twice, when its worker is told to stop', async t => {
  t.timeout(120_000)
  const [first, second] = [await startWorker(), await startWorker()]
  const run = await begin(1_600)
  for (const worker of [first, second]) {
    await more(run, 400)
    await worker.kill('SIGTERM')
    t.is(worker.child.exitCode, 0, worker.output())
    await startWorker()
  }
  const batch = await ended(run, run.batchId)
  await checkedWhole(t, run, batch)
  t.deepEqual(
    [...calls].filter(([, times]) => times > 1),
    [],
  )
})

test.serial('completed after Redis was wiped while it ran', async t => {
  t.timeout(120_000)
  const worker = await startWorker()
  const run = await begin(1_600)
  await more(run, 400)
  await services.redis.flushdb()
  await more(run, 400)
  // Only the row still refers to the batch.
  await services.redis.flushdb()
  await worker.kill()
  await startWorker()
  await checkedWhole(t, run, await ended(run, run.batchId, 90_000))
  t.is((await ledgerCheck(stores())).exitCode, 0)
})

test.serial('completed after Postgres was away while it ran', async t => {
  t.timeout(120_000)
  await startWorker()
  const run = await begin(1_600)
  await more(run, 600)
  await postgres.kill()
  await sleep(1_000)
  await postgres.restart()
  await checkedWhole(t, run, await ended(run, run.batchId, 90_000))
  t.is((await ledgerCheck(stores())).exitCode, 0)
})

test.serial('cancelled while it ran: what finished is kept and billed, the rest is in the error file', async t => {
  t.timeout(120_000)
  await startWorker()
  const run = await begin(3_000)
  await more(run, 1_000)
  await cancelBatch(run, run.batchId)
  const batch = await ended(run, run.batchId)
  t.is(batch.status, 'cancelled')
  const { output, errors } = await checked(t, run, batch)
  const unrun = errors.filter(({ response }) => response === null)
  t.true(output.length >= 500)
  t.true(unrun.length >= 500)
  t.deepEqual([...new Set(unrun.map(({ error }) => error?.code))], ['batch_cancelled'])
  t.is(output.length + errors.length - unrun.length, calls.size, 'every request that was sent has its result')
})
