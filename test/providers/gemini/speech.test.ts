import type { Bytes } from '../../../shared/io/bytes.ts'
import { waveHeader } from '../../../shared/io/media/wave.ts'
import type { SpeechInput } from '../../../shared/kinds/speech.ts'
import { events, json, type Reply } from '../../emulators/emulator.ts'
import { countTokens, geminiError, rateLimited } from '../../emulators/gemini.ts'
import { interactionError, streamed, tokensPerSecond } from '../../emulators/gemini-interactions.ts'
import { startGeminiMedia } from '../../emulators/gemini-media.ts'
import { providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { decodedSeconds, sound } from '../../support/media/sounds.ts'
import {
  heard,
  made,
  newerVoice,
  olderVoice,
  speechCall,
  text,
  textSeconds,
  type Way,
  ways,
} from '../../support/providers/gemini-sound.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const emulator = use(test, startGeminiMedia)
test.beforeEach(() => emulator.reset())

const say = (input?: Partial<SpeechInput>, way?: Way) => made('speech', emulator.url, speechCall(input, way))

for (const way of ways) {
  test.serial(`200 by ${way}: wav and pcm that decode, with exact usage`, async t => {
    const wav = await heard(await say({ format: 'wav' }, way), 'wav')
    t.true(wav.bytes.equals(Buffer.concat([waveHeader(24_000, null), await sound('pcm', textSeconds)])))
    t.true(Math.abs((await decodedSeconds(wav.bytes)) - textSeconds) < 0.01)
    const pcm = await heard(await say({ format: 'pcm' }, way), 'pcm')
    t.true(pcm.bytes.equals(await sound('pcm', textSeconds)))
    const tokens = Math.ceil(textSeconds * tokensPerSecond)
    for (const { usage } of [wav, pcm])
      t.like(usage, {
        prompt_tokens: countTokens(text),
        completion_tokens: tokens,
        total_tokens: countTokens(text) + tokens,
        completion_tokens_details: { audio_tokens: tokens },
      })
  })
  test.serial(`400 by ${way}, unsent: speed and the formats that Gemini does not speak`, async t => {
    t.is(await refusedField(say({ speed: 1.5 }, way)), 'speed')
    for (const format of ['mp3', 'opus', 'aac', 'flac'] as const)
      t.is(await refusedField(say({ format }, way)), 'response_format')
    t.is(emulator.requests.length, 0)
  })
  test.serial(`400 by ${way} naming the voice that Gemini does not have`, async t => {
    const fault = await providerFault(say({ voice: 'Nobody' }, way))
    t.like(fault, { reason: 'invalid_request', param: 'voice', status: 400 })
  })
}

test.serial('200: the text is spoken word for word, instructions are its metadata', async t => {
  await heard(await say({ instructions: 'Whisper', voice: 'Sulafat' }), 'wav')
  const [request] = emulator.requests
  t.is(request!.path, '/v1beta/interactions')
  t.is(request!.headers.accept, 'text/event-stream')
  t.deepEqual(request!.body, {
    model: newerVoice,
    input: [
      {
        type: 'user_input',
        content: [{ type: 'text', text, annotations: [{ type: 'speech_metadata', style: 'Whisper' }] }],
      },
    ],
    response_format: { type: 'audio', mime_type: 'audio/l16', sample_rate: 24_000 },
    generation_config: { speech_config: [{ voice: 'Sulafat' }] },
    store: false,
    stream: true,
  })
  await heard(await say(), 'wav')
  t.deepEqual(emulator.requests[1]!.body.input[0].content, [{ type: 'text', text }])
})

test.serial('200 the older way: instructions stand before the transcript', async t => {
  await heard(await say({ instructions: 'Whisper' }, 'generateContent'), 'wav')
  const [request] = emulator.requests
  t.is(request!.path, `/v1beta/models/${olderVoice}:streamGenerateContent`)
  t.deepEqual(request!.body, {
    contents: [{ role: 'user', parts: [{ text: `Whisper\n\n#### TRANSCRIPT\n${text}` }] }],
    generationConfig: {
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    },
  })
})

const samples = (await sound('pcm', 0.5)).toString('base64')
const begunStep = { event_type: 'step.start', index: 0, step: { type: 'model_output' } }
const delta = (more: object = {}) => ({
  event_type: 'step.delta',
  index: 0,
  delta: { type: 'audio', data: samples, mime_type: 'audio/l16', ...more },
})
const completed = (more: object = {}) => ({
  event_type: 'interaction.completed',
  interaction: { id: 'v1', status: 'completed', ...more },
})
const generated = (mimeType: string, finishReason?: string) => ({
  candidates: [
    { content: { parts: [{ inlineData: { mimeType, data: samples } }] }, ...(finishReason && { finishReason }) },
  ],
})
const sse = (...payloads: object[]) => events(payloads.map(payload => `data: ${JSON.stringify(payload)}\r\n\r\n`))

const rates: [string, Way, Reply][] = [
  ['a field', 'interactions', streamed([begunStep, delta({ sample_rate: 16_000 }), completed()])],
  ['its type', 'interactions', streamed([delta({ mime_type: 'audio/l16; rate=16000; channels=1' }), completed()])],
  ['its type', 'generateContent', sse(generated('audio/L16;codec=pcm;rate=16000', 'STOP'))],
]
for (const [where, way, reply] of rates) {
  test.serial(`another rate, by ${where} of ${way}: in the header of a wav, never as pcm`, async t => {
    emulator.next(reply, reply)
    const { bytes } = await heard(await say({ format: 'wav' }, way), 'wav')
    t.is(bytes.readUInt32LE(24), 16_000)
    t.true(Math.abs((await decodedSeconds(bytes)) - 0.75) < 0.01)
    const fault = await providerFault(say({ format: 'pcm' }, way).then(output => heard(output, 'pcm')))
    t.is(fault.reason, 'invalid_response')
  })
}

test.serial('200: a step may begin with sound, silence is skipped, unknown events are passed over', async t => {
  const content = [{ type: 'text', text: 'Spoken:' }, { ...delta().delta }]
  emulator.next(
    streamed([
      { event_type: 'interaction.created', interaction: { id: 'v1', status: 'in_progress' } },
      { event_type: 'something.new', words: 1 },
      { event_type: 'step.start', index: 0, step: { type: 'thought', content: [delta().delta] } },
      { event_type: 'step.start', index: 1, step: { type: 'model_output', content } },
      delta({ data: '' }),
      delta(),
      completed({ usage: { total_input_tokens: 4, total_output_tokens: 25, total_thought_tokens: 5 } }),
    ]),
  )
  const { bytes, usage } = await heard(await say({ format: 'pcm' }), 'pcm')
  t.is(bytes.length, 2 * 24_000)
  t.deepEqual(usage, {
    prompt_tokens: 4,
    completion_tokens: 30,
    total_tokens: 34,
    completion_tokens_details: { reasoning_tokens: 5 },
  })
})

const faults: [string, Way, Reply, string][] = [
  [
    'an error in words',
    'interactions',
    streamed([{ event_type: 'error', error: { code: 'rate_limit_exceeded', message: 'Slow down' } }]),
    'rate_limited',
  ],
  [
    'a policy',
    'interactions',
    streamed([{ event_type: 'error', error: { code: 'invalid_request', message: 'Violates usage guidelines' } }]),
    'content_filter',
  ],
  ['an error without a code', 'interactions', streamed([{ event_type: 'error', error: {} }]), 'server_error'],
  [
    'a failed step',
    'interactions',
    streamed([
      {
        event_type: 'step.start',
        index: 0,
        step: { type: 'model_output', error: { code: 14, message: 'Unavailable' } },
      },
    ]),
    'overloaded',
  ],
  ['a failed interaction', 'interactions', streamed([begunStep, completed({ status: 'failed' })]), 'server_error'],
  ['one cut off by its length', 'interactions', streamed([delta(), completed({ status: 'incomplete' })]), 'truncated'],
  ['an end without an end', 'interactions', streamed([delta()]), 'truncated'],
  ['a broken connection', 'interactions', streamed([delta(), delta()], 'cut'), 'connection'],
  ['stereo', 'interactions', streamed([delta({ channels: 2 }), completed()]), 'invalid_response'],
  [
    'a rate that is none',
    'interactions',
    streamed([delta({ mime_type: 'audio/l16;rate=fast' }), completed()]),
    'invalid_response',
  ],
  [
    'a file among samples',
    'interactions',
    streamed([delta({ mime_type: 'audio/wav' }), completed()]),
    'invalid_response',
  ],
  ['no sound', 'interactions', streamed([begunStep, completed()]), 'invalid_response'],
  ['no JSON', 'interactions', events(['data: hello\n\n']), 'invalid_response'],
  ['a whole answer', 'interactions', json(200, { status: 'completed', steps: [] }), 'truncated'],
  ['nothing at all', 'interactions', json(200, {}), 'truncated'],
  ['a lack of quota', 'interactions', rateLimited(), 'rate_limited'],
  [
    'a request that is wrong',
    'interactions',
    interactionError(400, 'invalid_request', 'The text is empty.'),
    'invalid_request',
  ],
  ['a fault', 'interactions', interactionError(500, 'internal_error', 'Oops'), 'server_error'],
  ['a prompt refused', 'generateContent', sse({ promptFeedback: { blockReason: 'SAFETY' } }), 'content_filter'],
  [
    'speech refused',
    'generateContent',
    sse(generated('audio/L16;rate=24000'), generated('audio/L16', 'SAFETY')),
    'content_filter',
  ],
  ['speech cut short', 'generateContent', sse(generated('audio/L16;rate=24000', 'OTHER')), 'truncated'],
  ['speech beyond its length', 'generateContent', sse(generated('audio/L16;rate=24000', 'MAX_TOKENS')), 'truncated'],
  ['an end without an end', 'generateContent', sse(generated('audio/L16;rate=24000')), 'truncated'],
  [
    'an error on the way',
    'generateContent',
    sse({ error: { code: 503, message: 'The model is overloaded.' } }),
    'overloaded',
  ],
  ['an image', 'generateContent', sse(generated('image/png', 'STOP')), 'invalid_response'],
  ['billing', 'generateContent', geminiError(400, 'FAILED_PRECONDITION', 'Enable billing.'), 'quota'],
]
for (const [what, way, reply, reason] of faults) {
  test.serial(`${reason} when ${way} answers with ${what}`, async t => {
    emulator.next(reply)
    const work = say({ format: 'pcm' }, way).then(output => heard(output, 'pcm'))
    t.is((await providerFault(work)).reason, reason as never)
  })
}

for (const way of ways) {
  test.serial(`given up by ${way}: the provider is not kept speaking`, async t => {
    const first = way === 'interactions' ? delta() : generated('audio/L16;rate=24000')
    const waiting = events([`data: ${JSON.stringify(first)}\n\n`], { end: 'hang' })
    emulator.next(waiting, waiting)
    const left = new AbortController()
    const { sound: first_ } = await made('speech', emulator.url, {
      ...speechCall({ format: 'pcm' }, way),
      signal: left.signal,
    })
    const stream = (first_ as { stream: Bytes }).stream[Symbol.asyncIterator]()
    t.true((await stream.next()).value.length > 0)
    left.abort()
    await emulator.requests[0]!.aborted
    await providerFault(stream.next())
    // The same from a client that stops reading.
    const { sound: second } = await say({ format: 'pcm' }, way)
    for await (const _ of (second as { stream: Bytes }).stream) break
    await emulator.requests[1]!.aborted
    t.pass()
  })
}

test('a header of a wav file states the sizes, or that they are not known', async t => {
  const pcm = await sound('pcm', 0.1)
  const known = Buffer.concat([waveHeader(24_000, pcm.length), pcm])
  t.deepEqual(known, await sound('wav', 0.1))
  const header = waveHeader(8_000, null)
  t.deepEqual([header.readUInt32LE(4), header.readUInt32LE(40)], [0xffff_ffff, 0xffff_ffff])
  t.deepEqual([header.readUInt32LE(24), header.readUInt32LE(28)], [8_000, 16_000])
})
