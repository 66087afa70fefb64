import { buffer } from 'node:stream/consumers'
import type { WorkKinds } from '../../../shared/kinds/index.ts'
import type { SoundFormat } from '../../../shared/kinds/sound.ts'
import type { TranscriptionInput } from '../../../shared/kinds/transcription.ts'
import { awaitFirstFrame } from '../../../shared/media/first-frame.ts'
import { elevenlabs } from '../../../shared/providers/adapters/elevenlabs/protocol.ts'
import type { SyncAdapter } from '../../../shared/providers/contract.ts'
import type { FailureReason } from '../../../shared/providers/provider-error.ts'
import {
  error,
  heard,
  invalid,
  libraryVoice,
  professionalVoice,
  said,
  startElevenLabs,
  voices,
} from '../../emulators/elevenlabs.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import { fieldsOf } from '../../emulators/openai-videos.ts'
import { connectionTo, providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { syncCallOf } from '../../support/media/adapter.ts'
import { plainTranscription } from '../../support/media/openai-audio-calls.ts'
import { decodedSeconds, wav } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

type Kind = keyof typeof models
const models = { speech: 'eleven-v3', transcription: 'scribe-v2', music: 'eleven-music-v2', sfx: 'eleven-sfx-v2' }
const speech = { text: 'Good morning.', voice: voices[0]!, format: 'mp3' as SoundFormat, speed: 1, instructions: null }
const music = { prompt: 'A waltz', lyrics: null, durationS: null, instrumental: false, format: 'mp3' as SoundFormat }
const sfx = { prompt: 'A door', durationS: null, format: 'mp3' as SoundFormat }
const transcription: TranscriptionInput = { ...plainTranscription, seconds: 6 }
const inputs = { speech, music, sfx, transcription }
const file = Buffer.from(wav(6_000))
const emulator = use(test, startElevenLabs)
test.beforeEach(() => emulator.reset())

/** What a call of a kind gives, with changes to its input. */
async function made<K extends Kind>(
  kind: K,
  changes: Partial<WorkKinds[K]['input']> = {},
): Promise<WorkKinds[K]['output']> {
  const audio_url = sourceOf('https://files.example/hello.wav', 'audio/wav', 6, file)
  const input = { ...inputs[kind], ...changes }
  const call = syncCallOf<K>('elevenlabs', models[kind], input as WorkKinds[K]['input'], { audio_url })
  const adapter = elevenlabs.synchronous![kind] as unknown as SyncAdapter<K>
  if (!('make' in adapter)) throw new Error('ElevenLabs answers in one exchange')
  return adapter.make(call, connectionTo('elevenlabs', elevenlabs, emulator.url))
}

/** The sound of a call, from its first frame to its end. */
async function soundOf(kind: 'speech' | 'music' | 'sfx', changes: object = {}): Promise<Buffer> {
  const { sound } = await made(kind, changes)
  if (!('stream' in sound)) throw new Error('expected a stream')
  const { format } = { ...inputs[kind], ...changes } as { format: SoundFormat }
  return buffer((await awaitFirstFrame(sound.stream, format)).body)
}

async function faultOf(kind: Kind, ...replies: Reply[]) {
  emulator.next(...replies)
  return providerFault(kind === 'transcription' ? made(kind) : soundOf(kind))
}

const formats: [SoundFormat, string][] = [
  ['mp3', 'mp3_44100_128'],
  ['opus', 'opus_48000_128'],
  ['pcm', 'pcm_24000'],
  ['wav', 'pcm_24000'],
]
for (const [format, name] of formats)
  test.serial(`200: speech in ${format}, streamed`, async t => {
    const bytes = await soundOf('speech', { format })
    // Thirteen characters at fifteen a second.
    t.true(Math.abs((await decodedSeconds(bytes, format)) - 13 / 15) < 0.1)
    const { path, query, body, headers } = emulator.requests[0]!
    t.is(path, `/v1/text-to-speech/${voices[0]}/stream`)
    t.deepEqual(Object.fromEntries(query), { output_format: name })
    t.deepEqual(body, { text: 'Good morning.', model_id: 'eleven_v3' })
    t.regex(String(headers['xi-api-key']), /^secret-key/)
    if (format === 'wav') t.deepEqual([bytes.readUInt32LE(24), bytes.readUInt32LE(40)], [24_000, 0xffff_ffff])
  })

test.serial('200: the speed of speech within ElevenLabs’ limits', async t => {
  for (const speed of [0.7, 1.2]) await soundOf('speech', { speed })
  t.deepEqual(
    emulator.requests.map(({ body }) => body.voice_settings),
    [{ speed: 0.7 }, { speed: 1.2 }],
  )
})

test.serial('200: music with a length, without voices, and with lyrics', async t => {
  await soundOf('music', { durationS: 3.0004, instrumental: true, format: 'opus' })
  await soundOf('music', { lyrics: 'La la\nla', durationS: 3 })
  const [bare, sung] = emulator.requests
  t.deepEqual([bare?.path, bare?.query.get('output_format')], ['/v1/music', 'opus_48000_128'])
  t.deepEqual(bare?.body, {
    prompt: 'A waltz',
    model_id: 'music_v2',
    music_length_ms: 3_000,
    force_instrumental: true,
  })
  t.is(sung?.body.prompt, 'A waltz\n\nLyrics:\nLa la\nla')
})

test.serial('200: a sound effect with and without a length', async t => {
  await soundOf('sfx')
  await soundOf('sfx', { durationS: 0.5 })
  t.deepEqual(
    emulator.requests.map(({ path, body }) => [path, body]),
    [
      ['/v1/sound-generation', { text: 'A door', model_id: 'eleven_text_to_sound_v2' }],
      ['/v1/sound-generation', { text: 'A door', model_id: 'eleven_text_to_sound_v2', duration_seconds: 0.5 }],
    ],
  )
})

test.serial('200: a transcript alone', async t => {
  const { pieces, transcript } = await made('transcription')
  t.is(pieces, null)
  const nothing = { segments: null, words: null, logprobs: null, usage: null }
  t.deepEqual(transcript(), { text: said.text, language: said.language, ...nothing })
  t.deepEqual(await fieldsOf(emulator.requests[0]!), {
    model_id: 'scribe_v2',
    timestamps_granularity: 'none',
    tag_audio_events: 'false',
    file: `file hello.wav audio/wav ${file.length}`,
  })
})

test.serial('200: a transcript with the times of its words, without spaces', async t => {
  const { transcript } = await made('transcription', { segments: true, language: 'en-GB', temperature: 0.2 })
  t.deepEqual(transcript().words?.slice(0, 2), [
    { word: 'Good', start: 0, end: 0.5 },
    { word: 'morning.', start: 0.6, end: 1.1 },
  ])
  t.is(
    transcript()
      .words?.map(({ word }) => word)
      .join(' '),
    said.text,
  )
  t.like(await fieldsOf(emulator.requests[0]!), {
    timestamps_granularity: 'word',
    language_code: 'en',
    temperature: '0.2',
  })
})

test.serial('200: who speaks, turn by turn, and the words to expect', async t => {
  const more = { speakers: true, segments: true, format: 'diarized_json', keywords: ['Headgate'] } as const
  const { transcript } = await made('transcription', more)
  t.deepEqual(transcript().segments, [
    { start: 0, end: 1.1, text: 'Good morning.', speaker: 'A' },
    { start: 1.2, end: 3.5, text: 'How are you today?', speaker: 'B' },
  ])
  t.like(await fieldsOf(emulator.requests[0]!), { diarize: 'true', keyterms: 'Headgate' })
})

test.serial('200: a word without a time or a speaker continues what is before it', async t => {
  const more = { speakers: true, segments: true, words: true, format: 'diarized_json' } as const
  const wordOf = (text: string, times: object, speaker_id?: string | null) => ({
    text,
    type: 'word',
    logprob: 0,
    speaker_id,
    ...times,
  })
  const words = [
    wordOf('Well,', { end: 0.3 }),
    wordOf('good', { start: 0.4, end: 0.5 }, 'speaker_1'),
    wordOf('morning.', { start: null, end: null }, null),
    wordOf('How', { start: 1 }, 'speaker_0'),
    wordOf('are', { end: 1.5 }, 'speaker_0'),
    wordOf('you?', {}),
  ]
  const space = { text: ' ', type: 'spacing', logprob: 0 }
  emulator.next(json(200, { ...heard(), words: words.flatMap(word => [word, space]) }))
  const { segments, words: timed } = (await made('transcription', more)).transcript()
  t.deepEqual(segments, [
    { start: 0, end: 0.5, text: 'Well, good morning.', speaker: 'A' },
    { start: 1, end: 1.5, text: 'How are you?', speaker: 'B' },
  ])
  t.deepEqual(
    timed?.map(({ start, end }) => [start, end]),
    [
      [0, 0.3],
      [0.4, 0.5],
      [0.5, 0.5],
      [1, 1],
      [1, 1.5],
      [1.5, 1.5],
    ],
  )
  emulator.next(json(200, { ...heard('none'), words: [wordOf('Hm.', {})] }))
  const alone = (await made('transcription', more)).transcript()
  t.deepEqual(alone.segments, [{ start: 0, end: 0, text: 'Hm.', speaker: 'A' }])
})

test.serial('200: silence is an empty transcript', async t => {
  emulator.next(json(200, { ...heard(), text: '', words: [] }))
  const { transcript } = await made('transcription', { words: true })
  t.like(transcript(), { text: '', words: [] })
})

test.serial('400 before anything is sent: what ElevenLabs cannot express', async t => {
  t.is(await refusedField(made('speech', { speed: 0.69 })), 'speed')
  t.is(await refusedField(made('speech', { speed: 1.21 })), 'speed')
  t.is(await refusedField(made('speech', { instructions: 'Whisper.' })), 'instructions')
  t.is(await refusedField(made('speech', { format: 'flac' })), 'response_format')
  t.is(await refusedField(made('music', { format: 'wav' })), 'output_format')
  t.is(await refusedField(made('sfx', { format: 'aac' })), 'output_format')
  t.is(await refusedField(made('transcription', { prompt: 'Headgate' })), 'prompt')
  t.is(emulator.requests.length, 0)
})

test.serial('a voice that is not there is a fault of the field `voice`', async t => {
  for (const [voice, status] of [
    ['nobody', 404],
    ['invalid-voice-id', 400],
  ] as const) {
    const fault = await providerFault(made('speech', { voice }))
    t.deepEqual([fault.reason, fault.param, fault.status], ['invalid_request', 'voice', status])
  }
})

test.serial('a voice that the account’s plan does not include is a fault of the field `voice`', async t => {
  for (const [voice, status, words] of [
    [libraryVoice, 402, /^Free users cannot use library voices/],
    [professionalVoice, 403, /^Professional voices require a Creator tier/],
  ] as const) {
    const fault = await providerFault(made('speech', { voice }))
    t.deepEqual([fault.reason, fault.param, fault.status], ['invalid_request', 'voice', status])
    t.regex(fault.message, words)
  }
})

test.serial('a keyword that ElevenLabs does not take is a fault of the field `keywords`', async t => {
  for (const keyword of ['a b c d e f', 'x'.repeat(50), '<b>']) {
    const fault = await providerFault(made('transcription', { keywords: [keyword] }))
    t.deepEqual([fault.reason, fault.param], ['invalid_request', 'keywords'])
  }
})

const validation = (...loc: (string | number)[]) => invalid({ loc, msg: 'Wrong.', type: 'value_error' })
const fields: [Kind, Reply, string | null][] = [
  ['speech', error(400, 'max_character_limit_exceeded', 'Too long.'), 'input'],
  ['speech', validation('body', 'text'), 'input'],
  ['speech', validation('path', 'voice_id'), 'voice'],
  ['speech', validation('body', 'voice_settings', 'speed'), 'speed'],
  ['speech', validation('query', 'output_format'), 'response_format'],
  ['speech', validation('body', 'model_id'), 'model'],
  ['speech', validation('body', 'seed'), null],
  ['speech', validation('body', 0), null],
  ['music', validation('body', 'prompt'), 'prompt'],
  ['music', validation('body', 'music_length_ms'), 'duration_s'],
  ['music', validation('body', 'constructor'), null],
  ['sfx', validation('body', 'text'), 'prompt'],
  ['sfx', validation('body', 'duration_seconds'), 'duration_s'],
  ['transcription', validation('body', 'file'), 'audio_url'],
  ['transcription', validation('body', 'language_code'), 'language'],
  [
    'transcription',
    json(400, { detail: { code: 'invalid_parameters', message: 'Wrong.', param: 'temperature' } }),
    'temperature',
  ],
]
for (const [i, [kind, reply, param]] of fields.entries())
  test.serial(`a refusal of ${kind} names our field: ${param} (${i})`, async t => {
    const fault = await faultOf(kind, reply)
    t.deepEqual([fault.reason, fault.param], ['invalid_request', param])
  })

const faults: [string, Reply, FailureReason][] = [
  ['no money', error(401, 'quota_exceeded', 'You have insufficient quota.'), 'quota'],
  ['no money in the newer form', json(401, { detail: { code: 'quota_exceeded', message: 'No.' } }), 'quota'],
  [
    'what the plan does not include',
    json(402, { detail: { code: 'paid_plan_required', message: 'Upgrade to use music.' } }),
    'model_unavailable',
  ],
  [
    'a format of a higher plan',
    json(403, {
      detail: {
        type: 'authorization_error',
        code: 'subscription_required',
        message: "Output format 'pcm_44100' is only available on the Pro tier and above.",
        status: 'output_format_not_allowed',
      },
    }),
    'model_unavailable',
  ],
  ['a format of a higher plan in the older form', error(403, 'output_format_not_allowed', 'No.'), 'model_unavailable'],
  ['a model that is gone', error(400, 'model_not_found', 'There is no such model.'), 'model_unavailable'],
  ['a refused key', error(401, 'invalid_api_key', 'Invalid API key'), 'auth'],
  ['too many at once', error(429, 'too_many_concurrent_requests', 'Too many.'), 'rate_limited'],
  ['a busy system', error(503, 'system_busy', 'Busy.'), 'rate_limited'],
  ['a copyrighted prompt', error(400, 'bad_prompt', 'Names an artist.'), 'content_filter'],
  ['a fault', json(500, { detail: 'Internal Server Error' }), 'server_error'],
  ['an address that is gone', json(404, { detail: 'Not Found' }), 'model_unavailable'],
]
for (const [what, reply, reason] of faults)
  test.serial(`${what} is ${reason}`, async t => {
    t.is((await faultOf('music', reply)).reason, reason)
  })

test.serial('a refusal shows no key', async t => {
  const { message } = await faultOf('music', error(400, 'wrong_region', 'Not here: sk_0123456789abcdef.'))
  t.is(message, 'Not here: [redacted]')
})

const nothing: Reply = (_request, response) => void response.writeHead(200, { 'content-type': 'audio/mpeg' }).end()
test.serial('sound without a frame is an invalid answer', async t => {
  for (const kind of ['speech', 'music', 'sfx'] as const)
    for (const reply of [nothing, json(200, { audio_base64: '' })])
      t.is((await faultOf(kind, reply)).reason, 'invalid_response')
  for (const format of ['pcm', 'wav'] as const)
    for (const reply of [nothing, json(200, { audio_base64: '' })]) {
      emulator.next(reply)
      t.is((await providerFault(soundOf('speech', { format }))).reason, 'invalid_response')
    }
})

test.serial('a transcript that lacks what it must have is an invalid answer', async t => {
  const whole = heard() as { words: object[] }
  const wordless = whole.words.map(word => ({ ...word, text: '' }))
  for (const answer of [{}, [], { ...whole, text: 3 }, { ...whole, words: null }, { ...whole, words: wordless }]) {
    emulator.next(json(200, answer))
    t.is((await providerFault(made('transcription', { words: true }))).reason, 'invalid_response')
  }
})
