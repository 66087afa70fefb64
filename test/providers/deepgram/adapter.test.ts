import type { TranscriptionInput } from '../../../shared/kinds/transcription.ts'
import { deepgram } from '../../../shared/providers/adapters/deepgram/protocol.ts'
import type { SyncCall } from '../../../shared/providers/contract.ts'
import type { FailureReason } from '../../../shared/providers/provider-error.ts'
import { error, heard, said, startDeepgram } from '../../emulators/deepgram.ts'
import { json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { connectionTo, providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { plainTranscription } from '../../support/media/openai-audio-calls.ts'
import { wav } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const adapter = deepgram.synchronous!.transcription!
if (!('make' in adapter)) throw new Error('Deepgram answers in one exchange')
const { make } = adapter

const file = Buffer.from(wav(6_000))
const input: TranscriptionInput = {
  ...plainTranscription,
  format: 'verbose_json',
  segments: true,
  words: true,
  seconds: 6,
}
const emulator = use(test, startDeepgram)
test.beforeEach(() => emulator.reset())

function callWith(changes: Partial<TranscriptionInput> = {}, model = 'nova-3'): SyncCall<'transcription'> {
  const audio_url = sourceOf('https://files.example/hello.wav', 'audio/wav', 6, file)
  return syncCallOf('deepgram', model, { ...input, ...changes }, { audio_url })
}

/** Has the emulator write down what a call asks for. */
async function heardOf(changes: Partial<TranscriptionInput> = {}, model = 'nova-3') {
  const { pieces, transcript } = await make(callWith(changes, model), connectionTo('deepgram', deepgram, emulator.url))
  return { pieces, ...transcript() }
}

async function faultOf(...replies: Reply[]) {
  emulator.next(...replies)
  return providerFault(heardOf())
}

test.serial('200: the file as it is, with the model’s options in the query', async t => {
  await heardOf()
  const { method, path, query, headers, raw } = emulator.requests[0] as Recorded
  t.deepEqual(
    [method, path, Object.fromEntries(query)],
    [
      'POST',
      '/v1/listen',
      { model: 'nova-3', smart_format: 'true', punctuate: 'true', detect_language: 'true', utterances: 'true' },
    ],
  )
  t.is(headers['content-type'], 'audio/wav')
  t.regex(headers.authorization ?? '', /^Token secret-key/)
  t.true(raw.equals(file))
})

test.serial('200: a transcript with its language, utterances as segments and words as they are written', async t => {
  const { pieces, text, language, segments, words, usage } = await heardOf()
  t.deepEqual([pieces, text, language, usage], [null, said, 'en', null])
  t.deepEqual(segments, [
    { start: 0.08, end: 1.18, text: 'Good morning.', speaker: null },
    { start: 2.28, end: 4.58, text: 'How are you today?', speaker: null },
  ])
  t.is(words?.map(({ word }) => word).join(' '), said)
  t.deepEqual(words?.[0], { word: 'Good', start: 0.08, end: 0.58 })
})

test.serial('200: only what was asked for', async t => {
  const { segments, words, language } = await heardOf({ segments: false, words: false, language: 'de' })
  t.deepEqual([segments, words, language], [null, null, null])
  const { query } = emulator.requests[0]!
  t.is(query.get('language'), 'de')
  t.false(query.has('detect_language') || query.has('utterances'))
})

test.serial('200: who speaks, the words to expect, and the languages to choose from', async t => {
  const more = { speakers: true, format: 'diarized_json', keywords: ['Head gate', 'sluice'], languages: ['en', 'de'] }
  const { segments } = await heardOf(more as Partial<TranscriptionInput>)
  t.deepEqual(
    segments?.map(({ speaker, text }) => [speaker, text]),
    [
      ['A', 'Good morning.'],
      ['B', 'How are you today?'],
    ],
  )
  const { query } = emulator.requests[0]!
  t.is(query.get('diarize'), 'true')
  t.deepEqual(query.getAll('keyterm'), ['Head gate', 'sluice'])
  t.deepEqual(query.getAll('detect_language'), ['en', 'de'])
})

test.serial('200: an utterance or a word without a time or a speaker continues what is before it', async t => {
  const utterances = [
    { transcript: 'Hm.', end: 0.3 },
    { transcript: 'Good morning.', start: 0.4, end: 1, speaker: 1 },
    { transcript: 'Yes?', speaker: null },
    { transcript: 'Hello.', start: 2, end: 3, speaker: 0 },
    { transcript: 'Bye.' },
  ]
  const words = [{ word: 'hm', end: 0.3 }, { word: 'good' }, { word: 'morning', start: 0.6 }]
  const channels = [{ alternatives: [{ transcript: said, words }] }]
  emulator.next(json(200, { metadata: {}, results: { channels, utterances } }))
  const heard = await heardOf({ speakers: true, format: 'diarized_json' })
  t.deepEqual(heard.segments, [
    { start: 0, end: 0.3, text: 'Hm.', speaker: 'A' },
    { start: 0.4, end: 1, text: 'Good morning.', speaker: 'A' },
    { start: 1, end: 1, text: 'Yes?', speaker: 'A' },
    { start: 2, end: 3, text: 'Hello.', speaker: 'B' },
    { start: 3, end: 3, text: 'Bye.', speaker: 'B' },
  ])
  t.deepEqual(heard.words, [
    { word: 'hm', start: 0, end: 0.3 },
    { word: 'good', start: 0.3, end: 0.3 },
    { word: 'morning', start: 0.6, end: 0.6 },
  ])
})

test.serial('200: a language with the region or the script that Deepgram knows, else alone', async t => {
  const tags = {
    'en-US': 'en-US',
    'es-419': 'es-419',
    'zh-Hans-CN': 'zh-Hans',
    'it-IT': 'it',
    deu: 'de',
    'nb-NO': 'no',
  }
  for (const [language, expected] of Object.entries(tags)) {
    emulator.reset()
    await heardOf({ language })
    t.is(emulator.requests[0]!.query.get('language'), expected)
  }
})

test.serial('200: a model that cannot tell languages hears them all', async t => {
  const { language } = await heardOf({}, 'nova-3-medical')
  t.is(emulator.requests[0]!.query.get('language'), 'multi')
  t.is(language, 'en')
})

test.serial('200: silence is an empty transcript', async t => {
  const silence = { channels: [{ alternatives: [{ transcript: '', confidence: 0, words: [] }] }], utterances: [] }
  emulator.next(json(200, { metadata: {}, results: silence }))
  t.like(await heardOf(), { text: '', segments: [], words: [], language: null })
})

test.serial('400 before anything is sent: fields that Deepgram does not have', async t => {
  t.is(await refusedField(heardOf({ prompt: 'Headgate' })), 'prompt')
  t.is(await refusedField(heardOf({ temperature: 0 })), 'temperature')
  t.is(await refusedField(heardOf({ keywords: ['Headgate'] }, 'nova-2')), 'keywords')
  t.is(emulator.requests.length, 0)
})

test.serial('a fault of the request names the field it is about', async t => {
  const corrupt = await faultOf(
    error(400, 'Bad Request', 'Bad Request: failed to process audio: corrupt or unsupported data'),
  )
  t.deepEqual([corrupt.reason, corrupt.param], ['invalid_request', 'audio_url'])
  const language = await providerFault(heardOf({ language: 'xxx' }))
  t.deepEqual([language.reason, language.param], ['invalid_request', 'language'])
  const keywords = await providerFault(heardOf({ keywords: ['a '.repeat(300), 'b '.repeat(300)] }))
  t.deepEqual([keywords.reason, keywords.param], ['invalid_request', 'keywords'])
  t.regex(keywords.message, /^Keyterm limit exceeded/)
  const unknownModel = error(400, 'Bad Request', 'Bad Request: No such model/language/tier combination found.')
  t.like(await faultOf(unknownModel), { reason: 'model_unavailable', param: null })
  const other = await faultOf(json(400, { category: 'INVALID_JSON', message: 'Invalid JSON submitted.' }))
  t.deepEqual([other.reason, other.param, other.message], ['invalid_request', null, 'Invalid JSON submitted.'])
})

const faults: [number, string, FailureReason][] = [
  [401, 'INVALID_AUTH', 'auth'],
  [402, 'ASR_PAYMENT_REQUIRED', 'quota'],
  [403, 'INSUFFICIENT_PERMISSIONS', 'model_unavailable'],
  [422, 'UNPROCESSABLE', 'server_error'],
  [429, 'TOO_MANY_REQUESTS', 'rate_limited'],
  [500, 'INTERNAL_SERVER_ERROR', 'server_error'],
  [503, 'SERVICE_UNAVAILABLE', 'overloaded'],
]
for (const [status, code, reason] of faults)
  test.serial(`${status} is ${reason}`, async t => {
    const fault = await faultOf(error(status, code, 'Words of Deepgram.'))
    t.deepEqual([fault.reason, fault.status, fault.param], [reason, status, null])
  })

test.serial('an answer that lacks what it must have is invalid', async t => {
  const whole = heard(new URLSearchParams({ utterances: 'true' })) as { results: { channels: unknown[] } }
  const { utterances: _, ...unsegmented } = whole.results as Record<string, unknown>
  const wordless = { ...whole.results, channels: [{ alternatives: [{ transcript: 'Good' }] }] }
  for (const results of [undefined, { channels: [] }, unsegmented, wordless]) {
    const fault = await faultOf(json(200, { metadata: {}, results }))
    t.is(fault.reason, 'invalid_response', JSON.stringify(results))
  }
})

conforms(test, {
  name: 'Deepgram transcription',
  provider: 'deepgram',
  protocol: deepgram,
  kind: 'transcription',
  start: startDeepgram,
  call: callWith,
  others: { 'without times': () => callWith({ format: 'text', segments: false, words: false, language: 'en' }) },
  error: (status, message) => error(status, 'REFUSED', message),
  reasons: { 403: 'model_unavailable', 422: 'server_error' },
})
