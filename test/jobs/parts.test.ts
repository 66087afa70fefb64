// Jobs whose provider works in parts, one after the other: what ends between two of them.
import { pollJob } from '../../shared/jobs/poll.ts'
import { startJob } from '../../shared/jobs/start.ts'
import { meshyError, startMeshy } from '../emulators/meshy.ts'
import { answerOf, booked, rowOf, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const path = '/v1/meshes'
const usd = 0.525

// No worker runs: the tests take its steps one by one.
const meshy = use(test, startMeshy)
const gateway = useGateway(test, () => ({ MESHY_API_KEY: 'key', MESHY_BASE_URL: `${meshy.url}/openapi` }))
test.beforeEach(() => meshy.emulator.reset())

/** A job whose first part is done, and the next one not begun. */
async function betweenParts(key: string): Promise<string> {
  const { id } = await submit(gateway, path, key, { model: 'meshy-6', prompt: 'a chest' })
  await startJob(gateway.services, id)
  meshy.finish()
  const [running] = await gateway.services.jobs.listRunning([id])
  const step = await pollJob(gateway.services, running!)
  if (!step || !('task' in step) || step.task !== 'start') throw new Error(JSON.stringify(step))
  return id
}

test.serial('cancelled between two parts: the provider had begun, so it is charged', async t => {
  const account = await gateway.account()
  const id = await betweenParts(account.live)
  t.is((await rowOf(gateway, id)).stage, 'waiting')
  const cancelled = await gateway.fetch(`${path}/${id}/cancel`, { key: account.live, method: 'POST' })
  t.like(await answerOf(cancelled), { status: 'cancelled', cost_usd: usd })
  t.deepEqual(await booked(gateway, id), [-usd])
  t.is(await startJob(gateway.services, id), null)
  t.is(meshy.works.size, 1, 'the second part is not begun')
  t.deepEqual(await gateway.settled(), [])
})

test.serial('failed and refunded: the provider refuses the second part', async t => {
  const account = await gateway.account()
  const id = await betweenParts(account.live)
  meshy.emulator.next(meshyError(400, 'Invalid values: texture'))
  t.is(await startJob(gateway.services, id), null)
  const shown = await answerOf(await gateway.fetch(`${path}/${id}`, { key: account.live }))
  t.like(shown, { status: 'failed', cost_usd: 0, error: { code: 'invalid_request' } })
  t.deepEqual(await booked(gateway, id), [-usd, usd])
  t.deepEqual(await gateway.settled(), [])
})
