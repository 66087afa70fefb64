import OpenAI, { toFile } from 'openai'
import sharp from 'sharp'
import { examineImage } from '../../shared/io/media/images.ts'
import { type SoundFormat, soundFormats, soundTypes } from '../../shared/kinds/sound.ts'
import { transcriptFormats } from '../../shared/kinds/transcription-request.ts'
import { textureFile } from '../../shared/providers/sandbox/media/mesh-files.ts'
import { Emulator, json } from '../emulators/emulator.ts'
import { dataOf } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { decodedSeconds, sound } from '../support/media/sounds.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Every provider is configured, and none is called. */

const providers = use(test, () => Emulator.start(json(500, { error: { message: 'A test key went to a provider.' } })))
const gateway = useGateway(test, () => {
  const names = ['OPENAI', 'ELEVENLABS', 'GEMINI', 'FAL', 'REPLICATE', 'RUNWAY', 'GROQ', 'DEEPGRAM']
  const keys = names.map(name => [
    [`${name}_API_KEY`, 'upstream'],
    [`${name}_BASE_URL`, `${providers.url}/v1`],
  ])
  return { ...Object.fromEntries(keys.flat()), UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '400' }
})
const account = use(test, () => gateway.account())
const sdk = use(test, () => new OpenAI({ apiKey: account.test, baseURL: `${gateway.url}/v1`, maxRetries: 0 }))
test.afterEach.always(async t => {
  t.is(providers.requests.length, 0)
  t.deepEqual(await gateway.settled(), [])
  const { balanceNano } = await gateway.services.db.wallet.findUniqueOrThrow({
    where: { organisationId: account.organisationId },
  })
  t.is(balanceNano, 25_000_000_000n)
  await eventually(async () => (await gateway.services.db.file.count()) === 0, 'nothing is left in storage')
})

const post = (path: string, body: object, signal?: AbortSignal) =>
  gateway.fetch(path, { key: account.test, body, ...(signal && { signal }) })

const bytesOf = ({ b64_json }: { b64_json?: string | undefined }) => Buffer.from(b64_json!, 'base64')

function nearly(t: ExecutionContext, seconds: number, expected: number): void {
  t.true(Math.abs(seconds - expected) < 0.1, `${seconds} s instead of ${expected} s`)
}

test.serial('200 images that decode, differ, and have the size that was asked for', async t => {
  const { data, response } = await sdk.images
    .generate({ model: 'gpt-image-2', prompt: 'A cat', n: 3, size: '1536x1024' })
    .withResponse()
  t.is(response.headers.get('x-sandbox'), 'true')
  t.is(response.headers.get('x-gateway-cost-usd'), '0')
  t.is(new Set(data.data!.map(({ b64_json }) => b64_json)).size, 3)
  for (const image of data.data!)
    t.deepEqual(await examineImage(bytesOf(image)), { contentType: 'image/png', width: 1536, height: 1024 })
  const { usage } = data
  t.true(usage!.input_tokens > 0)
  t.is(usage!.output_tokens, usage!.total_tokens - usage!.input_tokens)
  t.is((usage as { cost?: number }).cost, 0)
})

const drawings: [what: string, model: string, fields: object, expected: object][] = [
  ['a square without a size', 'gpt-image-2', {}, { format: 'png', width: 1024, height: 1024, hasAlpha: false }],
  ['a tier and a ratio', 'flux-schnell', { resolution: '2K', aspect_ratio: '16:9' }, { width: 2728, height: 1536 }],
  ['a tier in lower case', 'flux-schnell', { resolution: '2k', aspect_ratio: '16:9' }, { width: 2728, height: 1536 }],
  ['a tier in lower case as size', 'flux-schnell', { size: '1k' }, { width: 1024, height: 1024 }],
  ['a size in capitals', 'gpt-image-1.5', { size: '1536X1024' }, { width: 1536, height: 1024 }],
  ['a size with a star', 'gpt-image-1.5', { size: '1536*1024' }, { width: 1536, height: 1024 }],
  ['a size as two numbers', 'gpt-image-1.5', { width: 1536, height: 1024 }, { width: 1536, height: 1024 }],
  ['the smallest tier', 'flux-schnell', { size: '512' }, { width: 512, height: 512 }],
  ['a JPEG', 'gpt-image-2', { output_format: 'jpeg', output_compression: 40 }, { format: 'jpeg' }],
  ['a JPEG by its other name', 'gpt-image-2', { output_format: 'jpg' }, { format: 'jpeg' }],
  ['a WebP', 'gpt-image-2', { output_format: 'webp' }, { format: 'webp' }],
  ['a transparent PNG', 'gpt-image-2', { background: 'transparent' }, { format: 'png', hasAlpha: true }],
  ['a transparent WebP', 'gpt-image-2', { background: 'transparent', output_format: 'webp' }, { hasAlpha: true }],
]
for (const [what, model, fields, expected] of drawings) {
  test.serial(`200 ${what}`, async t => {
    const response = await post('/v1/images', { model, prompt: 'A cat', ...fields })
    const { data } = (await response.json()) as { data: { b64_json: string }[] }
    t.is(response.status, 200)
    const image = sharp(bytesOf(data[0]!))
    t.like(await image.metadata(), expected)
    const [, , , alpha] = await image.ensureAlpha().extract({ left: 0, top: 0, width: 1, height: 1 }).raw().toBuffer()
    t.is(alpha, 'background' in fields ? 0 : 255)
  })
}

test.serial('200 a stream of previews and the image', async t => {
  const events = []
  const asked = { model: 'gpt-image-2', prompt: 'A cat', stream: true, partial_images: 2 } as const
  for await (const event of await sdk.images.generate(asked)) events.push(event)
  const look = { size: '1024x1024', quality: 'auto', background: 'auto', output_format: 'png' }
  t.like(events, [
    { type: 'image_generation.partial_image', partial_image_index: 0, ...look },
    { type: 'image_generation.partial_image', partial_image_index: 1, ...look },
    { type: 'image_generation.completed', ...look },
  ] as object)
})

test.serial('200 an edited image', async t => {
  const image = [await toFile(textureFile(), 'a.png'), await toFile(textureFile(), 'b.png')]
  const { data, usage } = await sdk.images.edit({ model: 'gpt-image-2', prompt: 'A hat on it', image })
  t.is((await examineImage(bytesOf(data![0]!)))?.contentType, 'image/png')
  t.true(usage!.input_tokens_details.image_tokens > 0)
})

test.serial('200 an image behind a URL, the only file that is kept', async t => {
  const { data } = await sdk.images.generate({ model: 'gpt-image-2', prompt: 'A cat', response_format: 'url' })
  const file = await fetch(data![0]!.url!)
  t.is(file.headers.get('content-type'), 'image/png')
  t.is((await examineImage(Buffer.from(await file.arrayBuffer())))?.width, 1024)
  const files = await gateway.services.db.file.findMany()
  t.deepEqual(
    files.map(({ purpose }) => purpose),
    ['result'],
  )
  await gateway.services.db.file.deleteMany()
})

for (const [size, ratio, param] of [
  ['0000x1024', undefined, 'size'],
  ['90000x90000', undefined, 'size'],
  [undefined, '99:1', 'aspect_ratio'],
] as const) {
  test.serial(`400 for an image of ${size ?? `${ratio} at 4K`}`, async t => {
    const fields = size ? { size } : { aspect_ratio: ratio, resolution: '4K' }
    const response = await post('/v1/images', { model: 'gpt-image-2', prompt: 'A cat', ...fields })
    const { error } = (await response.json()) as { error: { param: string } }
    t.deepEqual([response.status, error.param], [400, param])
  })
}

const said = 'Thirty characters take two s. '.repeat(3)
for (const format of soundFormats) {
  test.serial(`200 speech as ${format}, as long as the text takes`, async t => {
    const request = { model: 'tts-1', voice: 'alloy', input: said, response_format: format } as const
    const { data, response } = await sdk.audio.speech.create(request).withResponse()
    t.is(response.headers.get('content-type'), soundTypes[format])
    t.is(response.headers.get('x-sandbox'), 'true')
    t.is(response.headers.get('x-gateway-cost-usd'), '0')
    nearly(t, await decodedSeconds(Buffer.from(await data.arrayBuffer()), format), 6)
    const faster = await sdk.audio.speech.create({ ...request, speed: 2 })
    nearly(t, await decodedSeconds(Buffer.from(await faster.arrayBuffer()), format), 3)
  })
}

test.serial('200 speech as events, in several parts', async t => {
  const body = { model: 'gpt-4o-mini-tts', voice: 'alloy', input: said, response_format: 'wav', stream_format: 'sse' }
  const all = dataOf(await (await post('/v1/audio/speech', body)).text())
  t.is(all.at(-1), '[DONE]')
  const events = all.slice(0, -1)
  const parts = events.filter(({ type }) => type === 'speech.audio.delta')
  t.true(parts.length > 3)
  nearly(t, await decodedSeconds(Buffer.concat(parts.map(({ audio }) => Buffer.from(audio, 'base64')))), 6)
  const { type, usage } = events.at(-1)
  t.is(type, 'speech.audio.done')
  t.true(usage.output_tokens > 0)
  t.is(usage.cost, 0)
})

for (const [kind, model, usualSeconds] of [
  ['music', 'eleven-music-v2', 120],
  ['sfx', 'eleven-sfx-v2', 3],
] as const) {
  for (const output_format of ['mp3', 'opus'] as const satisfies SoundFormat[]) {
    test.serial(`200 ${kind} as ${output_format}, as long as asked for or as usual`, async t => {
      for (const duration_s of [undefined, 5.5]) {
        const response = await post(`/v1/audio/${kind}`, { model, prompt: 'Rain', output_format, duration_s })
        t.is(response.status, 200)
        t.is(response.headers.get('content-type'), soundTypes[output_format])
        t.is(response.headers.get('x-sandbox'), 'true')
        nearly(t, await decodedSeconds(Buffer.from(await response.arrayBuffer())), duration_s ?? usualSeconds)
      }
    })
  }
}

test.serial('200 music of the length that is the model’s only one', async t => {
  const response = await post('/v1/audio/music', { model: 'lyria-3-clip', prompt: 'Rain' })
  nearly(t, await decodedSeconds(Buffer.from(await response.arrayBuffer())), 30)
})

test.serial('400 for music longer than the model makes', async t => {
  const response = await post('/v1/audio/music', { model: 'eleven-music-v2', prompt: 'Rain', duration_s: 181 })
  const { error } = (await response.json()) as { error: { param: string } }
  t.deepEqual([response.status, error.param], [400, 'duration_s'])
})

const written = 'This is hello.mp3. It is 3.264 seconds long.'
const hello = async () => toFile(await sound('mp3', 3.25), 'hello.mp3')

for (const response_format of transcriptFormats) {
  test.serial(`200 a transcript as ${response_format} that tells the file’s name and length`, async t => {
    const { data, response } = await sdk.audio.transcriptions
      .create({
        model: response_format === 'diarized_json' ? 'gpt-4o-transcribe-diarize' : 'whisper-1',
        file: await hello(),
        response_format,
      })
      .withResponse()
    t.is(response.headers.get('x-sandbox'), 'true')
    const answer = data as unknown
    const text = typeof answer === 'string' ? answer : (answer as { text: string }).text
    for (const sentence of ['This is hello.mp3.', 'It is 3.264 seconds long.']) t.true(text.includes(sentence), text)
    if (response_format === 'srt') t.regex(text, /^1\n00:00:00,000 --> .*\n\n2\n.* --> 00:00:03,264\n/s)
    if (response_format === 'vtt') t.regex(text, /^WEBVTT\n\n00:00:00.000 --> .* --> 00:00:03.264\n/s)
  })
}

test.serial('200 a transcript whose words and segments fill the sound', async t => {
  const answer = await sdk.audio.transcriptions.create({
    model: 'whisper-1',
    file: await hello(),
    response_format: 'verbose_json',
    timestamp_granularities: ['word', 'segment'],
    language: 'de',
  })
  t.is(answer.text, written)
  t.is(answer.language, 'de')
  t.is(answer.duration, 3.264)
  t.is(answer.words!.map(({ word }) => word).join(' '), written)
  for (const pieces of [answer.words!, answer.segments!]) {
    t.is(pieces[0]!.start, 0)
    t.is(pieces.at(-1)!.end, 3.264)
    for (const [i, { start, end }] of pieces.entries()) {
      t.true(end > start)
      t.is(start, pieces[i - 1]?.end ?? 0)
    }
  }
})

// vercel/ai, `openai-transcription-model.test.ts`: once any option is set, the defaults of the others are sent as well.
test.serial('200 with every model for the fields that the AI SDK sends with each transcription', async t => {
  const { data } = (await (await gateway.fetch('/v1/models?type=transcription', { key: account.test })).json()) as {
    data: { id: string }[]
  }
  const models = data.map(({ id }) => id)
  for (const model of ['whisper-1', 'gpt-4o-transcribe', 'nova-3']) t.true(models.includes(model), model)
  for (const model of models) {
    const { data, response } = await sdk.audio.transcriptions
      .create({
        model,
        file: await hello(),
        response_format: 'json',
        temperature: 0,
        language: 'en',
        timestamp_granularities: ['segment'],
      })
      .withResponse()
    t.is(data.text, written, model)
    t.is(response.headers.get('x-gateway-dropped'), 'timestamp_granularities', model)
  }
})

test.serial('200 a transcript that tells who speaks, whole and in pieces', async t => {
  const asked = { model: 'gpt-4o-transcribe-diarize', response_format: 'diarized_json', file: await hello() } as const
  const whole = (await sdk.audio.transcriptions.create(asked)) as unknown as { segments: { speaker: string }[] }
  t.deepEqual(
    whole.segments.map(({ speaker }) => speaker),
    ['A', 'B'],
  )
  const types = []
  for await (const { type } of await sdk.audio.transcriptions.create({ ...asked, stream: true })) types.push(type)
  const segment = 'transcript.text.segment'
  t.deepEqual(types.slice(-4), ['transcript.text.delta', segment, segment, 'transcript.text.done'])
})

test.serial('200 a transcript word by word', async t => {
  const stream = await sdk.audio.transcriptions.create({
    model: 'gpt-4o-transcribe',
    file: await hello(),
    stream: true,
  })
  const events = []
  for await (const event of stream) events.push(event)
  const deltas = events.flatMap(event => (event.type === 'transcript.text.delta' ? [event.delta] : []))
  t.is(deltas.length, written.split(' ').length)
  t.is(deltas.join(''), written)
  t.like(events.at(-1), { type: 'transcript.text.done', text: written })
})

const calls: [kind: string, (words: string, signal?: AbortSignal) => Promise<Response>][] = [
  ['images', (prompt, signal) => post('/v1/images', { model: 'gpt-image-2', prompt }, signal)],
  ['speech', (input, signal) => post('/v1/audio/speech', { model: 'tts-1', voice: 'alloy', input }, signal)],
  ['music', (prompt, signal) => post('/v1/audio/music', { model: 'eleven-music-v2', prompt }, signal)],
  ['sfx', (prompt, signal) => post('/v1/audio/sfx', { model: 'eleven-sfx-v2', prompt }, signal)],
  [
    'transcriptions',
    async (prompt, signal) => {
      const audio_url = `data:audio/mpeg;base64,${(await sound('mp3', 1)).toString('base64')}`
      return post('/v1/audio/transcriptions', { model: 'whisper-1', audio_url, prompt }, signal)
    },
  ],
]
const failures: [word: string, status: number, code: string][] = [
  ['sandbox:fail', 502, 'upstream_error'],
  ['sandbox:rate_limit', 502, 'upstream_error'],
  ['sandbox:timeout', 504, 'upstream_timeout'],
]
for (const [kind, call] of calls) {
  for (const [word, status, code] of failures) {
    test.serial(`${status} from ${kind} when the text says ${word}`, async t => {
      const response = await call(`Please ${word} now`)
      const { error } = (await response.json()) as { error: { code: string } }
      t.deepEqual([response.status, error.code], [status, code])
      t.is(response.headers.get('x-sandbox'), 'true')
    })
  }

  test.serial(`200 from ${kind}, late, when the text says sandbox:slow`, async t => {
    const startedMs = performance.now()
    const response = await call('Please sandbox:slow=120 now')
    await response.arrayBuffer()
    t.is(response.status, 200)
    t.true(performance.now() - startedMs > 110)
  })

  test.serial(`499 from ${kind} when the caller leaves during sandbox:timeout`, async t => {
    const { db } = gateway.services
    const before = await db.generation.count({ where: { status: 499 } })
    await eventually(async () => {
      await t.throwsAsync(call('Please sandbox:timeout now', AbortSignal.timeout(200)))
      await gateway.settled()
      return (await db.generation.count({ where: { status: 499 } })) > before
    }, 'a request that was under way is known to have been left')
  })
}
