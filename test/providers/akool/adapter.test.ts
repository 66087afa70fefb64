import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { Deployment } from '../../../shared/catalog/schema.ts'
import { faceSwap } from '../../../shared/kinds/face-swap.ts'
import { akool } from '../../../shared/providers/adapters/akool/protocol.ts'
import type { QueuedCall } from '../../../shared/providers/contract.ts'
import { akoolError, startAkool } from '../../emulators/akool.ts'
import { json } from '../../emulators/emulator.ts'
import { queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { imageSource, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const catalog = loadCatalog()
const model = catalog.models.get('akool-face-swap')!
/** The shipped row has no price: this is an operator's. */
const deployment: Deployment = {
  provider: 'akool',
  upstream_model: 'faceswap-plus',
  price: { unit: 'credit', usd: '0.01', max_credits: 600 },
}
const call = (traits?: Deployment['traits']): QueuedCall<'face_swap'> => ({
  target: {
    model,
    provider: catalog.providers.get('akool')!,
    deployment: { ...deployment, ...(traits && { traits }) },
  },
  jobId: 'job_conformance0',
  attempt: 1,
  input: { seconds: 10.5, maxSeconds: null, sourceFaceConsent: true },
  sources: new Map([
    ['video_url', videoSource],
    ['face_image_url', imageSource],
  ]),
  callbackUrl: null,
})
const { adapter, using, started, shown } = bench('akool', akool, 'face_swap', startAkool)

queuedConformance(test, {
  name: 'akool',
  provider: 'akool',
  protocol: akool,
  kind: 'face_swap',
  start: startAkool,
  call: () => call(),
  replies: {
    invalid: akoolError(1003, 'Parameter error or Parameter cannot be empty'),
    rateLimited: akoolError(1005, 'Operation is too frequent'),
    quota: akoolError(1006, 'Your quota is not enough'),
  },
})

test('started at Akool: the exact request', async t => {
  const body = {
    source_url: 'https://files.example/face.png',
    target_url: 'https://files.example/clip.mp4',
    model_style: 'realistic',
    single_face_mode: true,
  }
  const plain = await started(call())
  t.is(plain.path, '/api/open/v4/faceswap/faceswapPlusByImage')
  t.is(plain.headers['x-api-key'], 'secret-key-of-the-gateway:and-its-other-half')
  t.deepEqual(plain.body, body)
  const styled = await started(call({ model_style: 'lossless', face_enhance: true }))
  t.deepEqual(styled.body, { ...body, model_style: 'lossless', face_enhance: true })
})

test('completed: what was deducted is the invoice, priced by an operator’s row', async t => {
  await using(async ({ finish }, connection) => {
    const operation = await adapter.start(call(), connection, null)
    finish()
    const report = await adapter.check(operation, connection)
    if (report.status !== 'completed') return void t.fail(report.status)
    t.deepEqual(report.invoice, { seconds: null, credits: 11 })
    t.is(report.output.durationS, 10.5)
    t.is(faceSwap.cost!(call().input, deployment, 0n, report.invoice), 110_000_000n)
  })
})

test('reported by Akool: every status and code', async t => {
  const result = (fields: object) => ({ code: 1000, msg: 'OK', data: { result: [{ _id: 'a', ...fields }] } })
  const done = { faceswap_status: 3, url: 'https://d.example/a.mp4', deduction_duration: 7, video_duration: 6.5 }
  await assertReports(t, answer => shown(answer, { id: 'a' }), [
    [result({ faceswap_status: 1 }), 'pending'],
    [result({ faceswap_status: 2 }), 'pending'],
    [result(done), 'completed'],
    [result({ ...done, url: '' }), 'failed: invalid_response'],
    [result({ ...done, deduction_duration: -2 }), 'failed: invalid_response'],
    [result({ faceswap_status: 4 }), 'failed: server_error'],
    [result({ faceswap_status: 5 }), 'throws invalid_response'],
    [result({}), 'throws invalid_response'],
    [{ code: 1000, msg: 'OK', data: { result: [] } }, 'throws invalid_response'],
    [{ code: 1000, msg: 'OK', data: { result: [{ ...done, _id: 'b' }] } }, 'throws invalid_response'],
    [{ code: 1000, msg: 'OK' }, 'throws invalid_response'],
    [{ code: 1003, msg: 'wrong' }, 'throws invalid_request'],
    [{ code: 1005, msg: 'slow down' }, 'throws rate_limited'],
    [{ code: 1006, msg: 'no quota' }, 'throws quota'],
    [{ code: 1007, msg: 'too many' }, 'throws rate_limited'],
    [{ code: 1009, msg: 'permission denied' }, 'throws auth'],
    [{ code: 1101, msg: 'expired' }, 'throws auth'],
    [{ code: 1103, msg: 'Not paid or payment is overdue' }, 'throws quota'],
    [{ code: 1104, msg: 'Insufficient credit balance' }, 'throws quota'],
    [{ code: 1109, msg: 'account not exist' }, 'throws auth'],
    [{ code: 1999, msg: 'new' }, 'throws invalid_response'],
    [{ msg: 'OK' }, 'throws invalid_response'],
  ])
  t.like(await shown(result({ ...done, deduction_duration: undefined }), { id: 'a' }), {
    status: 'completed',
    invoice: { seconds: null, credits: null },
  })
})

test('a start answered with an unknown code is not understood: it may have been started', async t => {
  await using(async ({ emulator }, connection) => {
    emulator.next(json(200, { code: 1777, msg: 'Something new', data: { _id: 'a' } }))
    t.like(await t.throwsAsync(adapter.start(call(), connection, null)), { reason: 'invalid_response' })
  })
})

test('refused: statuses beside the envelope', t => {
  assertFailures(t, akool, [
    [400, { code: 1003, msg: 'wrong' }, 'invalid_request', 'wrong'],
    [
      401,
      { message: 'no' },
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [
      400,
      { code: 1006, msg: 'quota' },
      'quota',
      "The gateway's account at the provider has no credit left. Tell the operator of this service.",
    ],
    [404, 'gone', 'model_unavailable'],
    [429, {}, 'rate_limited'],
    [502, '<html>', 'server_error', 'The provider answered with status 502.'],
  ])
})
