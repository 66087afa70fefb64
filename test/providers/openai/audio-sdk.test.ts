import OpenAI, { toFile } from 'openai'
import { soundFormats } from '../../../shared/kinds/sound.ts'
import { heardText, speechTokens, startOpenAiAudio, transcriptTokens } from '../../emulators/openai-audio.ts'
import { dataOf } from '../../support/chat/gateway.ts'
import { decodedSeconds, sound } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'

// The official SDK is the judge of the emulator.

const emulator = await startOpenAiAudio()
const sdk = new OpenAI({ apiKey: 'sk-test', baseURL: `${emulator.url}/v1`, maxRetries: 0 })
const file = await toFile(await sound('wav', 3), 'hello.wav')
const text = heardText('hello.wav')
test.after.always(() => emulator.close())

/** What the SDK throws of a refusal. */
async function refusal(work: Promise<unknown>): Promise<{ status: number; param: string | null; message: string }> {
  const error = await work.then(
    () => null,
    error => error,
  )
  if (!(error instanceof OpenAI.APIError)) throw new Error(`expected a refusal, got ${error}`)
  return { status: error.status, param: error.param ?? null, message: error.message }
}

const spoken = { model: 'gpt-4o-mini-tts', input: 'Good morning. How are you today?', voice: 'marin' }

for (const format of soundFormats) {
  test.serial(`200: speech as ${format}, as bytes and as events, decodes`, async t => {
    const whole = await sdk.audio.speech.create({ ...spoken, response_format: format })
    const bytes = new Uint8Array(await whole.arrayBuffer())
    t.true(Math.abs((await decodedSeconds(bytes, format)) - spoken.input.length / 15) < 0.2)
    const events = await sdk.audio.speech.create({ ...spoken, response_format: format, stream_format: 'sse' })
    t.regex(events.headers.get('content-type')!, /^text\/event-stream/)
    const all = dataOf(await events.text())
    const usage = speechTokens(spoken.input)
    t.deepEqual(all.pop(), { type: 'speech.audio.done', usage })
    t.true(all.every(({ type }) => type === 'speech.audio.delta'))
    t.true(Buffer.concat(all.map(({ audio }) => Buffer.from(audio, 'base64'))).equals(Buffer.from(bytes)))
  })
}

test.serial('200: speech at twice the speed is half as long', async t => {
  const answer = await sdk.audio.speech.create({ ...spoken, model: 'tts-1', voice: 'alloy', speed: 2 })
  t.true(Math.abs((await decodedSeconds(new Uint8Array(await answer.arrayBuffer()))) - spoken.input.length / 30) < 0.2)
})

test.serial('200: transcripts in every format, with what each model counts', async t => {
  const whisper = { file, model: 'whisper-1' }
  t.deepEqual(await sdk.audio.transcriptions.create(whisper), { text, usage: { type: 'duration', seconds: 3 } })
  t.is(await sdk.audio.transcriptions.create({ ...whisper, response_format: 'text' }), `${text}\n`)
  t.regex(
    await sdk.audio.transcriptions.create({ ...whisper, response_format: 'srt' }),
    /^1\n00:00:00,000 --> 00:00:01,800\nThis is what\n\n2\n/,
  )
  t.regex(
    await sdk.audio.transcriptions.create({ ...whisper, response_format: 'vtt' }),
    /^WEBVTT\n\n00:00:00.000 --> 00:00:01.800\nThis is what\n\n/,
  )
  const granularities = { timestamp_granularities: ['segment', 'word'] as ('segment' | 'word')[] }
  const verbose = await sdk.audio.transcriptions.create({
    ...whisper,
    ...granularities,
    response_format: 'verbose_json',
  })
  t.like(verbose, { text, language: 'english', duration: 3 })
  t.deepEqual(
    verbose.segments!.map(segment => segment.text),
    ['This is what', 'hello.wav says.'],
  )
  t.is(verbose.words!.map(({ word }) => word).join(' '), text)
  const diarized = await sdk.audio.transcriptions.create({
    file,
    model: 'gpt-4o-transcribe-diarize',
    response_format: 'diarized_json',
    chunking_strategy: 'auto',
  })
  t.like(diarized, { text, usage: transcriptTokens(3, text), segments: [{ speaker: 'A' }, { speaker: 'B' }] })
})

const sample = `data:audio/wav;base64,${(await sound('wav', 2)).toString('base64')}`
const speakers = { known_speaker_names: ['Ada', 'Grace'], known_speaker_references: [sample, sample] }

test.serial('200: known speakers are named, whole and in pieces', async t => {
  const asked = {
    ...({ file, model: 'gpt-4o-transcribe-diarize', response_format: 'diarized_json', ...speakers } as const),
    chunking_strategy: { type: 'server_vad', threshold: 0.4 } as const,
  }
  t.like(await sdk.audio.transcriptions.create(asked), {
    segments: [{ speaker: 'Ada' }, { speaker: 'Grace' }],
  } as object)
  const names = []
  for await (const event of await sdk.audio.transcriptions.create({ ...asked, stream: true }))
    if (event.type === 'transcript.text.segment') names.push(event.speaker)
  t.deepEqual(names, ['Ada', 'Grace'])
})

test.serial('200: probabilities, keywords, languages, and a translation', async t => {
  const sure = await sdk.audio.transcriptions.create({ file, model: 'gpt-4o-transcribe', include: ['logprobs'] })
  t.is(sure.logprobs?.[0]?.token, 'This')
  const guided = { file, model: 'gpt-transcribe', keywords: ['Headgate'], languages: ['en', 'de'] }
  t.is((await sdk.audio.transcriptions.create(guided)).text, text)
  t.is((await sdk.audio.translations.create({ file, model: 'whisper-1' })).text, text)
})

test.serial('200: a transcript in pieces, where the model gives it so', async t => {
  const stream = await sdk.audio.transcriptions.create({
    file,
    model: 'gpt-4o-transcribe',
    prompt: 'Hi.',
    stream: true,
  })
  const events = []
  for await (const event of stream) events.push(event)
  const done = { type: 'transcript.text.done', text, usage: transcriptTokens(3, text, 'Hi.') } as const
  t.deepEqual(events.pop(), done)
  t.is(events.map(event => event.type === 'transcript.text.delta' && event.delta).join(''), text)
})

test.serial('400 what is wrong is told as OpenAI tells it', async t => {
  const speak = (more: object) =>
    refusal(sdk.audio.speech.create({ ...spoken, model: 'tts-1', voice: 'alloy', ...more }))
  t.like(await speak({ voice: 'marin' }), { status: 400, param: null })
  t.regex((await speak({ voice: 'marin' })).message, /'loc': \('body', 'voice'\)/)
  t.like(await speak({ colour: 1 }), { status: 400, param: 'colour' })
  t.like(await speak({ stream_format: 'sse' }), { status: 400, param: 'stream_format' })
  t.like(await speak({ model: 'tts-9' }), { status: 404 })
  t.like(await speak({ input: 'x'.repeat(4_097) }), { status: 400 })
  const hear = (more: object) => refusal(sdk.audio.transcriptions.create({ file, model: 'gpt-4o-transcribe', ...more }))
  t.like(await hear({ response_format: 'srt' }), { status: 400, param: 'response_format' })
  t.like(await hear({ timestamp_granularities: ['word'] }), { status: 400, param: 'timestamp_granularities[]' })
  t.like(await hear({ model: 'gpt-4o-transcribe-diarize' }), { status: 400, param: 'chunking_strategy' })
  t.like(await hear({ file: await toFile(Buffer.from('no sound'), 'a.wav') }), { status: 400, param: 'file' })
  t.like(await hear({ file: await toFile(await sound('wav', 1), 'a.bin') }), { status: 400, param: 'file' })
  t.like(await hear({ model: 'whisper-9' }), { status: 404 })
  t.like(await hear({ keywords: ['Headgate'] }), { status: 400, param: 'keywords' })
  t.like(await hear({ model: 'whisper-1', include: ['logprobs'] }), { status: 400, param: 'include' })
  const diarize = { model: 'gpt-4o-transcribe-diarize', chunking_strategy: 'auto' }
  t.like(await hear({ ...diarize, known_speaker_names: ['Ada'] }), { status: 400, param: 'known_speaker_references' })
  const stranger = new OpenAI({ apiKey: ' ', baseURL: `${emulator.url}/v1`, maxRetries: 0 })
  t.is((await refusal(stranger.audio.speech.create({ ...spoken }))).status, 401)
})
