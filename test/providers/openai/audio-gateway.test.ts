import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import OpenAI, { toFile } from 'openai'
import type { Usage } from '../../../shared/base/usage.ts'
import { soundFormats, soundTypes } from '../../../shared/kinds/sound.ts'
import { charactersOf } from '../../../shared/kinds/sync-kind.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import {
  type AudioReplyOptions,
  heardText,
  speechReply,
  speechTokens,
  spokenSeconds,
  startOpenAiAudio,
  transcriptReply,
  transcriptTokens,
} from '../../emulators/openai-audio.ts'
import { wrongField, wrongParam } from '../../emulators/openai-audio-rules.ts'
import { expectedNano } from '../../support/chat/gateway.ts'
import { type Account, eventually } from '../../support/gateway.ts'
import { audio } from '../../support/jobs/gateway.ts'
import { decodedSeconds, sound } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use, useFolder, useGateway } from '../../support/use.ts'

const secret = 'upstream-secret-0123456789'
const folder = useFolder(test)
let account: Account
let sdk: OpenAI

const readOnMs = 2_000
const emulator = use(test, startOpenAiAudio)
const gateway = useGateway(test, () => ({
  OPENAI_API_KEY: secret,
  OPENAI_BASE_URL: `${emulator.url}/v1`,
  GROQ_API_KEY: secret,
  GROQ_BASE_URL: `${emulator.url}/openai/v1`,
  UPSTREAM_READ_ON_MS: String(readOnMs),
}))
test.beforeEach(async () => {
  emulator.reset()
  account = await gateway.account()
  sdk = new OpenAI({ apiKey: account.live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})

/** What the account was charged altogether, once nothing is under way. Throws when the money does not add up. */
async function chargedNano(): Promise<number> {
  const breaches = await gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
  const { db, wallets } = gateway.services
  const { organisationId } = account
  const { reservedNano } = await wallets.view(organisationId)
  if (reservedNano !== 0n) throw new Error(`${reservedNano} nano-dollars are still reserved`)
  const where = { organisationId, kind: 'charge' } as const
  const { _sum } = await db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  return 0 - Number(_sum.amountNano ?? 0n)
}

const input = 'Good day. ¿Qué tal, 世界? 👋'
const long = 'Good morning. '.repeat(40)
// USD 15 per million characters and a margin of 5 %.
const nanoPerCharacter = 15_750

function speechNano(model: string, text: string): number {
  if (model === 'tts-1') return charactersOf(text) * nanoPerCharacter
  const { input_tokens, output_tokens, total_tokens } = speechTokens(text)
  return expectedNano(model, speechUsage(input_tokens, output_tokens, total_tokens))
}

function speechUsage(prompt_tokens: number, completion_tokens: number, total_tokens: number): Usage {
  const completion_tokens_details = { audio_tokens: completion_tokens }
  return { prompt_tokens, completion_tokens, total_tokens, completion_tokens_details }
}

const speaking = [
  { model: 'tts-1', voice: 'nova' },
  { model: 'gpt-4o-mini-tts', voice: 'marin', instructions: 'Cheerful.' },
]

for (const body of speaking) {
  const { model } = body
  for (const response_format of soundFormats) {
    test.serial(`200 ${model}: ${response_format} streamed to a file that decodes, at the exact price`, async t => {
      const answer = await sdk.audio.speech.create({ ...body, input, response_format })
      t.is(answer.headers.get('content-type'), soundTypes[response_format])
      t.is(answer.headers.get('x-gateway-provider'), 'openai')
      const path = join(folder, `${model}.${response_format}`)
      await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(path))
      const seconds = await decodedSeconds(await readFile(path), response_format)
      t.true(Math.abs(seconds - spokenSeconds(input)) < 0.2, `${seconds} s`)
      t.is(emulator.requests.length, 1)
      const costNano = speechNano(model, input)
      if (model === 'tts-1') t.is(Number(answer.headers.get('x-gateway-cost-usd')), costNano / 1e9)
      t.is(await chargedNano(), costNano)
    })
  }

  test.serial(`200 ${model}: the client hears the beginning before the provider has sent the end`, async t => {
    const { promise, resolve } = Promise.withResolvers<void>()
    emulator.next(speechReply({ hold: { after: 2, until: promise } }))
    const answer = await sdk.audio.speech.create({ ...body, input: long })
    const parts: Uint8Array[] = []
    for await (const part of answer.body!) {
      parts.push(part)
      resolve() // Only now may the provider go on.
    }
    t.true(Math.abs((await decodedSeconds(Buffer.concat(parts))) - spokenSeconds(long)) < 0.2)
    t.is(await chargedNano(), speechNano(model, long))
  })

  test.serial(`200 ${model}: a client that disconnects closes the provider’s request and is charged once`, async t => {
    const { promise: never } = Promise.withResolvers<void>()
    emulator.next(speechReply({ hold: { after: 2, until: never } }))
    const left = new AbortController()
    const answer = await sdk.audio.speech.create({ ...body, input: long }, { signal: left.signal })
    await answer.body!.getReader().read()
    left.abort()
    await emulator.requests[0]!.aborted
    const log = gateway.services.db.generation
    const where = { organisationId: account.organisationId }
    await eventually(async () => (await log.count({ where })) === 1, 'it is booked')
    const { status, costNano } = await log.findFirstOrThrow({ where })
    t.is(status, 499)
    t.true(costNano > 0n)
    if (model === 'tts-1') t.is(Number(costNano), speechNano(model, long))
    t.is(await chargedNano(), Number(costNano))
    t.is(emulator.requests.length, 1)
  })
}

/** What a request was charged whose client left, once it is booked. */
async function chargedAfterLeaving(): Promise<number> {
  const log = gateway.services.db.generation
  const where = { organisationId: account.organisationId }
  await eventually(async () => (await log.count({ where })) === 1, 'it is booked')
  const { status, costNano } = await log.findFirstOrThrow({ where })
  if (status !== 499 || (await chargedNano()) !== Number(costNano)) throw new Error(`${status}, ${costNano}`)
  return Number(costNano)
}

/** Leaves a stream that has begun; its provider goes on once the gateway knows of it. */
async function leaveBegun(begin: (signal: AbortSignal) => Promise<ReadableStream>, goOn: () => void): Promise<void> {
  const leaving = new AbortController()
  const stream = await begin(leaving.signal)
  await stream.getReader().read()
  leaving.abort()
  // It has noticed when it answers requests that came later.
  for (let i = 0; i < 3; i++) await (await gateway.fetch('/healthz')).text()
  goOn()
}

test.serial('499 gpt-4o-mini-tts: a client that leaves before the end pays for what the provider counts', async t => {
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(speechReply({ hold: { after: 2, until: promise } }))
  const begin = async (signal: AbortSignal) =>
    (await sdk.audio.speech.create({ ...speaking[1]!, input: long }, { signal })).body!
  await leaveBegun(begin, resolve)
  t.is(await chargedAfterLeaving(), speechNano('gpt-4o-mini-tts', long))
})

test.serial('200 gpt-4o-mini-tts: as events, with the usage that was counted and its cost', async t => {
  const answer = await sdk.audio.speech.create({ ...speaking[1]!, input, stream_format: 'sse' })
  const lines = (await answer.text()).split('\n').filter(line => line.startsWith('data: {'))
  const events = lines.map(line => JSON.parse(line.slice('data: '.length)))
  const done = events.pop()
  const cost = speechNano('gpt-4o-mini-tts', input) / 1e9
  t.deepEqual(done, { type: 'speech.audio.done', usage: { ...speechTokens(input), cost } })
  const bytes = Buffer.concat(events.map(event => Buffer.from(event.audio, 'base64')))
  t.true(Math.abs((await decodedSeconds(bytes)) - spokenSeconds(input)) < 0.2)
})

const file = await toFile(await sound('mp3', 3), 'hello.mp3')
const text = heardText('hello.mp3')
const whisperNano = 315_000 // USD 0.006 a minute and a margin of 5 %, for three seconds.

/** What a transcript of the file costs where tokens are priced. */
function transcriptNano(model: string, prompt = ''): number {
  const { input_tokens, output_tokens, total_tokens, input_token_details } = transcriptTokens(3, text, prompt)
  const prompt_tokens_details = { audio_tokens: input_token_details.audio_tokens }
  const tokens = { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens }
  return expectedNano(model, { ...tokens, prompt_tokens_details })
}

async function nothingStored(): Promise<void> {
  await eventually(async () => (await gateway.services.db.file.count()) === 0, 'no file is left')
}

test.serial('200 whisper-1: a transcript in every format, by the second', async t => {
  const asked = { file, model: 'whisper-1', language: 'en' }
  const json = await sdk.audio.transcriptions.create(asked)
  t.deepEqual(json, { text, usage: { type: 'duration', seconds: 3, cost: whisperNano / 1e9 } } as typeof json)
  t.is(await sdk.audio.transcriptions.create({ ...asked, response_format: 'text' }), `${text}\n`)
  t.is(
    await sdk.audio.transcriptions.create({ ...asked, response_format: 'srt' }),
    '1\n00:00:00,000 --> 00:00:01,800\nThis is what\n\n2\n00:00:01,800 --> 00:00:03,000\nhello.mp3 says.\n\n',
  )
  t.is(
    await sdk.audio.transcriptions.create({ ...asked, response_format: 'vtt' }),
    'WEBVTT\n\n00:00:00.000 --> 00:00:01.800\nThis is what\n\n00:00:01.800 --> 00:00:03.000\nhello.mp3 says.\n\n',
  )
  const verbose = await sdk.audio.transcriptions.create({
    ...asked,
    response_format: 'verbose_json',
    timestamp_granularities: ['word', 'segment'],
  })
  t.like(verbose, { task: 'transcribe', text, language: 'english', duration: 3 })
  t.like(verbose.segments![1], { id: 1, text: 'hello.mp3 says.', end: 3, avg_logprob: -0.3, no_speech_prob: 0.01 })
  t.is(verbose.words!.map(({ word }) => word).join(' '), text)
  t.is(await chargedNano(), 5 * whisperNano)
  await nothingStored()
})

test.serial('200 gpt-4o-transcribe: json, text and in pieces, by the token', async t => {
  const asked = { file, model: 'gpt-4o-transcribe', prompt: 'Greetings.' }
  const costNano = transcriptNano('gpt-4o-transcribe', 'Greetings.')
  const usage = { ...transcriptTokens(3, text, 'Greetings.'), cost: costNano / 1e9 }
  const { data: json, response } = await sdk.audio.transcriptions.create(asked).withResponse()
  t.deepEqual(json, { text, usage } as typeof json)
  t.is(Number(response.headers.get('x-gateway-cost-usd')), costNano / 1e9)
  t.is(await sdk.audio.transcriptions.create({ ...asked, response_format: 'text' }), `${text}\n`)
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(transcriptReply({ hold: { after: 1, until: promise } }))
  const events = []
  for await (const event of await sdk.audio.transcriptions.create({ ...asked, stream: true })) {
    events.push(event)
    resolve() // Only now may the provider go on.
  }
  t.deepEqual(events.pop(), { type: 'transcript.text.done', text, usage } as (typeof events)[number])
  t.deepEqual(
    events.map(event => event.type === 'transcript.text.delta' && event.delta),
    ['This', ' is', ' what', ' hello.mp3', ' says.'],
  )
  t.is(await chargedNano(), 3 * costNano)
  await nothingStored()
})

test.serial('499 gpt-4o-transcribe: a client that leaves before the end pays for what the provider counts', async t => {
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(transcriptReply({ hold: { after: 1, until: promise } }))
  const body = { model: 'gpt-4o-transcribe', prompt: 'Greetings.', stream: true, audio_url: audio(3) }
  const begin = async (signal: AbortSignal) =>
    (await gateway.fetch('/v1/audio/transcriptions', { key: account.live, body, signal })).body!
  await leaveBegun(begin, resolve)
  const charged = await chargedAfterLeaving()
  const heard = await gateway.fetch('/v1/audio/transcriptions', { key: account.live, body: { ...body, stream: false } })
  t.is(charged / 1e9, ((await heard.json()) as { usage: { cost: number } }).usage.cost)
})

test.serial(
  '499 gpt-4o-transcribe: a client that leaves pays for what was written when the end does not come',
  async t => {
    const { promise: never } = Promise.withResolvers<void>()
    emulator.next(transcriptReply({ hold: { after: 3, until: never } }))
    const body = { model: 'gpt-4o-transcribe', stream: true, audio_url: audio(3) }
    const begin = async (signal: AbortSignal) =>
      (await gateway.fetch('/v1/audio/transcriptions', { key: account.live, body, signal })).body!
    await leaveBegun(begin, () => {})
    const tokens = { prompt_tokens: 30, prompt_tokens_details: { audio_tokens: 30 } }
    const silent = expectedNano('gpt-4o-transcribe', { ...tokens, completion_tokens: 0, total_tokens: 30 })
    t.true((await chargedAfterLeaving()) > silent)
  },
)

test.serial('200 gpt-4o-transcribe-diarize: who speaks is in the segments', async t => {
  const asked = { file, model: 'gpt-4o-transcribe-diarize', response_format: 'verbose_json' } as const
  const { segments } = await sdk.audio.transcriptions.create(asked)
  t.like(segments, [
    { id: 0, start: 0, end: 1.8, text: 'This is what', speaker: 'A' },
    { id: 1, start: 1.8, end: 3, text: 'hello.mp3 says.', speaker: 'B' },
  ] as object)
  t.is(await chargedNano(), transcriptNano('gpt-4o-transcribe-diarize'))
})

const sample = `data:audio/wav;base64,${(await sound('wav', 3)).toString('base64')}`

test.serial('200 gpt-4o-transcribe-diarize: diarized_json, plain and streamed, with known speakers', async t => {
  const asked = {
    ...({ file, model: 'gpt-4o-transcribe-diarize', response_format: 'diarized_json' } as const),
    known_speaker_names: ['Ada', 'Grace'],
    known_speaker_references: [sample, sample],
    chunking_strategy: { type: 'server_vad', threshold: 0.4 } as const,
  }
  const costNano = transcriptNano('gpt-4o-transcribe-diarize')
  const usage = { ...transcriptTokens(3, text), cost: costNano / 1e9 }
  const segments = [
    { type: 'transcript.text.segment', id: 'seg_000', start: 0, end: 1.8, text: 'This is what', speaker: 'Ada' },
    { type: 'transcript.text.segment', id: 'seg_001', start: 1.8, end: 3, text: 'hello.mp3 says.', speaker: 'Grace' },
  ]
  const whole: unknown = await sdk.audio.transcriptions.create(asked)
  t.deepEqual(whole, { task: 'transcribe', duration: 3, text, segments, usage })
  const events: { type: string; delta?: string }[] = []
  for await (const event of await sdk.audio.transcriptions.create({ ...asked, stream: true })) events.push(event)
  t.deepEqual(events.slice(-3), [...segments, { type: 'transcript.text.done', text, usage }])
  t.is(events.map(({ delta = '' }) => delta).join(''), text)
  t.is(await chargedNano(), 2 * costNano)
  await nothingStored()
})

test.serial(
  '200 OpenAI’s own options by their bracketed names, and what a model without them is told instead',
  async t => {
    const asked = { file, include: ['logprobs' as const], chunking_strategy: 'auto' as const }
    const sure = await sdk.audio.transcriptions.create({ ...asked, model: 'gpt-4o-transcribe' })
    t.like(sure.logprobs?.[0], { token: 'This', logprob: -0.02 })
    const names = Array.from({ length: 98 }, (_, i) => `Name ${i}`)
    const guided = { file, keywords: ['Headgate', 'sluice', ...names], languages: ['en', 'de'] }
    t.is((await sdk.audio.transcriptions.create({ ...guided, model: 'gpt-transcribe' })).text, text)
    await sdk.audio.transcriptions.create({
      file,
      keywords: guided.keywords.slice(0, 2),
      prompt: 'Rivers.',
      model: 'whisper-1',
    })
    t.regex(emulator.requests[2]!.raw.toString('latin1'), /name="prompt"\r\n\r\nRivers\.\nHeadgate, sluice\r\n/)
    const translated = await sdk.audio.translations.create({
      file,
      model: 'whisper-1',
      response_format: 'verbose_json',
    })
    t.like(translated, { task: 'translate', text } as object)
    t.is(emulator.requests[3]!.path, '/v1/audio/translations')
    await nothingStored()
  },
)

test.serial('200 a language as browsers and systems name it is the one of ISO 639-1 at OpenAI and Groq', async t => {
  const codes: [language: string, sent: string][] = [
    ['en-US', 'en'],
    ['EN', 'en'],
    ['pt_BR', 'pt'],
    ['zh-Hans-CN', 'zh'],
    ['es-419', 'es'],
    ['deu', 'de'],
    ['nb-NO', 'no'],
    ['yue', 'yue'],
  ]
  const sent = () => /name="language"\r\n\r\n([^\r]*)/.exec(emulator.requests.at(-1)!.raw.toString('latin1'))?.[1]
  for (const [language, expected] of codes) {
    for (const model of ['whisper-1', 'gpt-4o-transcribe', 'whisper-large-v3'])
      t.is((await sdk.audio.transcriptions.create({ file, model, language })).text, text)
    t.is(sent(), expected)
  }
  const languages = ['en-US', 'en_GB', 'DE']
  await sdk.audio.transcriptions.create({ file, model: 'gpt-transcribe', languages })
  const named = emulator.requests
    .at(-1)!
    .raw.toString('latin1')
    .match(/name="languages\[\]"\r\n\r\n[^\r]*/g)
  t.deepEqual(
    named?.map(part => part.slice(-2)),
    ['en', 'de'],
  )
  for (const language of ['Nederlands', 'auto', 'en US', 'e', 'en--US']) {
    const refused = await t.throwsAsync(sdk.audio.transcriptions.create({ file, model: 'whisper-1', language }))
    t.like(refused, { status: 400, param: 'language' }, language)
  }
})

test.serial('200 a prompt longer than what a model reads: whole at OpenAI, its end where more is refused', async t => {
  const prompt = `${'Kübernetes 世界, '.repeat(1_000)}the end 👋`
  const sent = async () => {
    const { raw, headers } = emulator.requests.at(-1)!
    const form = await new Response(new Uint8Array(raw), {
      headers: { 'content-type': headers['content-type']! },
    }).formData()
    return String(form.get('prompt'))
  }
  for (const create of [sdk.audio.transcriptions, sdk.audio.translations]) {
    await create.create({ file, model: 'whisper-1', prompt })
    t.is(await sent(), prompt)
    await create.create({ file, model: 'whisper-large-v3', prompt })
    t.is(await sent(), [...prompt].slice(-896).join(''))
  }
  const asked = { file, model: 'whisper-1', prompt: 'x'.repeat(200_001) }
  t.like(await t.throwsAsync(sdk.audio.transcriptions.create(asked)), { status: 400, param: 'prompt' })
})

test.serial('400 names the option that a model does not take', async t => {
  const refused = async (body: object, form: Record<string, string | string[]> = {}) => {
    const parts = new FormData()
    parts.append('file', file)
    for (const [name, value] of Object.entries({ ...body, ...form }))
      for (const one of [value].flat()) parts.append(name, String(one))
    const headers = { authorization: `Bearer ${account.live}` }
    const answer = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: parts })
    const { error } = (await answer.json()) as { error: { code: string; param: string } }
    return [answer.status, error.code, error.param]
  }
  const unsupported = (param: string) => [400, 'unsupported_capability', param]
  const whisper = { model: 'whisper-1' }
  const diarize = { model: 'gpt-4o-transcribe-diarize' }
  t.deepEqual(await refused({ ...whisper, response_format: 'diarized_json' }), unsupported('response_format'))
  t.deepEqual(await refused(whisper, { 'include[]': 'logprobs' }), unsupported('include'))
  t.deepEqual(await refused(whisper, { languages: ['en', 'de'] }), unsupported('languages'))
  const vad = '{"type":"server_vad"}'
  t.deepEqual(await refused(whisper, { chunking_strategy: vad }), unsupported('chunking_strategy'))
  t.deepEqual(await refused(whisper, { 'known_speaker_names[]': 'Ada' }), unsupported('known_speaker_references'))
  t.deepEqual(await refused(diarize, { keywords: 'Headgate' }), unsupported('keywords'))
  t.deepEqual(await refused(diarize, { 'include[]': 'logprobs' }), unsupported('include'))
  const invalid = (param: string) => [400, 'invalid_request', param]
  const tall = { chunking_strategy: '{"type":"server_vad","threshold":2}' }
  t.deepEqual(await refused(diarize, tall), invalid('chunking_strategy.threshold'))
  const short = `data:audio/wav;base64,${(await sound('wav', 1)).toString('base64')}`
  const tooShort = { known_speaker_names: 'Ada', known_speaker_references: short }
  t.deepEqual(await refused(diarize, tooShort), invalid('known_speaker_references.0'))
  t.deepEqual(await refused({ model: 'gpt-transcribe', language: 'en', languages: 'de' }), invalid('languages'))
  t.is(emulator.requests.length, 0)
  t.is(await chargedNano(), 0)
  await nothingStored()
})

test.serial('200 whisper-large-v3 at Groq: subtitles it has no format for itself', async t => {
  const srt = await sdk.audio.transcriptions.create({ file, model: 'whisper-large-v3', response_format: 'srt' })
  t.regex(srt, /^1\n00:00:00,000 --> 00:00:01,800\nThis is what\n/)
  t.like(emulator.requests[0], { path: '/openai/v1/audio/transcriptions' })
  // USD 0.0018498 a minute for the 10 s that Groq bills at least, and a margin of 5 %, rounded once.
  t.is(await chargedNano(), Math.ceil((0.0018498e9 / 6) * 1.05))
})

test.serial('402 what Groq bills at least for a short file is reserved; a silent one costs nothing', async t => {
  const body = { model: 'whisper-large-v3', audio_url: audio(1) }
  for (const text of ['', ' \n']) {
    emulator.next(json(200, { text }))
    const silent = await gateway.fetch('/v1/audio/transcriptions', { key: account.live, body })
    t.like(await silent.json(), { usage: { cost: 0 } })
  }
  t.is(await chargedNano(), 0)
  // Enough for one second of sound, which is USD 0.0000324 with the margin, but not for ten.
  const poor = await gateway.account({ usd: '0.0001' })
  t.is((await gateway.fetch('/v1/audio/transcriptions', { key: poor.live, body })).status, 402)
  t.is(emulator.requests.length, 2)
})

test.serial('400 a refusal of the provider names the field as the caller wrote it, and costs nothing', async t => {
  const refused = async (reply: Reply, path: string, body: object) => {
    emulator.next(reply)
    const answer = await gateway.fetch(`/v1/audio/${path}`, { key: account.live, body })
    const { error } = (await answer.json()) as { error: { code: string; param: string; message: string } }
    t.is(answer.status, 400)
    t.is(error.code, 'invalid_request')
    return error.param
  }
  const unheard = wrongParam('file', 'Audio file might be corrupted or unsupported')
  t.is(await refused(wrongField('voice', 'No.'), 'speech', { ...speaking[0], input }), 'voice')
  const asked = { model: 'whisper-1', audio_url: audio(1) }
  t.is(await refused(unheard, 'transcriptions', asked), 'audio_url')
  emulator.next(unheard)
  const inForm = await t.throwsAsync(sdk.audio.transcriptions.create({ file, model: 'whisper-1' }))
  t.like(inForm, { status: 400, param: 'file' })
  t.is(await chargedNano(), 0)
  await nothingStored()
})

// What breaks lets its model rest for a while, so that these come last.

const breaks: [model: string, what: string, options: AudioReplyOptions][] = [
  ['tts-1', 'whose connection breaks', { cutAfter: 4 }],
  ['gpt-4o-mini-tts', 'whose connection breaks', { cutAfter: 4 }],
  ['gpt-4o-mini-tts', 'that reports an error', { errorAfter: 4 }],
  ['gpt-4o-mini-tts', 'without its last event', { done: false }],
]
for (const [model, what, options] of breaks) {
  test.serial(`502 ${model}: speech ${what} is broken off for the client, too, and costs nothing`, async t => {
    const { promise, resolve } = Promise.withResolvers<void>()
    emulator.next(speechReply({ ...options, hold: { after: 2, until: promise } }))
    const answer = await sdk.audio.speech.create({ model, voice: 'nova', input: long })
    const read = async () => {
      for await (const _ of answer.body!) resolve()
    }
    await t.throwsAsync(read(), { instanceOf: TypeError })
    t.is(await chargedNano(), 0)
    t.is(emulator.requests.length, 1)
  })
}

test.serial('502 a transcript in pieces that breaks off ends with an error, and costs nothing', async t => {
  for (const options of [{ cutAfter: 3 }, { errorAfter: 3 }, { done: false }] as const) {
    const { promise, resolve } = Promise.withResolvers<void>()
    emulator.next(transcriptReply({ ...options, hold: { after: 1, until: promise } }))
    const pieces: string[] = []
    const read = async () => {
      for await (const event of await sdk.audio.transcriptions.create({
        file,
        model: 'gpt-4o-transcribe',
        stream: true,
      })) {
        if (event.type === 'transcript.text.delta') pieces.push(event.delta)
        resolve()
      }
    }
    await t.throwsAsync(read(), { instanceOf: OpenAI.APIError })
    t.true(pieces.length > 0)
  }
  t.is(await chargedNano(), 0)
  await nothingStored()
})

test.serial('502 without a fallback: no secret in the error, nothing charged or stored', async t => {
  for (const broken of ['speech', 'transcriptions']) {
    emulator.next((_request, response) => void response.writeHead(401).end(`wrong key ${secret}`))
    const body = broken === 'speech' ? { ...speaking[0], input } : { model: 'whisper-1', audio_url: audio(1) }
    const answer = await gateway.fetch(`/v1/audio/${broken}`, { key: account.live, body })
    t.is(answer.status, 502)
    t.false((await answer.text()).includes(secret))
  }
  t.is(await chargedNano(), 0)
  await nothingStored()
})
