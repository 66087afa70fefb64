import { kling } from '../../../shared/providers/adapters/kling/protocol.ts'
import { json } from '../../emulators/emulator.ts'
import { klingError, startKling } from '../../emulators/kling.ts'
import { connectionTo, providerFault } from '../../support/jobs/queued-adapter.ts'
import { videoAdapter, videoCall } from '../../support/jobs/video-calls.ts'
import { test } from '../../support/test.ts'

const adapter = videoAdapter(kling)
const pro = 'kling-v3-pro'
const external_task_id = 'job_conformance0'

test('unclear the second time, so that it is looked for: one job starts one task', async t => {
  const { url, works, close } = await startKling()
  const connection = connectionTo('kling', kling, url)
  const operation = await adapter.start(videoCall('kling', pro), connection, null)
  const error = await providerFault(adapter.start(videoCall('kling', pro), connection, null))
  t.is(error.reason, 'server_error')
  t.is(error.status, null)
  t.deepEqual(await adapter.find!(videoCall('kling', pro), connection), operation)
  t.is(works.size, 1)
  await close()
})

const found = { task_id: '77', task_status: 'submitted', task_info: { external_task_id } }
const unclear: [string, number, object][] = [
  ['404 without a code', 404, { message: 'no route' }],
  ['404 of another code', 404, { code: 1202, message: 'The requested method is invalid' }],
  ['400 about a parameter', 400, { code: 1201, message: 'task_id is invalid' }],
  ['a refused key', 401, { code: 1004, message: 'Authorization has expired' }],
  ['an answer without data', 200, { code: 0, message: 'SUCCEED' }],
  ['an answer without a code', 200, { data: found }],
  ['the task of another job', 200, { code: 0, data: { ...found, task_info: { external_task_id: 'job_other' } } }],
  ['a task that tells no job', 200, { code: 0, data: { task_id: '77', task_status: 'submitted' } }],
]
for (const [title, status, answer] of unclear)
  test(`unclear, so neither found nor missing: ${title}`, async t => {
    const { emulator, url, close } = await startKling()
    emulator.next(json(status, answer))
    await providerFault(adapter.find!(videoCall('kling', pro), connectionTo('kling', kling, url)))
    t.is(emulator.requests[0]?.path, '/v1/videos/text2video/job_conformance0')
    await close()
  })

test('found and missing: only by what Kling says in so many words', async t => {
  const { emulator, url, close } = await startKling()
  const connection = connectionTo('kling', kling, url)
  const call = videoCall('kling', pro)
  for (const missing of [
    klingError(404, 1203, 'The requested resource does not exist'),
    klingError(200, 1203, 'The requested resource does not exist'),
    klingError(400, 1201, 'Task not found by external_task_id'),
  ]) {
    emulator.next(missing)
    t.is(await adapter.find!(call, connection), null)
  }
  emulator.next(json(200, { code: 0, data: found }))
  t.deepEqual(await adapter.find!(call, connection), { route: 'text2video', task: '77' })
  await close()
})
