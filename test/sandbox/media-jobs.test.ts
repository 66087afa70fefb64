import { readMesh, readVideo } from '../../examples/files.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import type { ModelRow } from '../../shared/catalog/schema.ts'
import { type QueuedKind, type QueuedKinds, queuedKinds } from '../../shared/kinds/index.ts'
import { listOf, type QueuedKindRow, type References } from '../../shared/kinds/media.ts'
import type { PollReport, ProviderConnection, QueuedAdapter } from '../../shared/providers/contract.ts'
import { ProviderError } from '../../shared/providers/provider-error.ts'
import { createSandboxProtocol } from '../../shared/providers/sandbox/media/protocol.ts'
import { sourceOf } from '../support/jobs/sources.ts'
import { type ExecutionContext, test } from '../support/test.ts'

const catalog = loadCatalog()
const kinds = Object.keys(queuedKinds) as QueuedKind[]
const nothing = () => Promise.reject(new Error('the sandbox opens no connection'))
const connection: ProviderConnection = {
  provider: [...catalog.providers.values()][0]!,
  baseUrl: '',
  proxy: null,
  send: nothing,
  stream: nothing,
  open: nothing,
}
const address = 'https://files.example/one'
const seconds = 2.5

/** A sandbox whose time stands still until a test moves it. */
function opened() {
  const clock = { nowMs: 1_800_000_000_000, now: () => clock.nowMs }
  const { queued } = createSandboxProtocol(clock, 60_000)
  return { clock, adapter: <K extends QueuedKind>(kind: K) => queued![kind] as unknown as QueuedAdapter<K> }
}

/** The least that a model of each kind takes, as its route would be sent it. */
function bodyFor(kind: QueuedKind, model: ModelRow, text: string): Record<string, unknown> {
  const has = (list: string, word: string) => listOf(model, list).includes(word)
  const spoken = model.kind?.prompt ? { prompt: text } : {}
  switch (kind) {
    case 'video': {
      const said = model.kind?.prompt === 'none' ? {} : { prompt: text }
      if (has('modes', 'text')) return said
      if (has('modes', 'image')) return { ...said, start_image_url: address }
      if (has('modes', 'reference')) return { ...said, input_references: [address] }
      if (has('modes', 'motion_control')) return { ...said, start_image_url: address, input_video_url: address }
      return { ...said, input_video_url: address }
    }
    case 'lipsync':
      return { ...spoken, [`${model.kind?.takes}_url`]: address, audio_url: address }
    case 'face_swap':
      return { video_url: address, face_image_url: address, source_face_consent: true }
    case 'avatar': {
      const source = has('sources', 'avatar_id')
        ? { avatar_id: 'sandbox-avatar-1' }
        : { image_url: address, source_face_consent: true }
      return { ...source, script: text, voice_id: 'sandbox-voice-1' }
    }
    case 'mesh':
      return has('inputs', 'text') ? { prompt: text } : { image_url: address }
  }
}

function modelsOf(kind: QueuedKind): ModelRow[] {
  const { type } = queuedKinds[kind]
  return [...catalog.models.values()].filter(model => model.type === type && !model.disabled)
}

/** A call as the gateway makes it from a body, every reference 2.5 s long. */
function callOf<K extends QueuedKind>(kind: K, model: ModelRow, body: Record<string, unknown>) {
  const row = queuedKinds[kind] as unknown as QueuedKindRow<object, QueuedKinds[K]['input']>
  const request = row.request.parse(body)
  const fields = row.references(request)
  const references: References = Object.fromEntries(
    fields.map(({ field, type }) => [
      field,
      {
        storageKey: field,
        contentType: `${type}/x`,
        bytes: 5,
        filename: 'one',
        durationS: type === 'image' ? null : seconds,
      },
    ]),
  )
  const sources = new Map(
    fields.map(({ field, type }) => [field, sourceOf(address, `${type}/x`, type === 'image' ? null : seconds)]),
  )
  const input = row.input(request, model, references)
  const target = { model, ...catalog.targets(model)[0]! }
  return { target, jobId: 'job_sandbox0', attempt: 1, input, sources, callbackUrl: null }
}

type Completed<K extends QueuedKind> = Extract<PollReport<K>, { status: 'completed' }>

function completed<K extends QueuedKind>(t: ExecutionContext, report: PollReport<K>, what: string): Completed<K> {
  t.is(report.status, 'completed', what)
  return report as Completed<K>
}

async function finished<K extends QueuedKind>(t: ExecutionContext, kind: K, model: ModelRow, body: object) {
  const { clock, adapter } = opened()
  const call = callOf(kind, model, body as Record<string, unknown>)
  const operation = await adapter(kind).start(call, connection, null)
  clock.nowMs += 1_000
  const report = completed(t, await adapter(kind).check(operation, connection), model.id)
  return { input: call.input, ...report }
}

const bytesOf = (file: object) => ('bytes' in file ? (file.bytes as Uint8Array) : new Uint8Array())

for (const kind of kinds) {
  test(`started: the operation of a ${kind} job is small, plain and the same after storage`, async t => {
    const { adapter } = opened()
    const [model] = modelsOf(kind)
    const operation = await adapter(kind).start(callOf(kind, model!, bodyFor(kind, model!, 'A cat.')), connection, null)
    t.deepEqual(JSON.parse(JSON.stringify(operation)), operation)
    t.true(JSON.stringify(operation).length < 500)
    t.is(await adapter(kind).find!(callOf(kind, model!, bodyFor(kind, model!, 'A cat.')), connection), null)
  })

  test(`pending with growing progress for a second, then completed: a ${kind} job`, async t => {
    const { clock, adapter } = opened()
    const [model] = modelsOf(kind)
    const operation = await adapter(kind).start(callOf(kind, model!, bodyFor(kind, model!, 'A cat.')), connection, null)
    const progress: (number | null)[] = []
    for (const stepMs of [0, 500, 499]) {
      clock.nowMs += stepMs
      const report = await adapter(kind).check(operation, connection)
      t.is(report.status, 'pending')
      if (report.status === 'pending') progress.push(report.progress)
    }
    t.deepEqual(progress, [0, 50, 99])
    clock.nowMs += 1
    // However often it is asked.
    for (let i = 0; i < 2; i++) completed(t, await adapter(kind).check(operation, connection), kind)
  })
}

for (const kind of ['video', 'lipsync', 'face_swap', 'avatar'] as const) {
  test(`completed: every ${kind} model gives an MP4 as long as what is billed`, async t => {
    const models = modelsOf(kind)
    t.true(models.length > 0)
    for (const model of models) {
      const { output, invoice, input } = await finished(t, kind, model, bodyFor(kind, model, 'x'.repeat(30)))
      t.deepEqual(
        output.files.map(({ role }) => role),
        ['video'],
      )
      const { durationS } = await readVideo(bytesOf(output.files[0]!))
      const expected = 'seconds' in input ? input.seconds : 2
      t.true(Math.abs(durationS - expected) < 0.001, `${model.id}: ${durationS} s`)
      t.is(output.durationS, expected)
      t.is(invoice.seconds, expected)
      t.is(invoice.credits, kind === 'face_swap' ? 3 : null)
    }
  })
}

test('completed: every mesh model gives a valid GLB, with OBJ, MTL and textures as asked for', async t => {
  for (const model of modelsOf('mesh')) {
    const { output } = await finished(t, 'mesh', model, bodyFor('mesh', model, 'A cube.'))
    t.deepEqual(
      output.files.map(({ role }) => role),
      ['glb', 'obj', 'mtl', 'thumbnail', 'texture'],
    )
    t.deepEqual(await readMesh(bytesOf(output.files[0]!)), { triangles: 12, textured: true })
  }
  const model = modelsOf('mesh').find(({ kind }) => (kind?.options as string[] | undefined)?.includes('texture'))!
  const plain = await finished(t, 'mesh', model, { prompt: 'A cube.', texture: false })
  t.false(plain.output.files.some(({ role }) => role === 'texture'))
  t.deepEqual(await readMesh(bytesOf(plain.output.files[0]!)), { triangles: 12, textured: false })
})

test('completed: the frame of a video is the size that was asked for', async t => {
  const frames = {
    '720p 16:9': [1280, 720],
    '720p 9:16': [720, 1280],
    '1080p 1:1': [1080, 1080],
    '1080p 21:9': [2520, 1080],
  }
  for (const [frame, expected] of Object.entries(frames)) {
    const [resolution, aspect_ratio] = frame.split(' ') as [string, string]
    const offers = (row: ModelRow, list: string, word: string) => listOf(row, list).includes(word)
    const model = modelsOf('video').find(
      row =>
        offers(row, 'modes', 'text') &&
        offers(row, 'resolutions', resolution) &&
        offers(row, 'aspect_ratios', aspect_ratio),
    )
    if (!model) return void t.fail(`no model offers ${frame}`)
    const { output } = await finished(t, 'video', model, { prompt: 'A cat.', resolution, aspect_ratio })
    const { width, height } = await readVideo(bytesOf(output.files[0]!))
    t.deepEqual([width, height], expected, frame)
  }
})

test('completed: an avatar is as long as its recording', async t => {
  const model = modelsOf('avatar').find(({ kind }) => (kind?.sources as string[] | undefined)?.includes('avatar_id'))!
  const { invoice } = await finished(t, 'avatar', model, { avatar_id: 'sandbox-avatar-1', audio_url: address })
  t.is(invoice.seconds, seconds)
})

const spoken = ['video', 'avatar', 'mesh'] as const
const failing = { 'sandbox:fail': 'server_error', 'sandbox:rate_limit': 'rate_limited' } as const

for (const kind of spoken) {
  for (const [word, reason] of Object.entries(failing)) {
    test(`failed with ${reason} when the text of a ${kind} job says ${word}`, async t => {
      const { clock, adapter } = opened()
      const model = modelsOf(kind).find(model => Object.values(bodyFor(kind, model, word)).includes(word))!
      const operation = await adapter(kind).start(callOf(kind, model, bodyFor(kind, model, word)), connection, null)
      t.is((await adapter(kind).check(operation, connection)).status, 'pending')
      clock.nowMs += 1_000
      const report = await adapter(kind).check(operation, connection)
      if (report.status !== 'failed') return void t.fail(`expected failed, got ${report.status}`)
      t.true(report.error instanceof ProviderError)
      t.is(report.error.reason, reason)
    })
  }

  test(`pending for ever when the text of a ${kind} job says sandbox:timeout, and late with sandbox:slow`, async t => {
    const { clock, adapter } = opened()
    const model = modelsOf(kind).find(model => Object.values(bodyFor(kind, model, 'word')).includes('word'))!
    const start = (text: string) =>
      adapter(kind).start(callOf(kind, model, bodyFor(kind, model, text)), connection, null)
    const [never, late, capped] = [
      await start('sandbox:timeout'),
      await start('sandbox:slow=5000'),
      await start('sandbox:slow=999999999'),
    ]
    clock.nowMs += 4_999
    t.deepEqual(await adapter(kind).check(late, connection), { status: 'pending', progress: 99 })
    clock.nowMs += 1
    completed(t, await adapter(kind).check(late, connection), 'slow')
    clock.nowMs += 55_000
    completed(t, await adapter(kind).check(capped, connection), 'at most a minute')
    clock.nowMs += 10 * 365 * 86_400_000
    t.deepEqual(await adapter(kind).check(never, connection), { status: 'pending', progress: 0 })
  })
}
