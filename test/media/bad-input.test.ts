import { textureFile } from '../../shared/providers/sandbox/media/mesh-files.ts'
import { videoFile } from '../../shared/providers/sandbox/media/video-file.ts'
import { eventually } from '../support/gateway.ts'
import { answerOf, audio, dataUri, image } from '../support/jobs/gateway.ts'
import { wav } from '../support/media/sounds.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Invalid requests are refused before any call: no provider of these tests can be reached. */

const gateway = useGateway(test, () => {
  const nowhere = 'http://127.0.0.1:9/v1'
  return {
    OPENAI_API_KEY: 'key',
    OPENAI_BASE_URL: nowhere,
    FAL_API_KEY: 'key',
    FAL_BASE_URL: nowhere,
    ELEVENLABS_API_KEY: 'key',
    ELEVENLABS_BASE_URL: nowhere,
    RUNWAY_API_KEY: 'key',
    RUNWAY_BASE_URL: nowhere,
    GEMINI_API_KEY: 'key',
    GEMINI_BASE_URL: nowhere,
  }
})
const account = use(test, () => gateway.account())

type Part = { bytes: Uint8Array; name?: string; type?: string }
type Refusal = { status: number; code: string; param: string | null }

async function send(path: string, fields: Record<string, string>, files: Record<string, Part>, key: string) {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  for (const [name, { bytes, name: filename = 'file', type = '' }] of Object.entries(files))
    form.append(name, new Blob([new Uint8Array(bytes)], { type }), filename)
  return fetch(gateway.url + path, { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: form })
}

/** Holds a refusal to what it must say, and to having left nothing behind. */
async function refused(t: ExecutionContext, title: string, response: Response, expected: Refusal): Promise<void> {
  const body = await answerOf(response)
  const { status, code, param } = expected
  const shown = `${title}: ${JSON.stringify(body)}`
  t.deepEqual(
    { status: response.status, code: body.error.code, param: body.error.param },
    { status, code, param },
    shown,
  )
  t.true(body.error.message.length > 10, shown)
  await eventually(async () => (await gateway.services.db.file.count()) === 0, `${title}: nothing is stored`)
  const { organisationId } = account
  const wallet = await gateway.services.db.wallet.findUniqueOrThrow({ where: { organisationId } })
  t.is(wallet.balanceNano, 25_000_000_000n, title)
}

/** A FLAC or WAV file may hold a day in little: mono samples of 8 bits at a rate no ear needs. */
function longWave(seconds: number, rateHz: number): Buffer {
  const header = wav(1).subarray(0, 44)
  const samples = Buffer.alloc(seconds * rateHz, 128)
  const file = Buffer.concat([header, samples])
  file.writeUInt32LE(file.length - 8, 4)
  file.writeUInt32LE(rateHz, 24)
  file.writeUInt32LE(rateHz, 28)
  file.writeUInt16LE(1, 32)
  file.writeUInt16LE(8, 34)
  file.writeUInt32LE(samples.length, 40)
  return file
}

const sound = wav(2_000)
const picture = textureFile()
const page = Buffer.from('<!doctype html><title>No sound</title>')
const noise = Buffer.from(Array.from({ length: 4_096 }, (_, i) => (i * 7_919) % 251))

const unreadable = { status: 400, code: 'invalid_request', param: 'file' }
const wrongType = { status: 415, code: 'unsupported_media_type', param: 'file' }
const transcriptions: [title: string, file: Part, expected: Refusal][] = [
  ['an empty file', { bytes: Buffer.alloc(0), name: 'a.wav', type: 'audio/wav' }, unreadable],
  ['a page that says it is sound', { bytes: page, name: 'a.mp3', type: 'audio/mpeg' }, wrongType],
  ['an image that says it is sound', { bytes: picture, name: 'a.mp3', type: 'audio/mpeg' }, wrongType],
  ['an image', { bytes: picture, name: 'a.png', type: 'image/png' }, wrongType],
  ['sound that says it is an image', { bytes: sound, name: 'a.png', type: 'image/png' }, wrongType],
  ['noise', { bytes: noise, name: 'a.mp3', type: 'audio/mpeg' }, wrongType],
  ['a header alone', { bytes: sound.subarray(0, 44), name: 'a.wav', type: 'audio/wav' }, unreadable],
  ['half a header', { bytes: sound.subarray(0, 20), name: 'a.wav', type: 'audio/wav' }, unreadable],
  [
    'a file of 25 hours',
    { bytes: longWave(25 * 3_600, 100), name: 'a.wav', type: 'audio/wav' },
    { status: 400, code: 'unsupported_capability', param: 'file' },
  ],
  [
    'a file of more than 25 MiB',
    { bytes: wav(600_000), name: 'a.wav', type: 'audio/wav' },
    { status: 413, code: 'file_too_large', param: 'file' },
  ],
]

for (const environment of ['live', 'test'] as const) {
  test.serial(`4xx naming \`file\` for what cannot be written down, with a ${environment} key`, async t => {
    for (const [title, file, expected] of transcriptions) {
      const response = await send('/v1/audio/transcriptions', { model: 'whisper-1' }, { file }, account[environment])
      await refused(t, title, response, expected)
    }
    const silent = { bytes: await videoFile({ seconds: 1 }), name: 'a.mp4', type: 'video/mp4' }
    const response = await send(
      '/v1/audio/transcriptions',
      { model: 'whisper-1' },
      { file: silent },
      account[environment],
    )
    await refused(t, 'a film without sound', response, wrongType)
  })

  test.serial(`4xx naming the field of a transcription’s form, with a ${environment} key`, async t => {
    const file = { bytes: sound, name: 'a.wav', type: 'audio/wav' }
    const cases: [Record<string, string>, Record<string, Part>, Refusal][] = [
      [{ model: 'whisper-1' }, {}, { status: 400, code: 'missing_field', param: 'file' }],
      [{ model: 'whisper-1' }, { sound: file }, { status: 400, code: 'unknown_field', param: 'sound' }],
      [{ model: 'nope' }, { file }, { status: 404, code: 'model_not_found', param: 'model' }],
      [{ model: 'tts-1' }, { file }, { status: 404, code: 'model_not_found', param: 'model' }],
      [
        { model: 'whisper-1', response_format: 'docx' },
        { file },
        { status: 400, code: 'invalid_request', param: 'response_format' },
      ],
      [
        { model: 'gpt-4o-transcribe', response_format: 'srt' },
        { file },
        { status: 400, code: 'unsupported_capability', param: 'response_format' },
      ],
      [
        { model: 'whisper-1', temperature: 'warm' },
        { file },
        { status: 400, code: 'invalid_request', param: 'temperature' },
      ],
      [{ model: 'whisper-1', stream: 'maybe' }, { file }, { status: 400, code: 'invalid_request', param: 'stream' }],
      [
        { model: 'whisper-1', language: 'klingon!' },
        { file },
        { status: 400, code: 'invalid_request', param: 'language' },
      ],
      [
        { model: 'whisper-1', stream: 'true', response_format: 'vtt' },
        { file },
        { status: 400, code: 'unsupported_capability', param: 'stream' },
      ],
    ]
    for (const [fields, files, expected] of cases)
      await refused(
        t,
        JSON.stringify(fields),
        await send('/v1/audio/transcriptions', fields, files, account[environment]),
        expected,
      )
  })
}

test.serial('4xx naming the field of a JSON body, and nothing is stored or billed', async t => {
  const unsupported = (param: string): Refusal => ({ status: 400, code: 'unsupported_capability', param })
  const invalid = (param: string): Refusal => ({ status: 400, code: 'invalid_request', param })
  const cut = dataUri('image/png', picture.subarray(0, picture.length / 2))
  const cases: [path: string, body: object, expected: Refusal][] = [
    ['/v1/audio/transcriptions', { audio_url: image }, { ...wrongType, param: 'audio_url' }],
    ['/v1/audio/transcriptions', { audio_url: 'data:audio/wav;base64,' }, invalid('audio_url')],
    [
      '/v1/audio/transcriptions',
      { audio_url: 'http://127.0.0.1/a.wav' },
      { status: 400, code: 'url_not_allowed', param: 'audio_url' },
    ],
    ['/v1/audio/transcriptions', {}, { status: 400, code: 'missing_field', param: 'audio_url' }],
    ['/v1/images', { model: 'gpt-image-2' }, { status: 400, code: 'missing_field', param: 'prompt' }],
    ['/v1/images', { model: 'gpt-image-2', prompt: '' }, invalid('prompt')],
    ['/v1/images', { model: 'gpt-image-2', prompt: 'x', n: 11 }, invalid('n')],
    ['/v1/images', { model: 'runway-gen4-image', prompt: 'x', n: 2 }, unsupported('n')],
    ['/v1/images', { model: 'gpt-image-2', prompt: 'x', size: '1024' }, invalid('size')],
    [
      '/v1/images',
      { model: 'gpt-image-2', prompt: 'x', size: '1024x1024', aspect_ratio: '1:1' },
      invalid('aspect_ratio'),
    ],
    ['/v1/images', { model: 'flux-schnell', prompt: 'x', quality: 'high' }, unsupported('quality')],
    ['/v1/images', { model: 'flux-schnell', prompt: 'x', input_references: [image] }, unsupported('input_references')],
    ['/v1/images', { model: 'flux-schnell', prompt: 'x', mask: image }, unsupported('mask')],
    ['/v1/images', { model: 'gpt-image-2', prompt: 'x', stream: 'yes' }, invalid('stream')],
    [
      '/v1/images',
      { model: 'gpt-image-2', prompt: 'x', output_format: 'jpeg', background: 'transparent' },
      invalid('background'),
    ],
    ['/v1/images', { model: 'gpt-image-2', prompt: 'x', output_compression: 50 }, invalid('output_compression')],
    [
      '/v1/images',
      { model: 'gpt-image-2', prompt: 'x', input_references: [image, audio(1)] },
      { ...wrongType, param: 'input_references.1' },
    ],
    [
      '/v1/images',
      { model: 'gpt-image-2', prompt: 'x', input_references: [image, cut] },
      invalid('input_references.1'),
    ],
    [
      '/v1/images',
      { model: 'gpt-image-2', prompt: 'x', input_references: Array(17).fill(image) },
      invalid('input_references'),
    ],
    ['/v1/images/models?type=x', {}, { status: 405, code: 'method_not_allowed', param: null }],
    ['/v1/audio/speech', { model: 'tts-1' }, { status: 400, code: 'missing_field', param: 'input' }],
    ['/v1/audio/speech', { model: 'tts-1', input: 'x', voice: 'nobody' }, unsupported('voice')],
    ['/v1/audio/speech', { model: 'tts-1', input: 'x', response_format: 'midi' }, invalid('response_format')],
    ['/v1/audio/speech', { model: 'eleven-v3', input: 'x', response_format: 'flac' }, unsupported('response_format')],
    ['/v1/audio/speech', { model: 'eleven-v3', input: 'x', voice: '../../v1/history' }, unsupported('voice')],
    ['/v1/audio/speech', { model: 'tts-1', input: 'x'.repeat(4_097) }, unsupported('input')],
    ['/v1/audio/speech', { model: 'tts-1', input: 'x', speed: 9 }, invalid('speed')],
    ['/v1/audio/speech', { model: 'tts-1', input: 'x', instructions: 'Shout.' }, unsupported('instructions')],
    ['/v1/audio/music', { model: 'eleven-music-v2', prompt: 'x', duration_s: 400 }, unsupported('duration_s')],
    ['/v1/audio/music', { model: 'eleven-music-v2', prompt: 'x', duration_s: -1 }, invalid('duration_s')],
    ['/v1/audio/music', { model: 'lyria-3-clip', prompt: 'x', lyrics: 'la la' }, unsupported('lyrics')],
    [
      '/v1/audio/music',
      { model: 'eleven-music-v2', prompt: 'x', lyrics: 'la', instrumental: true },
      unsupported('lyrics'),
    ],
    ['/v1/audio/sfx', { model: 'eleven-sfx-v2', prompt: 'x', duration_s: 0.2 }, unsupported('duration_s')],
    ['/v1/audio/sfx', { model: 'eleven-sfx-v2', prompt: 'x', duration_s: 31 }, unsupported('duration_s')],
  ]
  for (const [path, body, expected] of cases) {
    const response = await gateway.fetch(path, { key: account.live, body })
    await refused(t, `${path} ${JSON.stringify(body).slice(0, 200)}`, response, expected)
  }
})

test.serial('4xx naming the file of an edit’s form, and nothing is stored or billed', async t => {
  const good = { bytes: picture, name: 'a.png', type: 'image/png' }
  const cases: [Record<string, string>, Record<string, Part>, Refusal][] = [
    [{ prompt: 'x' }, {}, { status: 400, code: 'missing_field', param: 'image' }],
    [{}, { image: good }, { status: 400, code: 'missing_field', param: 'prompt' }],
    [{ prompt: 'x' }, { image: { ...good, bytes: sound } }, { ...wrongType, param: 'image' }],
    [
      { prompt: 'x' },
      { image: { bytes: sound, name: 'a.wav', type: 'audio/wav' } },
      { ...wrongType, param: 'image.0' },
    ],
    [
      { prompt: 'x' },
      { image: { ...good, bytes: picture.subarray(0, picture.length / 2) } },
      { ...unreadable, param: 'image.0' },
    ],
    [{ prompt: 'x' }, { image: { ...good, bytes: Buffer.alloc(0) } }, { ...unreadable, param: 'image' }],
    [
      { prompt: 'x' },
      { image: { ...good, bytes: Buffer.concat([picture, Buffer.alloc(50 * 1024 * 1024)]) } },
      { status: 413, code: 'file_too_large', param: 'image' },
    ],
    [{ prompt: 'x', n: 'many' }, { image: good }, { status: 400, code: 'invalid_request', param: 'n' }],
    [
      { prompt: 'x', model: 'flux-schnell' },
      { image: good },
      { status: 400, code: 'unsupported_capability', param: 'image' },
    ],
  ]
  for (const [fields, files, expected] of cases) {
    const sent = await send('/v1/images/edits', { model: 'gpt-image-2', ...fields }, files, account.live)
    await refused(t, JSON.stringify([fields, expected]), sent, expected)
  }
})
