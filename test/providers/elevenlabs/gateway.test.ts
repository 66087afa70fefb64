import OpenAI, { toFile } from 'openai'
import { startDeepgram } from '../../emulators/deepgram.ts'
import { heard, said, startElevenLabs, voices } from '../../emulators/elevenlabs.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import type { Account } from '../../support/gateway.ts'
import { answerOf, audio, wallet } from '../../support/jobs/gateway.ts'
import { decodedSeconds, sound } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const secret = 'upstream-secret-0123456789'
let account: Account
let sdk: OpenAI

const elevenlabs = use(test, startElevenLabs)
const deepgram = use(test, startDeepgram)
const gateway = useGateway(test, () => ({
  ELEVENLABS_API_KEY: secret,
  ELEVENLABS_BASE_URL: elevenlabs.url,
  DEEPGRAM_API_KEY: secret,
  DEEPGRAM_BASE_URL: deepgram.url,
  UPSTREAM_MAX_ATTEMPTS: '1',
}))
test.beforeEach(async () => {
  elevenlabs.reset()
  deepgram.reset()
  account = await gateway.account()
  sdk = new OpenAI({ apiKey: account.live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})

const post = (path: string, body: object) => gateway.fetch(`/v1/audio/${path}`, { key: account.live, body })

/** Waits until all is booked; what the account has paid in USD. */
async function spent(): Promise<number> {
  const breaches = await gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
  const { balance_usd, reserved_usd } = await wallet(gateway, account)
  if (reserved_usd !== 0) throw new Error(`${reserved_usd} USD are still reserved`)
  return Math.round((25 - balance_usd) * 1e9) / 1e9
}

test.serial('200: speech in every format through the OpenAI SDK, paid per character', async t => {
  const input = 'Good day. ¿Qué tal, 世界? 👋'
  const characters = [...input].length
  for (const response_format of ['mp3', 'opus', 'wav', 'pcm'] as const) {
    const answer = await sdk.audio.speech.create({
      model: 'eleven-flash-v2.5',
      input,
      voice: voices[1]!,
      response_format,
      speed: 1.2,
    })
    const bytes = new Uint8Array(await answer.arrayBuffer())
    t.true(Math.abs((await decodedSeconds(bytes, response_format)) - characters / 15) < 0.1, response_format)
    t.is(answer.headers.get('x-gateway-provider'), 'elevenlabs')
    // USD 50 per million characters and a margin of 5 %.
    t.is(Number(answer.headers.get('x-gateway-cost-usd')), Math.round(characters * 52_500) / 1e9)
  }
  t.true(elevenlabs.requests.every(({ path }) => path === `/v1/text-to-speech/${voices[1]}/stream`))
  t.is(await spent(), (4 * characters * 52_500) / 1e9)
})

test.serial('200: speech without a voice gets a public one', async t => {
  const answer = await post('speech', { model: 'eleven-v3', input: 'Good day.' })
  t.is(answer.status, 200)
  t.true((await decodedSeconds(new Uint8Array(await answer.arrayBuffer()))) > 0.4)
  t.is(elevenlabs.requests[0]!.path, '/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb/stream')
})

test.serial('200: a WAV file flows before its provider has finished', async t => {
  const samples = await sound('pcm', 2)
  const arrived = Promise.withResolvers<void>()
  elevenlabs.next(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'audio/pcm' }).write(samples.subarray(0, 10_001))
    await arrived.promise
    response.end(samples.subarray(10_001))
  })
  const answer = await post('speech', { model: 'eleven-v3', input: 'Good day.', response_format: 'wav' })
  t.is(answer.headers.get('content-type'), 'audio/wav')
  const parts: Uint8Array[] = []
  for await (const part of answer.body!) {
    parts.push(part)
    arrived.resolve()
  }
  t.is(await decodedSeconds(Buffer.concat(parts)), 2)
})

test.serial('200: transcripts in all five formats at both providers, paid per minute', async t => {
  const file = await toFile(await sound('wav', 6), 'hello.wav')
  for (const [model, costUsd] of [
    // USD 0.003667 and 0.0043002 per minute and a margin of 5 %.
    ['scribe-v2', 0.000385035],
    ['nova-3', 0.000451521],
  ] as const) {
    const create = sdk.audio.transcriptions.create.bind(sdk.audio.transcriptions)
    const before = await spent()
    t.like(await create({ model, file, response_format: 'json' }), {
      text: said.text,
      usage: { type: 'duration', seconds: 6, cost: costUsd },
    })
    t.is(String(await create({ model, file, response_format: 'text' })), `${said.text}\n`)
    const srt = String(await create({ model, file, response_format: 'srt' }))
    t.regex(
      srt,
      /^1\n00:00:00,0\d\d --> 00:00:01,1\d\d\nGood morning\.\n\n2\n00:00:0[12],\d{3} --> [^\n]+\nHow are you/,
    )
    const vtt = String(await create({ model, file, response_format: 'vtt' }))
    t.regex(vtt, /^WEBVTT\n\n00:00:00\.0\d\d --> 00:00:01\.1\d\d\nGood morning\.\n\n/)
    const verbose = await create({
      model,
      file,
      response_format: 'verbose_json',
      timestamp_granularities: ['word', 'segment'],
    })
    t.deepEqual([verbose.text, verbose.duration, verbose.segments?.length], [said.text, 6, 2])
    t.deepEqual(
      verbose.words?.map(({ word }) => word),
      said.text.split(' '),
    )
    t.is(Math.round((await spent()) * 1e9 - before * 1e9), Math.round(5 * costUsd * 1e9))
  }
})

test.serial('200: music and a sound effect at one price each', async t => {
  const song = await post('music', { model: 'eleven-music-v2', prompt: 'A waltz', lyrics: 'La la', duration_s: 3 })
  t.is(song.status, 200)
  t.is(song.headers.get('x-gateway-cost-usd'), '0.945')
  t.true(Math.abs((await decodedSeconds(new Uint8Array(await song.arrayBuffer()))) - 3) < 0.1)
  const effect = await post('sfx', { model: 'eleven-sfx-v2', prompt: 'A door', duration_s: 0.5, output_format: 'opus' })
  t.is(effect.headers.get('content-type'), 'audio/ogg')
  t.true(Math.abs((await decodedSeconds(new Uint8Array(await effect.arrayBuffer()))) - 0.5) < 0.1)
  t.is(await spent(), 0.945 + 0.126)
})

/** The field, what is wrong with it, the route, the body, and how many requests reach the provider. */
const refusals: [string, string, string, object, number][] = [
  [
    'voice',
    'a voice that is not there',
    'speech',
    { model: 'eleven-v3', input: 'Hi', voice: 'nobodyOfThatNameHere' },
    1,
  ],
  [
    'voice',
    'a voice that would be an address',
    'speech',
    { model: 'eleven-v3', input: 'Hi', voice: '../v2/voices' },
    0,
  ],
  ['speed', 'a speed beyond the limits', 'speech', { model: 'eleven-v3', input: 'Hi', speed: 2 }, 0],
  ['instructions', 'instructions', 'speech', { model: 'eleven-v3', input: 'Hi', instructions: 'Whisper.' }, 0],
  ['input', 'a text that is too long', 'speech', { model: 'eleven-v3', input: 'a'.repeat(5_001) }, 0],
  [
    'response_format',
    'a format that is not there',
    'speech',
    { model: 'eleven-v3', input: 'Hi', response_format: 'flac' },
    0,
  ],
  [
    'duration_s',
    'a song that is too short',
    'music',
    { model: 'eleven-music-v2', prompt: 'A waltz', duration_s: 2.9 },
    0,
  ],
  [
    'duration_s',
    'a song that is too long',
    'music',
    { model: 'eleven-music-v2', prompt: 'A waltz', duration_s: 181 },
    0,
  ],
  [
    'duration_s',
    'an effect that is too short',
    'sfx',
    { model: 'eleven-sfx-v2', prompt: 'A door', duration_s: 0.4 },
    0,
  ],
  ['duration_s', 'an effect that is too long', 'sfx', { model: 'eleven-sfx-v2', prompt: 'A door', duration_s: 31 }, 0],
  [
    'prompt',
    'a prompt at scribe',
    'transcriptions',
    { model: 'scribe-v2', audio_url: audio(1), prompt: 'Headgate' },
    0,
  ],
  ['prompt', 'a prompt at nova', 'transcriptions', { model: 'nova-3', audio_url: audio(1), prompt: 'Headgate' }, 0],
  [
    'temperature',
    'a temperature at nova',
    'transcriptions',
    { model: 'nova-3', audio_url: audio(1), temperature: 0.5 },
    0,
  ],
]
for (const [param, what, path, body, requests] of refusals)
  test.serial(`400 naming \`${param}\` for ${what}, which costs nothing`, async t => {
    const answer = await post(path, body)
    const { error } = await answerOf(answer)
    t.deepEqual([answer.status, error.param], [400, param], JSON.stringify(error))
    t.is(elevenlabs.requests.length + deepgram.requests.length, requests)
    t.is(await spent(), 0)
  })

const empty: Reply = (_request, response) => void response.writeHead(200, { 'content-type': 'audio/mpeg' }).end()
const silent: [string, string, object, Reply][] = [
  ['speech of no bytes', 'speech', { model: 'eleven-v3', input: 'Hi' }, empty],
  ['speech in JSON', 'speech', { model: 'eleven-v3', input: 'Hi', response_format: 'pcm' }, json(200, { audio: '' })],
  ['a song of no bytes', 'music', { model: 'eleven-music-v2', prompt: 'A waltz' }, empty],
  ['an effect in JSON', 'sfx', { model: 'eleven-sfx-v2', prompt: 'A door' }, json(200, { audio: '' })],
  ['a transcript without text', 'transcriptions', { model: 'scribe-v2', audio_url: audio(1) }, json(200, {})],
]
for (const [what, path, body, reply] of silent)
  test.serial(`502 for ${what}, which costs nothing`, async t => {
    elevenlabs.next(reply)
    const answer = await post(path, body)
    const text = await answer.text()
    t.is(answer.status, 502)
    t.is(JSON.parse(text).error.code, 'upstream_invalid_response')
    t.false(text.includes(secret) || text.includes(elevenlabs.url))
    t.is(await spent(), 0)
  })

test.serial('200 for silence, which costs nothing', async t => {
  elevenlabs.next(json(200, { ...heard(), text: '', words: [] }))
  const answer = await post('transcriptions', { model: 'scribe-v2', audio_url: audio(1) })
  t.like(await answerOf(answer), { text: '' })
  t.is(await spent(), 0)
})

test.serial('502 when the gateway’s account at ElevenLabs has no credit, without a word of it', async t => {
  elevenlabs.next(json(401, { detail: { status: 'quota_exceeded', message: `Key ${secret} has 3 credits left.` } }))
  const answer = await post('speech', { model: 'eleven-v3', input: 'Hi' })
  const text = await answer.text()
  t.is(answer.status, 502)
  t.false(text.includes('credits left') || text.includes(secret))
  t.is(await spent(), 0)
})
