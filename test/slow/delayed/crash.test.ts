import { hang, type Reply } from '../../emulators/emulator.ts'
import { ledgerCheck } from '../../support/chaos.ts'
import { delayed, delayedEnvironment, path, startDelayedWorld, submitDelayed } from '../../support/delayed/jobs.ts'
import { eventually, type Process, startProcess } from '../../support/gateway.ts'
import { booked, over, rowOf, wallet } from '../../support/jobs/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useFolder } from '../../support/use.ts'

const count = 8
const storage = useFolder(test)
const workers: Process[] = []

const world = use(test, () => startDelayedWorld({ STORAGE_URL: `file:${storage}` }))
test.after.always(async () => {
  await Promise.all(workers.map(({ kill }) => kill()))
})

async function startWorker(): Promise<Process> {
  const env = { ...(await delayedEnvironment(world.upstream)), STORAGE_URL: `file:${storage}` }
  const worker = await startProcess('worker', world.stores, env)
  workers.push(worker)
  return worker
}

test.serial(
  'completed once, with one charge each: jobs whose worker was killed in the middle of their calls',
  async t => {
    t.timeout(120_000)
    const { gateway, upstream } = world
    const account = await gateway.account()
    upstream.next(...Array<Reply>(count).fill(hang))
    const first = await startWorker()
    const ids: string[] = []
    for (let i = 0; i < count; i++) ids.push((await submitDelayed(world, account.live, delayed(`Job ${i}`))).id)
    await eventually(() => upstream.requests.length === count, 'all are asked')
    await startWorker()
    await first.kill()
    await eventually(
      async () => (await Promise.all(ids.map(id => rowOf(gateway, id)))).every(({ stage }) => stage === 'over'),
      'another worker has run them',
      60_000,
    )
    let spent = 0
    for (const [i, id] of ids.entries()) {
      const { status, cost_usd, result } = await over(gateway, account.live, path, id)
      t.is(status, 'completed')
      t.true(result.choices[0].message.content.includes(`Job ${i}`))
      t.deepEqual(await booked(gateway, id), [-cost_usd])
      spent += cost_usd
    }
    t.is(upstream.requests.length, 2 * count)
    const { organisationId } = account
    t.is(await gateway.services.db.file.count({ where: { organisationId, purpose: 'result' } }), count)
    t.like(await wallet(gateway, account), { balance_usd: Number((25 - spent).toFixed(9)), reserved_usd: 0 })
    t.is((await ledgerCheck(world.stores)).exitCode, 0)
  },
)
