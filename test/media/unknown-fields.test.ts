import { Emulator, json } from '../emulators/emulator.ts'
import type { Account } from '../support/gateway.ts'
import { formOf, formType, partOf } from '../support/io/raw-requests.ts'
import { answerOf, dataUri } from '../support/jobs/gateway.ts'
import { png } from '../support/media/png.ts'
import { wav } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Clients of other servers send their fields with every request: what has no effect is named, and is no error. */

let account: Account
const images = json(200, { created: 1, data: [{ b64_json: png(8).toString('base64') }] })
const heard = json(200, { text: 'Hello.' })

const emulator = use(test, () => Emulator.start(images))
const gateway = useGateway(test, () => ({
  OPENAI_API_KEY: 'key',
  OPENAI_BASE_URL: `${emulator.url}/v1`,
  ELEVENLABS_API_KEY: 'key',
  ELEVENLABS_BASE_URL: emulator.url,
}))
test.beforeEach(async () => {
  emulator.reset()
  account = await gateway.account()
})

const audio_url = dataUri('audio/wav', wav(500))
const draw = { model: 'gpt-image-2', prompt: 'A fox.' }
const speak = { model: 'tts-1', input: 'Hello.' }
const hear = { model: 'whisper-1', audio_url }
const routes: Record<string, object> = {
  '/v1/images': draw,
  '/v1/images/generations': draw,
  '/v1/images/edits': { ...draw, input_references: [dataUri('image/png', png(8))] },
  '/v1/audio/speech': speak,
  '/v1/audio/transcriptions': hear,
  '/v1/audio/translations': hear,
  '/v1/audio/music': { model: 'eleven-music-v2', prompt: 'A waltz.' },
  '/v1/audio/sfx': { model: 'eleven-sfx-v2', prompt: 'A door.' },
  '/v1/rerank': { model: 'rerank-v3.5', query: 'When?', documents: ['Cats sleep.', 'It opens at nine.'] },
  '/v1/moderations': { input: 'Hello' },
}

const post = (path: string, body: object, key = account.test) => gateway.fetch(path, { key, body })
const droppedBy = (response: Response) => response.headers.get('x-gateway-dropped')

async function postForm(path: string, fields: [name: string, value: string][], file: Buffer, key = account.live) {
  const body = formOf(...fields.map(([name, value]) => partOf(name, value)), file)
  const headers = { authorization: `Bearer ${key}`, 'content-type': formType }
  return fetch(gateway.url + path, { method: 'POST', headers, body })
}

const recording = partOf('file', wav(500), 'a.wav', 'audio/wav')
const picture = partOf('image[]', png(8), 'a.png', 'image/png')

for (const [path, body] of Object.entries(routes))
  test.serial(`200 with unknown fields of ${path} named, and none that asks for nothing`, async t => {
    const nothing = { a: null, b: false, c: '', d: [], e: {}, toString: null }
    const silent = await post(path, { ...body, ...nothing })
    t.is(silent.status, 200, await silent.clone().text())
    t.is(droppedBy(silent), null)
    const named = await post(path, { ...body, ...nothing, x_vendor: { deep: [1] }, steps: 20 })
    t.is(named.status, 200, await named.clone().text())
    t.is(droppedBy(named), 'x_vendor,steps')
    // These cost money at providers. What switches them off is not named.
    const paid = { web_search: true, web_search_options: {}, search_parameters: { mode: 'on' }, mcp_servers: [{}] }
    const off = {
      enable_search: false,
      search: '',
      search_parameters: { mode: 'off' },
      container: null,
      mcp_servers: [],
    }
    const costly = await post(path, { ...body, ...off, ...paid })
    t.is(costly.status, 200, await costly.clone().text())
    t.deepEqual(droppedBy(costly)?.split(',').toSorted(), Object.keys(paid).toSorted())
    t.is(droppedBy(await post(path, { ...body, ...off })), null)
  })

test.serial('200 with what clients of other image servers send: the provider gets none of it', async t => {
  const fields = { negative_prompt: 'blur', steps: 20, guidance_scale: 3.5 }
  const sized = { ...draw, width: 512, height: 512 }
  const answer = await post('/v1/images/generations', { ...sized, ...fields, style: 'vivid' }, account.live)
  t.is(answer.status, 200, await answer.clone().text())
  t.is(droppedBy(answer), 'negative_prompt,steps,guidance_scale,style')
  const { body } = emulator.requests[0]!
  for (const name of [...Object.keys(fields), 'width', 'height']) t.false(name in body, name)
  t.is(body.size, '512x512')
})

test.serial('200 with the fields of a translation that only transcriptions have: none is read', async t => {
  const fields = { language: 'de', stream: true, known_speaker_references: [7], chunking_strategy: 5 }
  emulator.next(heard)
  const answer = await post('/v1/audio/translations', { ...hear, ...fields }, account.live)
  t.is(answer.status, 200, await answer.clone().text())
  t.is(droppedBy(answer), Object.keys(fields).join())
  t.like(await answer.json(), { text: 'Hello.' })
  t.is(emulator.requests[0]!.path, '/v1/audio/translations')
})

test.serial('200 with the form of the Mistral SDKs, and with lists of unknown fields', async t => {
  emulator.next(heard, heard)
  const path = '/v1/audio/transcriptions'
  const model: [string, string] = ['model', 'whisper-1']
  const plain = await postForm(path, [model, ['diarize', 'false'], ['stream', 'false']], recording)
  t.is(plain.status, 200, await plain.clone().text())
  t.is(droppedBy(plain), null)
  const more: [string, string][] = [
    ...(['a', 'b'].map(word => ['context_bias', word]) as [string, string][]),
    ...(['a', 'b'].map(word => ['hotwords[]', word]) as [string, string][]),
    ['vad_filter', 'true'],
    ['options[a]', '1'],
    ['options[b]', '2'],
    ['word_timestamps', 'False'],
  ]
  const answer = await postForm(path, [model, ...more], recording)
  t.is(answer.status, 200, await answer.clone().text())
  t.is(droppedBy(answer), 'context_bias,hotwords,vad_filter,options')
  t.false(
    /context_bias|hotwords|vad_filter|diarize/.test(emulator.requests.map(({ raw }) => raw.toString('latin1')).join()),
  )
})

test.serial('200 with the form of an edit with the fields of another server', async t => {
  const fields: [string, string][] = [
    ['model', 'gpt-image-2'],
    ['prompt', 'Again.'],
    ['steps', '20'],
    ['cfg', ''],
  ]
  const answer = await postForm('/v1/images/edits', fields, picture)
  t.is(answer.status, 200, await answer.clone().text())
  t.is(droppedBy(answer), 'steps')
})

test.serial('400 naming a field of another API that decides the answer, and what to send instead', async t => {
  const cases: [path: string, field: string, value: unknown, harmless: unknown, instead: RegExp][] = [
    ['/v1/audio/transcriptions', 'diarize', true, false, /`response_format: "diarized_json"`/],
    ['/v1/audio/transcriptions', 'task', 'translate', 'transcribe', /`\/v1\/audio\/translations`/],
    ['/v1/audio/translations', 'to_language', 'de', 'en', /into English/],
    ['/v1/audio/speech', 'voice_id', 'nova', null, /`voice`/],
    ['/v1/audio/speech', 'ref_audio', 'AAAA', null, /`voice`/],
    ['/v1/audio/speech', 'input_references', [{ type: 'input_audio' }], [], /`voice`/],
    ['/v1/images', 'image', 'https://example.com/a.png', null, /`input_references`/],
    ['/v1/images/generations', 'image_url', 'https://example.com/a.png', '', /`input_references`/],
    ['/v1/images', 'mask_image', 'https://example.com/a.png', null, /`mask`/],
    ['/v1/images', 'num_images', 4, 1, /`n`/],
    ['/v1/audio/music', 'duration', 30, null, /`duration_s`/],
    ['/v1/audio/sfx', 'duration_seconds', 3, null, /`duration_s`/],
  ]
  for (const [path, field, value, harmless, instead] of cases) {
    const body = routes[path]!
    const { error } = await answerOf(await post(path, { ...body, [field]: value }, account.live))
    t.like(error, { code: 'invalid_request', param: field }, path)
    t.regex(error.message, instead)
    const answer = await post(path, { ...body, [field]: harmless })
    t.is(answer.status, 200, `${path} ${field}: ${await answer.clone().text()}`)
    t.is(droppedBy(answer), null, `${path} ${field}`)
  }
  const asText = await postForm(
    '/v1/audio/transcriptions',
    [
      ['model', 'whisper-1'],
      ['diarize', 'true'],
    ],
    recording,
  )
  t.like((await answerOf(asText)).error, { code: 'invalid_request', param: 'diarize' })
  t.is(emulator.requests.length, 0)
})
