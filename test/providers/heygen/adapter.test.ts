import type { AvatarInput } from '../../../shared/kinds/avatar.ts'
import { heygen } from '../../../shared/providers/adapters/heygen/protocol.ts'
import type { ProviderCallback, QueuedAdapter, QueuedCall } from '../../../shared/providers/contract.ts'
import { json } from '../../emulators/emulator.ts'
import { heygenError, heygenEvent, realSeconds, startHeygen } from '../../emulators/heygen.ts'
import { callOf, connectionTo, providerFault, queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { audioSource, hiddenImage, imageSource, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const spoken: AvatarInput = {
  avatarId: 'look_0',
  script: 'Hello',
  voiceId: 'voice_0',
  resolution: '1080p',
  aspectRatio: '9:16',
  estimatedSeconds: 6,
  sourceFaceConsent: false,
}
const unspoken = { script: null, voiceId: null, resolution: '720p', aspectRatio: null }
const talking = (input: Partial<AvatarInput> = {}, sources = {}, model = 'heygen-avatar-iv') =>
  callOf<'avatar'>('heygen', model, { ...spoken, ...input }, sources, 'https://gateway.example/callbacks/heygen/1')
const dubbing = (model = 'heygen-lipsync-precision', sources: object = { video_url: videoSource }) =>
  callOf<'lipsync'>(
    'heygen',
    model,
    { takes: 'video', prompt: null, resolution: null, seconds: 10.5, audioSeconds: 8 },
    { ...sources, audio_url: audioSource },
  )
const avatars = bench('heygen', heygen, 'avatar', startHeygen)
const lipsyncs = bench('heygen', heygen, 'lipsync', startHeygen)

const replies = {
  invalid: heygenError(400, 'invalid_parameter', 'avatar_id is required'),
  rateLimited: heygenError(429, 'rate_limit_exceeded', 'Concurrency limit reached'),
  quota: heygenError(402, 'insufficient_credit', 'Insufficient credit'),
}
const subject = { provider: 'heygen', protocol: heygen, start: startHeygen, replies }
queuedConformance(test, { ...subject, name: 'heygen avatar', kind: 'avatar', call: () => talking() })
queuedConformance(test, { ...subject, name: 'heygen lipsync', kind: 'lipsync', call: () => dubbing() })

const names = { title: 'job_conformance0', callback_id: 'job_conformance0' }

test('started: a catalog avatar speaks a script, without an address for unsigned callbacks', async t => {
  const { path, headers, body } = await avatars.started(talking())
  t.is(path, '/v3/videos')
  t.is(headers['x-api-key'], 'secret-key-of-the-gateway:and-its-other-half')
  t.deepEqual(body, {
    type: 'avatar',
    avatar_id: 'look_0',
    engine: { type: 'avatar_iv' },
    script: 'Hello',
    voice_id: 'voice_0',
    resolution: '1080p',
    aspect_ratio: '9:16',
    ...names,
  })
})

test('started: a catalog avatar of another engine speaks a recording', async t => {
  const { body } = await avatars.started(talking(unspoken, { audio_url: audioSource }, 'heygen-avatar-iii'))
  t.deepEqual(body, {
    type: 'avatar',
    avatar_id: 'look_0',
    engine: { type: 'avatar_iii' },
    audio_url: 'https://files.example/voice.mp3',
    resolution: '720p',
    ...names,
  })
})

test('started: an own picture by its address, or in the request where the gateway cannot be reached', async t => {
  const own = { avatarId: null, sourceFaceConsent: true, resolution: '4k', aspectRatio: null }
  const expected = { type: 'image', script: 'Hello', voice_id: 'voice_0', resolution: '4k', ...names }
  const linked = await avatars.started(talking(own, { image_url: imageSource }, 'heygen-photo-avatar-iv'))
  t.deepEqual(linked.body, { ...expected, image: { type: 'url', url: 'https://files.example/face.png' } })
  const sent = await avatars.started(talking(own, { image_url: hiddenImage }, 'heygen-photo-avatar-iv'))
  const data = Buffer.from('bytes').toString('base64')
  t.deepEqual(sent.body, { ...expected, image: { type: 'base64', media_type: 'image/png', data } })
})

test('started: a lip sync in both modes', async t => {
  for (const mode of ['precision', 'speed']) {
    const { path, body } = await lipsyncs.started(dubbing(`heygen-lipsync-${mode}`))
    t.is(path, '/v3/lipsyncs')
    t.deepEqual(body, {
      video: { type: 'url', url: 'https://files.example/clip.mp4' },
      audio: { type: 'url', url: 'https://files.example/voice.mp3' },
      mode,
      ...names,
    })
  }
})

test('started once: a start that is repeated with its number, after its answer was lost', async t => {
  let isLosing = true
  const { url, works, emulator, close } = await startHeygen({ losesAnswer: () => isLosing })
  const connection = connectionTo('heygen', heygen, url)
  const twice = async <K extends 'avatar' | 'lipsync'>({ start, find }: QueuedAdapter<K>, call: QueuedCall<K>) => {
    works.clear()
    isLosing = true
    t.is((await providerFault(start(call, connection, null))).reason, 'connection')
    isLosing = false
    const [id] = works.keys()
    t.deepEqual(await find!(call, connection), { id })
    t.is(await find!({ ...call, jobId: 'job_unknown' }, connection), null)
    t.deepEqual(await start(call, connection, null), { id })
    t.is(works.size, 1)
    t.is(emulator.requests.at(-1)!.headers['idempotency-key'], 'job_conformance0-1')
    // After a refusal a start has another number, so that it gets no earlier answer.
    await start({ ...call, attempt: 2 }, connection, null)
    t.is(works.size, 2)
  }
  await twice(avatars.adapter, talking())
  await twice(lipsyncs.adapter, dubbing())
  await close()
})

test('unclear, so that it is looked for: a start whose first request is still under way', async t => {
  await avatars.using(async ({ emulator }, connection) => {
    emulator.next(heygenError(409, 'request_in_progress', 'The original request is still in flight'))
    const error = await providerFault(avatars.adapter.start(talking(), connection, null))
    t.deepEqual([error.reason, error.status], ['server_error', null])
    emulator.next(json(200, { data: [{ id: 'other', title: 'job_conformance0 copy' }], has_more: false }))
    t.is(await avatars.adapter.find!(talking(), connection), null)
  })
})

test('400 for a row that lets callers choose a resolution, before anything is sent', async t => {
  const whole = dubbing()
  const model = { ...whole.target.model, kind: { takes: 'video' as const, resolutions: ['720p', '1080p'] } }
  t.is(await lipsyncs.refused(t, { ...whole, target: { ...whole.target, model } }), 'resolution')
})

test('400 for a still to lip-sync, before anything is sent', async t => {
  t.is(await lipsyncs.refused(t, dubbing('heygen-lipsync-speed', { image_url: imageSource })), 'image_url')
})

test('400 for a prompt to a lip sync, before anything is sent', async t => {
  const call = dubbing()
  t.is(await lipsyncs.refused(t, { ...call, input: { ...call.input, prompt: 'smile' } }), 'prompt')
})

test('completed: the invoice is the real length, not the estimate', async t => {
  await avatars.using(async ({ finish }, connection) => {
    const operation = await avatars.adapter.start(talking(), connection, null)
    finish()
    const report = await avatars.adapter.check(operation, connection)
    t.like(report, { status: 'completed', invoice: { seconds: realSeconds, credits: null } })
  })
})

test('reported by HeyGen: every status of both kinds', async t => {
  const done = { status: 'completed', video_url: 'https://v.example/a.mp4?X-Amz-Expires=1', duration: 9.25 }
  const failed = (failure_code: string | null, failure_message: string | null) => ({
    status: 'failed',
    failure_code,
    failure_message,
  })
  const cases: [object, string][] = [
    [{ status: 'pending' }, 'pending'],
    [{ status: 'waiting' }, 'pending'],
    [{ status: 'processing' }, 'pending'],
    [{ status: 'running' }, 'pending'],
    [done, 'completed'],
    [{ ...done, video_url: null }, 'failed: invalid_response'],
    [{ ...done, duration: -1 }, 'failed: invalid_response'],
    [failed('render_failed', 'The avatar could not be rendered'), 'failed: server_error'],
    [failed('moderation_failed', 'The script was refused'), 'failed: content_filter'],
    // The audio was served by this gateway.
    [failed(null, 'Failed to download the audio'), 'failed: server_error'],
    [failed('download_failed', 'The audio is not there'), 'failed: server_error'],
    [failed('insufficient_credit', 'Top up'), 'failed: quota'],
    [failed('voice_expired', 'This voice is gone'), 'failed: invalid_request'],
    [failed('script_too_short', 'Say more'), 'failed: invalid_request'],
    [failed('avatar_not_usable', 'Choose another picture'), 'failed: content_filter'],
    [failed('voice_provider_error', 'Try again'), 'failed: server_error'],
    [failed(null, null), 'failed: server_error'],
    [{ status: 'archived' }, 'throws invalid_response'],
    [{}, 'throws invalid_response'],
  ]
  for (const { shown } of [avatars, lipsyncs]) {
    await assertReports(
      t,
      answer => shown(answer, { id: 'a' }),
      cases.map(([data, expected]) => [{ data }, expected]),
    )
    t.deepEqual(await shown({ data: done }, { id: 'a' }), {
      status: 'completed',
      output: { files: [{ role: 'video', url: done.video_url }], durationS: 9.25 },
      invoice: { seconds: 9.25, credits: null },
    })
    t.like(await shown({ data: { ...done, duration: null } }, { id: 'a' }), {
      status: 'completed',
      invoice: { seconds: null },
    })
  }
})

test('refused: every error of the documentation', t => {
  const error = (code: string, message: string) => ({ error: { code, message, param: null, doc_url: null } })
  assertFailures(t, heygen, [
    [400, error('invalid_parameter', 'voice_id is unknown'), 'invalid_request', 'voice_id is unknown'],
    [400, error('insufficient_credit', 'Top up'), 'quota'],
    [400, error('moderation', 'The script was refused'), 'content_filter'],
    [
      401,
      error('unauthorized', 'x'),
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [
      402,
      error('payment_required', 'x'),
      'quota',
      "The gateway's account at the provider has no credit left. Tell the operator of this service.",
    ],
    [403, error('forbidden', 'x'), 'auth'],
    [403, error('resource_access_denied', 'Not yours'), 'invalid_request', 'Not yours'],
    [403, error('voice_not_usable', 'Not on your plan'), 'invalid_request', 'Not on your plan'],
    [403, error('ai_vendor_access_restricted', 'Not allowed in your workspace'), 'model_unavailable'],
    [402, error('plan_upgrade_required', '4k needs a plan'), 'model_unavailable'],
    [429, error('quota_exceeded', 'x'), 'quota'],
    // The file was served by this gateway.
    [400, error('download_failed', 'The image is not there'), 'server_error'],
    [404, error('avatar_not_found', 'Avatar look not found'), 'invalid_request', 'Avatar look not found'],
    [422, error('unprocessable', 'script is too long'), 'invalid_request'],
    [429, error('rate_limit_exceeded', 'x'), 'rate_limited'],
    [500, '<html>', 'server_error', 'The provider answered with status 500.'],
    [503, { message: 'down' }, 'overloaded', 'down'],
  ])
})

test('refused: the request field that the error is about', t => {
  const param = (code: string, field: string | null) =>
    heygen.failure(400, {}, JSON.stringify({ error: { code, message: 'x', param: field, doc_url: null } })).param
  t.is(param('invalid_parameter', 'resolution'), 'resolution')
  t.is(param('invalid_parameter', 'image'), 'image_url')
  t.is(param('invalid_parameter', 'callback_id'), null)
  t.is(param('voice_not_usable', null), 'voice_id')
  t.is(param('script_too_short', null), 'script')
})

const secret = 'whs_account'
const nowMs = 1_795_000_000_000
const event = { event_type: 'avatar_video.success', event_data: { video_id: 'v1', callback_id: 'job_1' } }

test('verified: only what the account’s secret signed, and not old', async t => {
  const verified = (change: Partial<ProviderCallback>, sentAtMs = nowMs) =>
    heygen.verify!({
      ...heygenEvent(event, secret, sentAtMs),
      nowMs,
      secret,
      connection: null as never,
      remember: async () => t.fail() as never,
      ...change,
    })
  const { headers, raw } = heygenEvent(event, secret, nowMs)
  const signature = headers['heygen-signature']
  t.true(await verified({}))
  t.true(await verified({ headers: { 'heygen-signature': signature } }))
  t.true(await verified({ headers: { 'heygen-signature': signature.toUpperCase() } }))
  t.true(await verified({}, nowMs - 299_000))
  t.false(await verified({}, nowMs - 301_000))
  t.false(await verified({}, nowMs + 301_000))
  t.false(await verified({ headers: { ...headers, 'heygen-timestamp': 'yesterday' } }))
  t.false(await verified({ headers: heygenEvent(event, 'another secret', nowMs).headers }))
  t.false(await verified({ raw: Buffer.concat([raw, Buffer.from(' ')]) }))
  t.false(await verified({ headers: { ...headers, 'heygen-signature': `sha256=${signature}` } }))
  t.false(await verified({ headers: { ...headers, 'heygen-signature': signature.slice(2) } }))
  t.false(await verified({ headers: { ...headers, 'heygen-signature': '' } }))
  t.false(await verified({ headers: {} }))
  t.false(await verified({ secret: null }))
  t.false(await verified({ secret: '', headers: heygenEvent(event, '', nowMs).headers }))
})
