import type { MeshInput } from '../../../shared/kinds/mesh.ts'
import { meshy } from '../../../shared/providers/adapters/meshy/protocol.ts'
import { meshyError, startMeshy } from '../../emulators/meshy.ts'
import { callOf, queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { hiddenImage, imageSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const plain: MeshInput = {
  from: 'text',
  prompt: 'a chest',
  images: 0,
  texture: true,
  pbr: false,
  texturePrompt: null,
  targetPolycount: null,
  topology: null,
  seed: null,
}
const call = (input: Partial<MeshInput> = {}, sources = {}) =>
  callOf<'mesh'>('meshy', 'meshy-6', { ...plain, ...input }, sources)
const image = { from: 'image', prompt: null, images: 1 } as const
const { adapter, using, started, shown, refused } = bench('meshy', meshy, 'mesh', startMeshy)

const subject = {
  provider: 'meshy',
  protocol: meshy,
  kind: 'mesh' as const,
  start: startMeshy,
  replies: {
    invalid: meshyError(400, 'Invalid values: prompt'),
    rateLimited: meshyError(429, 'RateLimitExceeded'),
    quota: meshyError(402, 'Insufficient credits'),
  },
}
queuedConformance(test, { ...subject, name: 'meshy text', call: () => call() })
queuedConformance(test, { ...subject, name: 'meshy bare text', call: () => call({ texture: false }) })
queuedConformance(test, { ...subject, name: 'meshy image', call: () => call(image, { image_url: imageSource }) })

test('started: text is modelled first, textured after', async t => {
  const { path, headers, body, operation } = await started(call())
  t.is(path, '/openapi/v2/text-to-3d')
  t.is(headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
  t.deepEqual(body, { mode: 'preview', prompt: 'a chest', ai_model: 'meshy-6' })
  t.is(operation.part, 'preview')
})

test('started: text with a shape of its own', async t => {
  const { body, operation } = await started(call({ topology: 'quad', targetPolycount: 5_000, texture: false }))
  t.deepEqual(body, {
    mode: 'preview',
    prompt: 'a chest',
    ai_model: 'meshy-6',
    should_remesh: true,
    topology: 'quad',
    target_polycount: 5_000,
  })
  t.is(operation.part, 'whole')
})

test('started: the texture of a finished preview, each once', async t => {
  await using(async ({ emulator, finish }, connection) => {
    const whole = call({ pbr: true, texturePrompt: 'oak', topology: 'quad' })
    const preview = await adapter.start(whole, connection, null)
    finish()
    const report = await adapter.check(preview, connection)
    if (report.status !== 'next') return void t.fail(report.status)
    t.is(report.progress, 50)
    const refine = await adapter.start(whole, connection, JSON.parse(JSON.stringify(report.operation)))
    t.not(refine.id, preview.id)
    t.deepEqual(emulator.requests.at(-1)!.body, {
      mode: 'refine',
      preview_task_id: preview.id,
      ai_model: 'meshy-6',
      enable_pbr: true,
      texture_prompt: 'oak',
    })
    const seen = [await adapter.check(refine, connection), await adapter.check(refine, connection)]
    t.deepEqual(seen, [
      { status: 'pending', progress: 50 },
      { status: 'pending', progress: 70 },
    ])
    finish()
    t.is((await adapter.check(refine, connection)).status, 'completed')
    t.is(emulator.requests.filter(({ method }) => method === 'POST').length, 2)
  })
})

test('started: an image, by its address or in the request', async t => {
  const linked = await started(call(image, { image_url: imageSource }))
  t.is(linked.path, '/openapi/v1/image-to-3d')
  t.deepEqual(linked.body, {
    image_url: 'https://files.example/face.png',
    ai_model: 'meshy-6',
    should_texture: true,
    enable_pbr: false,
  })
  const bare = await started(call({ ...image, texture: false, targetPolycount: 900 }, { image_url: hiddenImage }))
  t.deepEqual(bare.body, {
    image_url: 'data:image/png;base64,Ynl0ZXM=',
    ai_model: 'meshy-6',
    should_remesh: true,
    target_polycount: 900,
    should_texture: false,
  })
})

test('started: several views of one object, in their order', async t => {
  // Their places count, not how they are kept.
  const views = { 'image_urls.1': hiddenImage, 'image_urls.0': imageSource }
  const input = { from: 'multi_image', prompt: null, images: 2, pbr: true, texturePrompt: 'oak' } as const
  const { path, body, operation } = await started(call(input, views))
  t.is(path, '/openapi/v1/multi-image-to-3d')
  t.deepEqual(body, {
    image_urls: ['https://files.example/face.png', 'data:image/png;base64,Ynl0ZXM='],
    ai_model: 'meshy-6',
    should_texture: true,
    enable_pbr: true,
    texture_prompt: 'oak',
  })
  t.is(operation.path, '/v1/multi-image-to-3d')
})

test('400 for what it cannot make, before anything is sent', async t => {
  t.is(await refused(t, call({ prompt: 'x'.repeat(601) })), 'prompt')
  t.is(await refused(t, call({ texture: false, pbr: true })), 'pbr')
  t.is(await refused(t, call({ texture: false, texturePrompt: 'oak' })), 'texture_prompt')
  t.is(await refused(t, call({ seed: 7 })), 'seed')
})

const done = {
  status: 'SUCCEEDED',
  progress: 100,
  model_urls: { glb: 'https://a.example/m.glb?Expires=1', fbx: '', obj: 'https://a.example/m.obj', stl: 'https://a/s' },
  texture_urls: [{ base_color: 'https://a.example/c.png', metallic: '', normal: 'https://a.example/n.png' }],
  thumbnail_url: 'https://a.example/t.png',
  consumed_credits: 30,
}
const whole = { path: '/v1/image-to-3d', part: 'whole', id: 'a' }

test('reported by Meshy: every status', async t => {
  await assertReports(t, answer => shown(answer, whole), [
    [{ status: 'PENDING', progress: 0, preceding_tasks: 4 }, 'pending'],
    [{ status: 'IN_PROGRESS', progress: 12 }, 'pending'],
    [done, 'completed'],
    [{ ...done, model_urls: { glb: '' } }, 'failed: invalid_response'],
    [{ ...done, model_urls: null }, 'failed: invalid_response'],
    [{ status: 'FAILED', task_error: { message: 'The prompt violates the content policy' } }, 'failed: content_filter'],
    [{ status: 'FAILED', task_error: { message: 'Internal error' } }, 'failed: server_error'],
    [{ status: 'FAILED', task_error: { message: '' } }, 'failed: server_error'],
    [{ status: 'CANCELED' }, 'failed: server_error'],
    [{ status: 'EXPIRED' }, 'throws invalid_response'],
    [{}, 'throws invalid_response'],
  ])
  t.deepEqual(await shown({ status: 'IN_PROGRESS', progress: 100 }, whole), { status: 'pending', progress: 99 })
  t.deepEqual(await shown({ status: 'IN_PROGRESS' }, { ...whole, part: 'refine' }), { status: 'pending', progress: 50 })
})

test('completed: only the files that were made', async t => {
  t.deepEqual(await shown(done, whole), {
    status: 'completed',
    output: {
      files: [
        { role: 'glb', url: 'https://a.example/m.glb?Expires=1' },
        { role: 'obj', url: 'https://a.example/m.obj' },
        { role: 'texture', url: 'https://a.example/c.png' },
        { role: 'texture', url: 'https://a.example/n.png' },
        { role: 'thumbnail', url: 'https://a.example/t.png' },
      ],
      durationS: null,
    },
    invoice: { seconds: null, credits: 30 },
  })
  const material = { base_color: 'https://a.example/c.png', ao: 'https://a.example/ao.png', metallic: '' }
  t.like(
    await shown({ ...done, texture_urls: material, thumbnail_url: '', model_urls: { glb: 'https://a/m' } }, whole),
    {
      output: {
        files: [
          { role: 'glb', url: 'https://a/m' },
          { role: 'texture', url: 'https://a.example/c.png' },
          { role: 'texture', url: 'https://a.example/ao.png' },
        ],
      },
    },
  )
  const bare = await shown(
    { ...done, texture_urls: null, thumbnail_url: '', model_urls: { glb: 'https://a/m' } },
    whole,
  )
  t.like(bare, { output: { files: [{ role: 'glb', url: 'https://a/m' }] } })
})

test('completed: the emulator’s files are what they are called', async t => {
  await using(async ({ finish }, connection) => {
    const operation = await adapter.start(call({ ...image, pbr: true }, { image_url: imageSource }), connection, null)
    finish()
    const report = await adapter.check(operation, connection)
    if (report.status !== 'completed') return void t.fail(report.status)
    const roles = report.output.files.map(({ role }) => role)
    t.deepEqual(roles, ['glb', 'fbx', 'obj', 'mtl', 'texture', 'texture', 'texture', 'texture', 'thumbnail'])
    const [glb] = report.output.files
    const bytes = await (await fetch((glb as { url: string }).url)).bytes()
    t.is(Buffer.from(bytes.subarray(0, 4)).toString(), 'glTF')
  })
})

test('refused: every error of the documentation', t => {
  assertFailures(t, meshy, [
    [400, { message: 'Invalid values: prompt' }, 'invalid_request', 'Invalid values: prompt'],
    [
      401,
      { message: 'Invalid API key msy_1' },
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [
      402,
      { message: 'x' },
      'quota',
      "The gateway's account at the provider has no credit left. Tell the operator of this service.",
    ],
    [403, { message: 'x' }, 'auth'],
    [404, { message: 'Task not found' }, 'model_unavailable'],
    [429, { message: 'RateLimitExceeded' }, 'rate_limited'],
    [429, { message: 'NoMoreConcurrentTasks' }, 'rate_limited', 'NoMoreConcurrentTasks'],
    [500, '', 'server_error', 'The provider answered with status 500.'],
    [503, {}, 'overloaded'],
  ])
})
