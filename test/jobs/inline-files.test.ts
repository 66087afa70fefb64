import { rateLimited } from '../emulators/gemini.ts'
import { startVeo } from '../emulators/veo.ts'
import { eventually } from '../support/gateway.ts'
import { dataUri, ended, rowOf, submit } from '../support/jobs/gateway.ts'
import { png } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const path = '/v1/videos'
const veo = use(test, startVeo)
const gateway = useGateway(test, () => ({
  GEMINI_API_KEY: 'key',
  GEMINI_BASE_URL: veo.url,
  MAX_BODY_MIB_IN_FLIGHT: '20',
}))
use(test, () => startWorkers(gateway.services))

test('waiting: a job for whose files there is no memory, until another start has sent its own', async t => {
  const { live } = await gateway.account({ usd: '100' })
  const body = {
    model: 'veo-3.1',
    prompt: 'A heron',
    seconds: 4,
    start_image_url: dataUri('image/png', png(2_000_000)),
  }
  const refusal = Promise.withResolvers<void>()
  veo.emulator.next(async (request, response) => {
    await refusal.promise
    await rateLimited()(request, response)
  })
  const first = await submit(gateway, path, live, body)
  await eventually(() => veo.emulator.requests.length === 1, 'the first job is being started')
  const held = gateway.services.budgets.remoteFiles.bytes
  t.is(held, 8_000_000)
  const second = await submit(gateway, path, live, body)
  await eventually(async () => (await rowOf(gateway, second.id)).attempts > 0, 'the second job was tried')
  await eventually(async () => (await rowOf(gateway, second.id)).stage === 'waiting', 'and waits again')
  t.deepEqual([veo.emulator.requests.length, gateway.services.budgets.remoteFiles.bytes], [1, held])
  refusal.resolve()
  for (const { id } of [first, second]) {
    const done = await ended(gateway, live, path, id, () => veo.finish())
    t.deepEqual([done.status, done.error], ['completed', null])
  }
  t.is(gateway.services.budgets.remoteFiles.bytes, 0)
})
