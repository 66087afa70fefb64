import { buffer } from 'node:stream/consumers'
import { soundFormats } from '../../../shared/kinds/sound.ts'
import type { TranscriptionInput } from '../../../shared/kinds/transcription.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { ProviderConnection, SyncCall } from '../../../shared/providers/contract.ts'
import type { ProviderError } from '../../../shared/providers/provider-error.ts'
import { dripped, events, framed, json, type Reply } from '../../emulators/emulator.ts'
import {
  heardText,
  speechReply,
  speechTokens,
  startOpenAiAudio,
  transcriptReply,
  transcriptTokens,
} from '../../emulators/openai-audio.ts'
import { wrongField, wrongParam } from '../../emulators/openai-audio-rules.ts'
import { fieldsOf } from '../../emulators/openai-videos.ts'
import { connectionTo, providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { spoken, text, transcribed, wave, waveSource } from '../../support/media/openai-audio-calls.ts'
import { decodedSeconds } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const speech = openai.synchronous!.speech as {
  make: (call: SyncCall<'speech'>, connection: ProviderConnection) => Promise<Spoken>
}
const transcription = openai.synchronous!.transcription as {
  make: (call: SyncCall<'transcription'>, connection: ProviderConnection) => Promise<Heard>
}
type Spoken = { sound: { stream: AsyncIterable<Uint8Array> }; usage(): unknown }
type Heard = Awaited<
  ReturnType<Extract<NonNullable<typeof openai.synchronous>['transcription'], { make: unknown }>['make']>
>
const emulator = use(test, startOpenAiAudio)
const connection = use(test, () => connectionTo('openai', openai, emulator.url))
test.beforeEach(() => emulator.reset())

const heard = heardText('hello.wav')

/** What a whole transcript, or one in pieces, ends with. */
async function transcriptOf(call: SyncCall<'transcription'>, to = connection) {
  const output = await transcription.make(call, to)
  const pieces = []
  for await (const piece of output.pieces ?? []) pieces.push(piece)
  return { pieces, ...output.transcript() }
}

/** The fields of the form that was sent, lists as such. */
async function formOf(): Promise<Record<string, unknown>> {
  const request = emulator.requests.at(-1)!
  const type = request.headers['content-type']!
  const form = await new Response(new Uint8Array(request.raw), { headers: { 'content-type': type } }).formData()
  const lists = [...form.keys()].filter(name => name.endsWith('[]'))
  return { ...(await fieldsOf(request)), ...Object.fromEntries(lists.map(name => [name, form.getAll(name)])) }
}

test.serial('speech priced by the character is asked for as bytes and handed on as they are', async t => {
  const more = { voice: 'nova', speed: 1.25 }
  for (const format of soundFormats) {
    const { sound: made, usage } = await speech.make(spoken('tts-1', { ...more, format }), connection)
    t.true((await decodedSeconds(await buffer(made.stream), format)) > 1, format)
    t.is(usage(), null)
    const { body, headers } = emulator.requests.at(-1)!
    t.deepEqual(body, { model: 'tts-1', input: text, response_format: format, ...more })
    t.regex(headers.authorization!, /^Bearer secret-key/)
  }
})

test.serial(
  'speech priced by the token is asked for as events, whose sound is decoded and whose usage is told',
  async t => {
    const more = { voice: 'marin', instructions: 'Whisper.' }
    const { input_tokens, output_tokens, total_tokens } = speechTokens(text)
    for (const format of soundFormats) {
      const { sound: made, usage } = await speech.make(spoken('gpt-4o-mini-tts', { ...more, format }), connection)
      t.true((await decodedSeconds(await buffer(made.stream), format)) > 1, format)
      t.deepEqual(usage(), {
        prompt_tokens: input_tokens,
        completion_tokens: output_tokens,
        total_tokens,
        completion_tokens_details: { audio_tokens: output_tokens },
      })
      const { body } = emulator.requests.at(-1)!
      const asked = { model: 'gpt-4o-mini-tts', input: text, response_format: format, stream_format: 'sse' }
      t.deepEqual(body, { ...asked, ...more })
    }
  },
)

const samples = [Buffer.from('first'), Buffer.from('second')]
const deltas = samples.map(bytes => ({ type: 'speech.audio.delta', audio: bytes.toString('base64') }))
const done = { type: 'speech.audio.done', usage: speechTokens(text) }

test.serial('events are read however they are written', async t => {
  const all = [...deltas, { type: 'speech.audio.pause', seconds: 1 }, done, '[DONE]']
  const written: Reply[] = [
    dripped(framed(all), 1),
    dripped(framed(all, { eol: '\r\n', before: [': ping', 'id: 7'] }), 7),
    dripped(framed(all, { tight: true, spread: true, mark: true }), 1_000),
    dripped(framed(all.slice(0, -1), { unended: true }), 1_000),
  ]
  for (const reply of written) {
    emulator.next(reply)
    const { sound: made, usage } = await speech.make(spoken('gpt-4o-mini-tts'), connection)
    t.is((await buffer(made.stream)).toString(), 'firstsecond')
    t.like(usage(), { prompt_tokens: done.usage.input_tokens })
  }
})

test.serial('ended at the last event, without waiting for more', async t => {
  emulator.next(events([framed([...deltas, done])], { end: 'hang' }))
  const { sound: made } = await speech.make(spoken('gpt-4o-mini-tts'), connection)
  t.is((await buffer(made.stream)).toString(), 'firstsecond')
})

test.serial('200 for speech without usage', async t => {
  emulator.next(speechReply({ usage: false }))
  const { sound: made, usage } = await speech.make(spoken('gpt-4o-mini-tts'), connection)
  t.true((await buffer(made.stream)).length > 0)
  t.is(usage(), null)
})

const brokenSpeech: [string, Reply, ProviderError['reason']][] = [
  ['without its last event', speechReply({ done: false }), 'truncated'],
  ['whose connection breaks', speechReply({ cutAfter: 2 }), 'connection'],
  ['that reports an error', speechReply({ errorAfter: 2 }), 'server_error'],
  ['with an error of a type', dripped(framed([{ type: 'error', code: 'rate_limit_exceeded' }]), 99), 'rate_limited'],
  ['that is no events', json(200, 'hello'), 'invalid_response'],
  ['whose events are no JSON', dripped(framed(['hello']), 99), 'invalid_response'],
  ['whose sound is none', dripped(framed([{ ...deltas[0], audio: 7 }]), 99), 'invalid_response'],
  ['whose sound is no base64', dripped(framed([{ ...deltas[0], audio: 'a b' }]), 99), 'invalid_response'],
]
for (const [what, reply, reason] of brokenSpeech) {
  test.serial(`${reason}: speech ${what}`, async t => {
    emulator.next(reply)
    const { sound: made } = await speech.make(spoken('gpt-4o-mini-tts'), connection)
    t.is((await providerFault(buffer(made.stream))).reason, reason)
  })
}

test.serial('a client that disconnects midway closes the request', async t => {
  for (const model of ['tts-1', 'gpt-4o-mini-tts']) {
    const { promise: never } = Promise.withResolvers<void>()
    emulator.next(speechReply({ hold: { after: 1, until: never } }))
    const { sound: made } = await speech.make(spoken(model), connection)
    for await (const _ of made.stream) break
    await emulator.requests.at(-1)!.aborted
    const leaving = new AbortController()
    emulator.next(speechReply({ hold: { after: 1, until: never } }))
    const other = await speech.make({ ...spoken(model), signal: leaving.signal }, connection)
    const left = async () => {
      for await (const _ of other.sound.stream) leaving.abort()
    }
    t.is((await providerFault(left())).reason, 'connection')
    await emulator.requests.at(-1)!.aborted
  }
  t.is(emulator.requests.length, 4)
})

test.serial('a transcript: no more is asked for than is needed', async t => {
  const sent = { model: 'whisper-1', file: `file hello.wav audio/wav ${wave.length}` }
  t.like(await transcriptOf(transcribed('whisper-1')), { pieces: [], text: heard, segments: null, usage: null })
  t.deepEqual(await formOf(), { ...sent, response_format: 'json' })
  const all = { language: 'en', prompt: 'Hello, world.', temperature: 0.2, segments: true, words: true }
  await transcriptOf(transcribed('whisper-1', { ...all, format: 'verbose_json' }))
  t.deepEqual(await formOf(), {
    ...sent,
    response_format: 'verbose_json',
    language: 'en',
    prompt: 'Hello, world.',
    temperature: '0.2',
    'timestamp_granularities[]': ['segment', 'word'],
  })
  await transcriptOf(transcribed('whisper-1', { temperature: 0, segments: true, format: 'srt' }))
  t.like(await formOf(), {
    response_format: 'verbose_json',
    temperature: '0',
    'timestamp_granularities[]': ['segment'],
  })
  await transcriptOf(transcribed('gpt-4o-transcribe', { format: 'text' }))
  t.deepEqual(await formOf(), { ...sent, model: 'gpt-4o-transcribe', response_format: 'json' })
  await transcriptOf(transcribed('gpt-4o-transcribe-diarize', { segments: true, format: 'vtt' }))
  const diarized = { model: 'gpt-4o-transcribe-diarize', response_format: 'diarized_json', chunking_strategy: 'auto' }
  t.deepEqual(await formOf(), { ...sent, ...diarized })
  await transcriptOf(transcribed('gpt-4o-transcribe-diarize', { stream: true }))
  t.deepEqual(await formOf(), { ...sent, ...diarized, response_format: 'json', stream: 'true' })
})

test.serial('a transcript has its segments with what whisper says of them, and its words', async t => {
  const call = transcribed('whisper-1', { segments: true, words: true, format: 'verbose_json' })
  const { segments, words, ...rest } = await transcriptOf(call)
  t.deepEqual(rest, { pieces: [], text: heard, language: 'english', logprobs: null, usage: null })
  t.deepEqual(segments![0], {
    start: 0,
    end: 1.8,
    text: 'This is what',
    speaker: null,
    details: {
      seek: 0,
      tokens: [50_364, 1],
      temperature: 0,
      avg_logprob: -0.3,
      compression_ratio: 1.2,
      no_speech_prob: 0.01,
    },
  })
  t.deepEqual(words![0], { word: 'This', start: 0, end: 0.6 })
})

test.serial('a segment or a word without a time begins, or ends, where the one before ended', async t => {
  const segments = [{ start: 0, end: 2, text: 'Room' }, { start: 2, text: '2266' }, { text: 'please.' }]
  const words = [{ word: 'Room', start: 0.5, end: 1 }, { word: '2266' }, { word: 'please.', start: 2, end: null }]
  emulator.next(json(200, { text: heard, segments, words }))
  const timed = await transcriptOf(transcribed('whisper-1', { segments: true, words: true, format: 'verbose_json' }))
  t.deepEqual(
    [timed.segments, timed.words].map(all => all?.map(({ start, end }) => [start, end])),
    [
      [
        [0, 2],
        [2, 2],
        [2, 2],
      ],
      [
        [0.5, 1],
        [1, 1],
        [2, 2],
      ],
    ],
  )
})

test.serial('a transcript tells who speaks, and the tokens that were counted', async t => {
  const { segments, usage } = await transcriptOf(transcribed('gpt-4o-transcribe-diarize', { segments: true }))
  t.deepEqual(
    segments!.map(({ speaker, text, details }) => [speaker, text, details]),
    [
      ['A', 'This is what', undefined],
      ['B', 'hello.wav says.', undefined],
    ],
  )
  const { output_tokens, total_tokens } = transcriptTokens(3, heard)
  const counted = { prompt_tokens: 30, completion_tokens: output_tokens, total_tokens }
  t.deepEqual(usage, { ...counted, prompt_tokens_details: { audio_tokens: 30 } })
})

test.serial('a transcript in pieces: each is there before the next is sent', async t => {
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(transcriptReply({ hold: { after: 1, until: promise }, bytewise: true }))
  const { pieces, transcript } = await transcription.make(
    transcribed('gpt-4o-transcribe', { stream: true }),
    connection,
  )
  const said = []
  for await (const piece of pieces!) {
    said.push('text' in piece && piece.text)
    resolve()
  }
  t.is(said[0], 'This')
  t.is(said.join(''), heard)
  t.like(transcript(), { text: heard, usage: { prompt_tokens: 30, prompt_tokens_details: { audio_tokens: 30 } } })
})

test.serial('OpenAI’s own options are handed on as its SDK writes them', async t => {
  const probabilities = await transcriptOf(transcribed('gpt-4o-transcribe', { logprobs: true, chunking: 'auto' }))
  t.deepEqual(probabilities.logprobs?.[0], { token: 'This', logprob: -0.02, bytes: [...Buffer.from('This')] })
  t.like(await formOf(), { 'include[]': ['logprobs'], chunking_strategy: 'auto', response_format: 'json' })
  const chunking = { type: 'server_vad', threshold: 0.4, silence_duration_ms: 300 } as const
  await transcriptOf(transcribed('gpt-4o-transcribe', { chunking }))
  t.like(await formOf(), {
    'chunking_strategy[type]': 'server_vad',
    'chunking_strategy[threshold]': '0.4',
    'chunking_strategy[silence_duration_ms]': '300',
  })
  await transcriptOf(transcribed('gpt-transcribe', { keywords: ['Headgate', 'sluice'], languages: ['en', 'de'] }))
  t.like(await formOf(), { 'keywords[]': ['Headgate', 'sluice'], 'languages[]': ['en', 'de'] })
})

test.serial('known speakers are told with their samples, and named in segments and pieces', async t => {
  const known = { speakers: true, segments: true, format: 'diarized_json', knownSpeakers: ['Ada', 'Grace'] } as const
  const samples = { 'known_speaker_references.0': waveSource, 'known_speaker_references.1': waveSource }
  const call = (more: Partial<TranscriptionInput> = {}) => {
    const plain = transcribed('gpt-4o-transcribe-diarize', { ...known, ...more })
    return { ...plain, sources: new Map([...plain.sources, ...Object.entries(samples)]) }
  }
  const { segments } = await transcriptOf(call())
  t.like(segments, [
    { id: 'seg_000', speaker: 'Ada' },
    { id: 'seg_001', speaker: 'Grace' },
  ] as object)
  const sample = `data:audio/wav;base64,${wave.toString('base64')}`
  t.like(await formOf(), {
    response_format: 'diarized_json',
    'known_speaker_names[]': ['Ada', 'Grace'],
    'known_speaker_references[]': [sample, sample],
  })
  const { pieces } = await transcriptOf(call({ stream: true }))
  t.deepEqual(
    pieces.flatMap(piece => ('segment' in piece ? [piece.segment.speaker] : [])),
    ['Ada', 'Grace'],
  )
})

test.serial('a translation has its own route, without times it does not know', async t => {
  const { text, segments } = await transcriptOf(
    transcribed('whisper-1', { translate: true, segments: true, format: 'srt', prompt: 'Rivers' }),
  )
  t.is(text, heard)
  t.is(segments?.length, 2)
  t.is(emulator.requests[0]!.path, '/v1/audio/translations')
  t.deepEqual(Object.keys(await formOf()).sort(), ['file', 'model', 'prompt', 'response_format'])
})

const broken: [string, Reply, ProviderError['reason']][] = [
  ['without its last event', transcriptReply({ done: false }), 'truncated'],
  ['whose connection breaks', transcriptReply({ cutAfter: 2 }), 'connection'],
  ['that reports an error', transcriptReply({ errorAfter: 2 }), 'server_error'],
  ['that ends without a text', dripped(framed([{ type: 'transcript.text.done' }]), 99), 'invalid_response'],
]
for (const [what, reply, reason] of broken) {
  test.serial(`${reason}: a transcript in pieces ${what}`, async t => {
    emulator.next(reply)
    const error = await providerFault(transcriptOf(transcribed('gpt-4o-transcribe', { stream: true })))
    t.is(error.reason, reason)
  })
}

test.serial('at Groq: its path, its models', async t => {
  const groq = connectionTo('groq', openai, emulator.url)
  const call = transcribed('whisper-large-v3-turbo', { segments: true, format: 'srt' }, waveSource, 'groq')
  t.like(await transcriptOf(call, groq), { text: heard, segments: [{ end: 1.8 }, { end: 3 }], usage: null })
  t.is(emulator.requests[0]!.path, '/openai/v1/audio/transcriptions')
})

test.serial('a file is given the name that its format needs', async t => {
  await transcriptOf(transcribed('whisper-1', {}, { ...waveSource, filename: 'download.php' }))
  t.regex(String((await formOf()).file), /^file download\.php\.wav audio\/wav /)
  await transcriptOf(transcribed('whisper-1', {}, { ...waveSource, filename: 'TALK.WAV' }))
  t.regex(String((await formOf()).file), /^file TALK\.WAV\.wav /)
})

test.serial('400 for what cannot be expressed, before anything is sent', async t => {
  const aac = sourceOf('https://files.example/a.aac', 'audio/aac', 3)
  t.is(await refusedField(transcriptOf(transcribed('whisper-1', {}, aac))), 'audio_url')
  const words = transcribed('gpt-4o-transcribe-diarize', { words: true, format: 'verbose_json' })
  t.is(await refusedField(transcriptOf(words)), 'timestamp_granularities')
  const speakers = transcribed('whisper-1', { speakers: true, segments: true, format: 'diarized_json' })
  t.is(await refusedField(transcriptOf(speakers)), 'response_format')
  t.is(emulator.requests.length, 0)
})

test.serial('a refusal names the field of ours', async t => {
  const refusals: [Reply, string | null][] = [
    [wrongField('voice', 'Input should be one of them'), 'voice'],
    [wrongParam('input', 'Too long.'), 'input'],
    [wrongParam('anything', 'Else.'), null],
  ]
  for (const [reply, param] of refusals) {
    emulator.next(reply)
    t.like(await providerFault(speech.make(spoken('tts-1'), connection)), {
      reason: 'invalid_request',
      param,
      status: 400,
    })
  }
  emulator.next(wrongParam('file', 'Audio file might be corrupted or unsupported'))
  const error = await providerFault(transcriptOf(transcribed('whisper-1')))
  t.like(error, { reason: 'invalid_request', param: 'audio_url' })
})

test.serial('a provider without audio routes is not asked', async t => {
  const other = connectionTo('deepseek', openai, emulator.url)
  for (const work of [speech.make(spoken('tts-1'), other), transcriptOf(transcribed('whisper-1'), other)])
    t.like(await providerFault(work), { reason: 'model_unavailable', unsent: true })
  t.is(emulator.requests.length, 0)
})
