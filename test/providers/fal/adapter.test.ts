import { fal } from '../../../shared/providers/adapters/fal/protocol.ts'
import { json } from '../../emulators/emulator.ts'
import { falError, startFal } from '../../emulators/fal.ts'
import { falLipsync, falMesh, falVideo } from '../../support/jobs/fal-calls.ts'
import { queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { test } from '../../support/test.ts'

const replies = {
  invalid: falError(422, [{ loc: ['body', 'prompt'], msg: 'Field required', type: 'missing' }]),
  rateLimited: falError(429, 'Too many requests', { 'retry-after': '1' }),
  quota: falError(403, 'User is locked. Reason: Exhausted balance. Top up your balance at fal.ai/dashboard/billing.'),
}
const common = { provider: 'fal', protocol: fal, start: startFal, replies }
queuedConformance(test, { ...common, name: 'fal video', kind: 'video', call: () => falVideo('kling-v3-pro') })
queuedConformance(test, { ...common, name: 'fal lip sync', kind: 'lipsync', call: () => falLipsync() })
queuedConformance(test, { ...common, name: 'fal mesh', kind: 'mesh', call: () => falMesh('hunyuan3d-v3') })

const videos = bench('fal', fal, 'video', startFal)
const operation = { app: 'fal-ai/kling-video', request: 'r1', output: null }

test('reported by fal: every status of the queue', async t => {
  await assertReports(t, answer => videos.shown(answer, operation), [
    [{ status: 'IN_QUEUE', queue_position: 2 }, 'pending'],
    [{ status: 'IN_PROGRESS', logs: [] }, 'pending'],
    [{ status: 'SLEEPING' }, 'throws invalid_response'],
    [{ request_id: 'r1' }, 'throws invalid_response'],
    [[], 'throws invalid_response'],
  ])
})

test('reported: completed means final, the result says whether it succeeded', async t => {
  const down = json(503, { detail: 'Service Unavailable' })
  const runner = json(503, { detail: 'Runner disconnected', error_type: 'runner_disconnected' })
  const policy = falError(422, [{ loc: ['body', 'prompt'], msg: 'Flagged.', type: 'content_policy_violation' }])
  const shown = async (reply: ReturnType<typeof json>) =>
    videos.using(async ({ emulator }, connection) => {
      emulator.next(json(200, { status: 'COMPLETED' }), reply)
      return videos.adapter.check(operation, connection)
    })
  const results: [ReturnType<typeof json>, string][] = [
    [json(200, { video: { url: 'https://v3.fal.media/files/a.mp4' } }), 'completed'],
    [json(200, { video: 'https://v3.fal.media/files/a.mp4' }), 'completed'],
    [json(200, { videos: [{ url: 'https://v3.fal.media/files/a.mp4' }] }), 'completed'],
    [json(200, { images: [] }), 'failed: invalid_response'],
    [json(200, { video: { url: 'file:///etc/passwd' } }), 'failed: invalid_response'],
    [json(200, 'cut'), 'throws invalid_response'],
    [policy, 'failed: content_filter'],
    [
      falError(422, [{ loc: ['body', 'image_url'], msg: 'Too small', type: 'image_too_small' }]),
      'failed: invalid_request',
    ],
    [falError(500, 'Internal Server Error'), 'failed: server_error'],
    [falError(504, [{ loc: ['body'], msg: 'Generation timeout', type: 'generation_timeout' }]), 'failed: timeout'],
    [json(499, { detail: 'Request cancelled', error_type: 'client_cancelled' }), 'failed: server_error'],
    [runner, 'failed: overloaded'],
    [
      json(504, {}, { 'x-fal-error-type': 'request_timeout', 'x-fal-request-timeout-type': 'user' }),
      'failed: server_error',
    ],
    [down, 'throws overloaded'],
    [json(500, {}), 'throws server_error'],
    [json(502, 'Bad Gateway'), 'throws server_error'],
    [falError(401, 'Authentication is required'), 'throws auth'],
    [falError(404, 'Request not found'), 'throws model_unavailable'],
    [falError(429, 'Too many requests'), 'throws rate_limited'],
  ]
  await assertReports(t, answer => shown(answer as never), results)
})

test('failed: work of which the status says so, whatever status its result has', async t => {
  const shown = (status: object, reply: ReturnType<typeof json>) =>
    videos.using(async ({ emulator }, connection) => {
      emulator.next(json(200, { status: 'COMPLETED', logs: [], metrics: {}, ...status }), reply)
      return videos.adapter.check(operation, connection)
    })
  const failed = { error: 'Service Unavailable', error_type: 'runner_disconnected' }
  const late = { error: 'Request timed out', error_type: 'request_timeout' }
  const policy = [{ loc: ['body', 'prompt'], msg: 'Flagged.', type: 'content_policy_violation' }]
  const cases: [object, ReturnType<typeof json>, string][] = [
    [failed, json(503, { detail: 'Service Unavailable' }), 'failed: overloaded'],
    [failed, json(429, { detail: 'Too many requests' }), 'failed: server_error'],
    [failed, json(404, { detail: 'Not found' }), 'failed: server_error'],
    [late, json(408, {}), 'failed: timeout'],
    [{ error: 'Unexpected status code: 422' }, falError(422, policy), 'failed: content_filter'],
    [{ error: null, error_type: null }, json(429, { detail: 'Too many requests' }), 'throws rate_limited'],
    [failed, json(200, { video: { url: 'https://v3.fal.media/files/a.mp4' } }), 'completed'],
  ]
  for (const [status, reply, expected] of cases)
    await assertReports(t, () => shown(status, reply), [[{ status, expected }, expected]])
})

test('reported: files of a mesh by what they are, length and billable units where they are told', async t => {
  const { adapter, using } = bench('fal', fal, 'mesh', startFal)
  await using(async ({ finish, url }, connection) => {
    const started = await adapter.start(falMesh('hunyuan3d-v3'), connection, null)
    finish()
    const report = await adapter.check(started, connection)
    if (report.status !== 'completed') return t.fail(report.status)
    const files = `${url}/files/${started.request}`
    t.deepEqual(report.output.files, [
      { role: 'glb', url: `${files}/model.glb` },
      { role: 'obj', url: `${files}/model.obj` },
      { role: 'mtl', url: `${files}/model.mtl` },
      { role: 'texture', url: `${files}/texture.png` },
      { role: 'thumbnail', url: `${files}/thumbnail.png` },
    ])
    t.deepEqual(report.invoice, { seconds: null, credits: 0.79 })
  })
  const lipsyncs = bench('fal', fal, 'lipsync', startFal)
  await lipsyncs.using(async ({ finish }, connection) => {
    const started = await lipsyncs.adapter.start(falLipsync(), connection, null)
    finish()
    const report = await lipsyncs.adapter.check(started, connection)
    if (report.status === 'completed') t.is(report.output.durationS, 3.2)
    else t.fail(report.status)
  })
})

test('404 right after the start: the look failed, nothing else', async t => {
  await videos.using(async ({ emulator, finish }, connection) => {
    const started = await videos.adapter.start(falVideo('kling-v3-pro'), connection, null)
    emulator.next(falError(404, 'Request not found'))
    const error = await t.throwsAsync(videos.adapter.check(started, connection))
    t.is((error as { reason?: string }).reason, 'model_unavailable')
    finish()
    t.is((await videos.adapter.check(started, connection)).status, 'completed')
  })
})

test('cancelled: work that is over or gone needs no stop', async t => {
  await videos.using(async ({ emulator, finish }, connection) => {
    const started = await videos.adapter.start(falVideo('kling-v3-pro'), connection, null)
    finish()
    await videos.adapter.cancel!(started, connection)
    t.is(emulator.requests.at(-1)!.method, 'PUT')
    await t.notThrowsAsync(async () => videos.adapter.cancel!({ ...started, request: 'gone' }, connection))
  })
})

test('failed: the reason and message of every form of failure', t => {
  const secret = `https://storage.example/${'a'.repeat(20)}?signature=abc`
  assertFailures(t, fal, [
    [400, { detail: 'Bad request' }, 'invalid_request', 'Bad request'],
    [
      401,
      { detail: 'Invalid key secret' },
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [402, {}, 'quota', "The gateway's account at the provider has no credit left. Tell the operator of this service."],
    [403, { detail: 'Not allowed' }, 'auth'],
    [403, { detail: 'User is locked. Reason: Exhausted balance.' }, 'quota'],
    [404, { detail: 'Application x not found' }, 'model_unavailable'],
    [408, {}, 'server_error'],
    [422, { detail: [{ loc: ['body', 'a', 0], msg: 'no', type: 'x' }] }, 'invalid_request', 'a.0: no'],
    [422, { detail: [{ msg: 'bad', type: 'content_policy_violation' }] }, 'content_filter', 'bad'],
    [422, { detail: [{ msg: 'unsafe content', type: 'no_media_generated' }] }, 'content_filter', 'unsafe content'],
    [422, { detail: [{ msg: `Cannot load ${secret}` }] }, 'invalid_request', `Cannot load ${secret.split('?')[0]}`],
    // The address was ours.
    [422, { detail: [{ msg: 'unreachable', type: 'file_download_error' }] }, 'server_error', 'unreachable'],
    [400, { detail: [{ msg: 'elsewhere', type: 'downstream_service_error' }] }, 'server_error', 'elsewhere'],
    [422, { detail: [{ msg: 'elsewhere', type: 'downstream_service_unavailable' }] }, 'server_error', 'elsewhere'],
    [422, { detail: [{ msg: 'oops', type: 'internal_server_error' }] }, 'server_error', 'oops'],
    [499, { detail: 'Request cancelled', error_type: 'client_cancelled' }, 'server_error', 'Request cancelled'],
    [422, { detail: 'x'.repeat(5_000) }, 'invalid_request', 'x'.repeat(1_000)],
    [429, 'slow down', 'rate_limited', 'The provider answered with status 429.'],
    [500, '<html>', 'server_error'],
    [503, {}, 'overloaded'],
    [504, { detail: 'late', error_type: 'request_timeout' }, 'timeout'],
  ])
})
