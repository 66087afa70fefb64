import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { live as gemini } from '../../../shared/providers/adapters/gemini/live.ts'
import { live } from '../../../shared/providers/adapters/openai/live.ts'
import { realtime } from '../../../shared/providers/adapters/openai/realtime.ts'
import type { RealtimeMeter } from '../../../shared/providers/realtime-contract.ts'
import { readFrame, textBytes } from '../../../shared/providers/toolkit/read-frame.ts'
import { delegatedUsage } from '../../emulators/openai-live.ts'
import { usualUsage } from '../../emulators/openai-realtime.ts'
import { monotonicAt } from '../../support/clocks/monotonic.ts'
import { respell, type Spelling, spellings } from '../../support/realtime/spellings.ts'
import { silence } from '../../support/realtime/talks.ts'
import { test } from '../../support/test.ts'

/** A frame of the client's or of the provider's. */
type Step = { client: object } | { provider: object }

const client = (event: object): Step => ({ client: event })
const provider = (event: object): Step => ({ provider: event })
const where = { response_id: 'resp_1', item_id: 'item_1', output_index: 0, content_index: 0 }
const audio = (format: string) => ({ input: { format: { type: format }, transcription: { model: 'whisper-1' } } })
const message = (...content: object[]) => ({ item: { type: 'message', role: 'user', content } })
const image = { type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(5_000)}` }
const begun = { id: 'resp_1', status: 'in_progress', output_modalities: ['audio'], max_output_tokens: 4_096 }
const transcription = 'conversation.item.input_audio_transcription'

/** Sessions of each protocol, with its events in the order of their documentation; `sound` is a piece of the model's. */
const sessions: Record<string, { meter: () => RealtimeMeter; steps: Step[] }> = {
  'OpenAI Realtime': {
    meter: () => realtime.meter(),
    steps: [
      provider({
        type: 'session.created',
        event_id: 'event_1',
        session: { type: 'realtime', audio: audio('audio/pcm') },
      }),
      client({ type: 'input_audio_buffer.append', audio: silence(2), event_id: 'a\n"1"' }),
      provider({ type: 'input_audio_buffer.speech_started', event_id: 'event_2', item_id: 'item_0' }),
      provider({ type: 'input_audio_buffer.committed', event_id: 'event_3', item_id: 'item_0' }),
      provider({ type: `${transcription}.delta`, item_id: 'item_0', delta: 'Grüß Gott.' }),
      provider({ type: `${transcription}.completed`, item_id: 'item_0', usage: { type: 'duration', seconds: 2 } }),
      client({
        type: 'conversation.item.create',
        ...message({ type: 'input_text', text: 'What is "this"?\n' }, image),
      }),
      client({ type: 'response.create', response: { instructions: 'Be brief.', input: [{ type: 'item_reference' }] } }),
      provider({ type: 'response.created', event_id: 'event_4', response: begun }),
      provider({ type: 'response.output_audio.delta', event_id: 'event_5', ...where, delta: silence(1) }),
      provider({ type: 'response.output_audio.delta', event_id: 'event_6', ...where, delta: 'AAA+/w==' }),
      provider({ type: 'response.output_audio_transcript.delta', ...where, delta: 'Grüße, "Ada"' }),
      provider({ type: 'response.output_text.delta', ...where, delta: 'x'.repeat(2_000) }),
      provider({ type: 'error', error: { code: 'invalid_value', param: 'response.voice' } }),
      provider({ type: 'response.done', event_id: 'event_7', response: { ...begun, usage: usualUsage } }),
    ],
  },
  'OpenAI Live': {
    meter: () => live.meter(),
    steps: [
      client({ type: 'session.start', session: { model: 'gpt-live-1', instructions: 'Be brief.' } }),
      provider({
        type: 'session.started',
        session: { delegation: { responses: { model: 'gpt-5-mini' }, decisions: { model: 'gpt-5-nano' } } },
      }),
      client({ type: 'session.input_audio.append', event_id: 'a', audio: silence(1) }),
      provider({ type: 'session.output_audio.delta', event_id: 'b', delta: silence(1) }),
      provider({ type: 'session.usage.updated', usage: { seconds: 3.5 } }),
      client({ type: 'response.item.create', ...message({ type: 'input_text', text: 'Hello' }, image) }),
      client({ type: 'response.create' }),
      client({ type: 'decision.create' }),
      provider({
        type: 'response.event',
        delegation_id: 'dlg_1',
        event: { type: 'response.created', response: { model: 'gpt-5-mini' } },
      }),
      provider({
        type: 'response.event',
        delegation_id: 'dlg_1',
        event: { type: 'response.output_text.delta', delta: 'Forty-two.' },
      }),
      provider({
        type: 'response.event',
        delegation_id: 'dlg_1',
        event: { type: 'response.completed', response: { model: 'gpt-5-mini', usage: delegatedUsage } },
      }),
      provider({
        type: 'decision.event',
        delegation_id: null,
        trigger_id: null,
        event: { type: 'decision.completed', decision: { model: 'gpt-5-nano', usage: delegatedUsage } },
      }),
      provider({ type: 'session.closed', reason: 'close_requested', usage: { seconds: 4 } }),
    ],
  },
  'Gemini Live': {
    meter: () => gemini.meter(),
    steps: [
      client({ setup: { model: 'models/x', systemInstruction: { parts: [{ text: 'Be brief.' }] } } }),
      provider({ setupComplete: {} }),
      client({ realtimeInput: { audio: { mimeType: 'audio/pcm;rate=16000', data: silence(1) } } }),
      client({ realtime_input: { media_chunks: [{ mime_type: 'image/jpeg', data: 'A'.repeat(2_000) }] } }),
      client({ realtimeInput: { audioStreamEnd: true, text: 'Hi' } }),
      client({ clientContent: { turns: [{ role: 'user', parts: [{ text: 'Grüße' }] }], turnComplete: true } }),
      provider({
        serverContent: {
          modelTurn: { parts: [{ inlineData: { mimeType: 'audio/pcm;rate=24000', data: silence(1) } }] },
        },
      }),
      provider({ serverContent: { outputTranscription: { text: 'turnComplete' } } }),
      provider({ toolCall: { functionCalls: [{ id: '1', name: 'f', args: { data: 'modelTurn' } }] } }),
      client({ toolResponse: { functionResponses: [{ id: '1', name: 'f', response: { data: 'x'.repeat(3_000) } }] } }),
      provider({
        serverContent: { turnComplete: true },
        usageMetadata: { promptTokenCount: 9, responseTokenCount: 25, totalTokenCount: 34 },
      }),
    ],
  },
}

/** What a meter says of a session after each of its frames. */
function metered(session: { meter: () => RealtimeMeter; steps: Step[] }, spell: (event: object, at: number) => string) {
  const meter = session.meter()
  return session.steps.map((step, at) => {
    const frame = Buffer.from(spell('client' in step ? step.client : step.provider, at))
    let uses: unknown = null
    if ('client' in step) {
      const ask = meter.detectRequest(frame)
      uses = structuredClone(ask)
      meter.countSent(frame, ask, monotonicAt(0))
    } else uses = meter.readUsage(frame)
    const { pendingWork, hasPendingUsage, hasBegun, sessionSeconds } = meter
    return structuredClone({ uses, pendingWork, hasPendingUsage, hasBegun, sessionSeconds })
  })
}

for (const [protocol, session] of Object.entries(sessions)) {
  test(`${protocol}: equal figures, in whatever order, with whatever spaces and escapes the members of frames are`, t => {
    const usual = metered(session, event => JSON.stringify(event))
    fc.assert(
      fc.property(fc.array(spellings, { minLength: session.steps.length, maxLength: session.steps.length }), all => {
        t.deepEqual(
          metered(session, (event, at) => respell(event, all[at]!)),
          usual,
        )
      }),
      { numRuns: 100 },
    )
  })

  test(`${protocol}: of a member that a provider repeats, the last counts`, t => {
    const usual = metered(session, event => JSON.stringify(event))
    const repeated = metered({ ...session, steps: session.steps }, (event, at) => {
      const text = JSON.stringify(event)
      if ('client' in session.steps[at]!) return text
      return text.replace(
        '{',
        `{${Object.keys(event)
          .map(name => `${JSON.stringify(name)}:"x",`)
          .join('')}`,
      )
    })
    t.deepEqual(repeated, usual)
  })
}

const plain: Spelling = { seed: 0, pad: '', escapes: false }

test('a frame is read as JSON.parse reads it, apart from the longest texts, whose size it has', t => {
  const { value } = fc.letrec(tie => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false, 0, -0.5, 12, 1e21, 123_456_789_012_345_680, '__proto__', 'é🎤\u0000\\"'),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.string({ unit: 'binary' }),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.oneof(fc.constantFrom('type', '__proto__', 'toString', ''), fc.string()), tie('value')),
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(fc.string(), value), spellings, (json, spelling) => {
      const text = respell(json, spelling)
      const expected = JSON.parse(respell(json, { ...spelling, escapes: false }))
      t.true(isDeepStrictEqual(readFrame(Buffer.from(text))?.event, expected), text)
    }),
    { numRuns: 300 },
  )
  for (const long of ['x'.repeat(3_000), 'é🎤\n"'.repeat(900)])
    for (const escapes of [false, true]) {
      const { event } = readFrame(Buffer.from(respell({ long }, { ...plain, escapes })))!
      t.is(textBytes(event.long), Buffer.byteLength(long))
    }
})

test('what is no JSON object, or has more values than may be read, is not read', t => {
  for (const text of [
    '',
    '[]',
    '1',
    '"a"',
    '{',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{"a":1}x',
    '{"a":[1,]}',
    '{a:1}',
    '{"a":tru}',
    '{"a":01}',
    '{"a":"\\x"}',
    '{"a":"',
    `${'{"a":'.repeat(200)}1${'}'.repeat(200)}`,
  ])
    t.is(readFrame(Buffer.from(text)), null, text.slice(0, 40))
  const list = Buffer.from(JSON.stringify({ list: Array(100).fill(1) }))
  t.is(readFrame(list, 100), null)
  t.not(readFrame(list, 101), null)
  t.true(readFrame(Buffer.from('{"a":1,"b":{"c":1,"\\u0063":2}}'))!.hasDuplicates)
})

const send = (meter: RealtimeMeter, frame: string) => {
  const ask = meter.detectRequest(Buffer.from(frame))
  meter.countSent(Buffer.from(frame), ask, monotonicAt(0))
  return ask
}

test('a frame that parsers may read in two ways counts as all that it may be', t => {
  const long = 'x'.repeat(2_000)
  for (const frame of [
    `{"type":"input_audio_buffer.append","type":"response.create","response":{"instructions":"${long}"}}`,
    `{"type":"response.create","type":"input_audio_buffer.append","response":{"instructions":"${long}"}}`,
    `{"Type":"response.create","response":{"instructions":"${long}"}}`,
    `{"type":"respons\\u0065.create","x":NaN,"response":{"instructions":"${long}"}}`,
  ]) {
    const ask = send(realtime.meter(), frame)
    t.true(ask?.isCertain, frame)
    t.true(ask!.work.prompt.textBytes >= 2_000, frame)
  }
  const heard = realtime.meter()
  const sound = send(heard, `{"type":"x","type":"input_audio_buffer.append","audio":"${silence(10)}"}`)
  t.false(sound!.isCertain)
  t.true(send(heard, '{"type":"response.create"}')!.work.prompt.audioTokens >= 100)
})

test('gemini: a request is one in either spelling of its names, also beside the other', t => {
  const meter = gemini.meter()
  send(meter, '{"setup":{"session_resumption":{},"sessionResumption":{"handle":"earlier"}}}')
  meter.readUsage(Buffer.from('{"setupComplete":{}}'))
  for (const frame of [
    '{"client_content":{},"clientContent":{"turnComplete":true}}',
    '{"clientContent":{},"client_content":{"turn_complete":true,"turnComplete":false}}',
    '{"realtime_input":{"audio":{"mime_type":"audio/pcm","data":"AAAA"},"text":"Hi"}}',
    '{"realtimeInput":{"activity_end":{}},"realtime_input":{}}',
    '{"tool_response":{}}',
  ]) {
    const ask = send(meter, frame)!
    t.true(ask.isCertain, frame)
    t.true(ask.work.prompt.audioTokens >= 10_000_000, 'the earlier conversation counts')
  }
  t.false(
    send(meter, '{"clientContent":{"turns":[{"parts":[{"text":"turnComplete"}]}],"turnComplete":false}}')!.isCertain,
  )
})

test('text is not taken for sound, nor sound for text, whatever words are beside them', t => {
  const long = 'x'.repeat(2_000)
  const hidden = {
    type: 'response.item.create',
    note: 'session.input_audio.append',
    ...message({ type: 'input_text', text: long }),
  }
  const meter = live.meter()
  send(meter, JSON.stringify(hidden))
  t.true(send(meter, '{"type":"response.create"}')!.work.prompt.textBytes >= 2_000)
  const decided = live.meter()
  decided.readUsage(
    Buffer.from(
      JSON.stringify({
        type: 'session.started',
        session: { delegation: { responses: { model: 'dear' }, decisions: { model: 'cheap' } } },
      }),
    ),
  )
  t.is(send(decided, '{"type":"response.create","note":"decision.create"}')!.work.upstreamModel, 'dear')
  t.is(send(decided, '{"type":"decision\\u002ecreate"}')!.work.upstreamModel, 'cheap')

  const google = gemini.meter()
  google.readUsage(Buffer.from('{"setupComplete":{}}'))
  const answer = { functionResponses: [{ response: { data: long, mimeType: 'audio/pcm' } }] }
  const ask = send(google, JSON.stringify({ toolResponse: answer }))!
  t.true(ask.isCertain && ask.work.prompt.textBytes >= 2_000)
  const called = { functionCalls: [{ name: 'f', args: { data: long } }] }
  google.readUsage(Buffer.from(JSON.stringify({ toolCall: called })))
  t.true(google.pendingWork.find(({ hasBegun }) => hasBegun)!.output.textBytes >= 2_000)

  for (const type of ['response.output_audio.delta', 'response.audio.delta']) {
    const spoken = realtime.meter()
    spoken.readUsage(Buffer.from('{"response":{"id":"resp_1"},"type":"response.created"}'))
    spoken.readUsage(Buffer.from(JSON.stringify({ event_id: 'e', ...where, delta: silence(1), type })))
    t.deepEqual(spoken.pendingWork[0]!.output, { textTokens: 0, audioTokens: 20, imageTokens: 0, textBytes: 0 }, type)
  }
})
