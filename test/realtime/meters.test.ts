import fc from 'fast-check'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { live as gemini } from '../../shared/providers/adapters/gemini/live.ts'
import { live } from '../../shared/providers/adapters/openai/live.ts'
import { realtime } from '../../shared/providers/adapters/openai/realtime.ts'
import type { Target } from '../../shared/providers/contract.ts'
import type { RealtimeMeter, RealtimeUse, WorkRequest } from '../../shared/providers/realtime-contract.ts'
import { delegatedUsage } from '../emulators/openai-live.ts'
import { usualUsage } from '../emulators/openai-realtime.ts'
import { monotonicAt } from '../support/clocks/monotonic.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { silence } from '../support/realtime/talks.ts'
import { test } from '../support/test.ts'

const catalog = loadCatalog()
const liveModel = catalog.find('gpt-live-1')!
/** A deployment whose name is not the model's. */
const target = {
  model: { ...liveModel, id: 'my-live' },
  deployment: liveModel.providers[0]!,
  provider: catalog.providers.get('openai')!,
} satisfies Target

function read(meter: RealtimeMeter, ...events: unknown[]): RealtimeUse[] {
  return events.flatMap(event => meter.readUsage(Buffer.from(JSON.stringify(event))))
}

/** Whether a use costs anything. */
const isCharged = (use: RealtimeUse) => !('usage' in use) || use.usage.total_tokens > 0

const transcriptionEvent = 'conversation.item.input_audio_transcription'
const created = (id: string) => ({ type: 'response.created', response: { id, status: 'in_progress' } })
const done = (id: string, usage: unknown = usualUsage) => ({ type: 'response.done', response: { id, usage } })
const settings = (transcription: unknown) => ({
  type: 'session.updated',
  session: { type: 'realtime', audio: { input: { transcription } } },
})
const transcribed = (usage: unknown, itemId = 'item_1') => ({
  type: `${transcriptionEvent}.completed`,
  item_id: itemId,
  usage,
})

test('realtime: a response is owed from its beginning to its usage', t => {
  const meter = realtime.meter()
  t.false(meter.hasPendingUsage)
  t.deepEqual(read(meter, created('a'), created('b')), [])
  t.true(meter.hasPendingUsage)
  t.is(read(meter, done('a')).length, 1)
  t.true(meter.hasPendingUsage)
  t.is(read(meter, done('b', null)).length, 0)
  t.false(meter.hasPendingUsage)
  t.is(meter.sessionSeconds, null)
})

test('realtime: a usage is read by class of token, cached images as cached ones', t => {
  const usage = {
    total_tokens: 150,
    input_tokens: 100,
    output_tokens: 50,
    input_token_details: {
      text_tokens: 50,
      audio_tokens: 30,
      image_tokens: 20,
      cached_tokens: 24,
      cached_tokens_details: { text_tokens: 10, audio_tokens: 8, image_tokens: 6 },
    },
    output_token_details: { text_tokens: 20, audio_tokens: 30 },
  }
  t.deepEqual(read(realtime.meter(), done('a', usage)), [
    {
      upstreamModel: null,
      usage: {
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 150,
        prompt_tokens_details: { cached_tokens: 24, audio_tokens: 30, cached_audio_tokens: 8, image_tokens: 14 },
        completion_tokens_details: { audio_tokens: 30 },
      },
    },
  ])
})

test('realtime: a transcription is its own model’s, by tokens or by seconds, and is owed once its sound is committed', t => {
  const meter = realtime.meter()
  const committed = { type: 'input_audio_buffer.committed', item_id: 'item_1' }
  read(meter, committed)
  t.false(meter.hasPendingUsage, 'nothing is written down')
  read(meter, settings({ model: 'whisper-1' }), committed)
  t.true(meter.hasPendingUsage)
  t.deepEqual(read(meter, transcribed({ type: 'duration', seconds: 2.5 })), [
    { upstreamModel: 'whisper-1', seconds: 2.5 },
  ])
  t.false(meter.hasPendingUsage)
  read(meter, committed, { type: `${transcriptionEvent}.failed`, item_id: 'item_1', error: {} })
  t.false(meter.hasPendingUsage)
  read(meter, settings({ model: 'gpt-4o-transcribe' }))
  const [use] = read(meter, transcribed({ type: 'tokens', input_tokens: 25, output_tokens: 7, total_tokens: 32 }))
  t.like(use, { upstreamModel: 'gpt-4o-transcribe', usage: { prompt_tokens: 25, completion_tokens: 7 } })
  const session = { input_audio_transcription: { model: 'whisper-1' } }
  read(meter, { type: 'session.updated', session })
  const beta = transcribed({ type: 'duration', seconds: 1 }, 'item_beta')
  t.like(read(meter, beta), [{ upstreamModel: 'whisper-1' }])
  read(meter, settings({ model: 'gpt-4o-transcribe' }))
  read(meter, settings(null), committed)
  t.false(meter.hasPendingUsage, 'it was switched off')
  const later = transcribed({ type: 'duration', seconds: 1 }, 'item_2')
  t.like(read(meter, later), [{ upstreamModel: 'gpt-4o-transcribe' }])
})

const strange: [what: string, usage: unknown][] = [
  ['no object', 'many'],
  ['a list', [1, 2]],
  ['nothing in it', {}],
  ['negative counts', { input_tokens: -5, output_tokens: -1, total_tokens: -6 }],
  ['texts', { input_tokens: '100', output_tokens: '50', total_tokens: '150' }],
  ['more than any model takes', { input_tokens: 1e15, output_tokens: 1, total_tokens: 1e15 }],
  ['more than a number holds', { input_tokens: 1e308, output_tokens: 1e308, total_tokens: 1e308 }],
  ['a negative length', { type: 'duration', seconds: -1 }],
  ['a length of years', { type: 'duration', seconds: 1e9 }],
  ['a length in words', { type: 'duration', seconds: 'two' }],
]
for (const [what, usage] of strange) {
  test(`realtime: invalid usage reports nothing: ${what}`, t => {
    const meter = realtime.meter()
    read(meter, settings({ model: 'whisper-1' }), created('a'))
    t.deepEqual(read(meter, done('a', usage), transcribed(usage)), [])
    t.false(meter.hasPendingUsage, 'what is done is done')
  })
}

test('realtime: parts above the whole count no more than the whole', t => {
  const usage = {
    input_tokens: 10,
    output_tokens: 5,
    input_token_details: { cached_tokens: 1e308, audio_tokens: 99, image_tokens: 12.5 },
    output_token_details: { audio_tokens: 1e30, reasoning_tokens: -3 },
  }
  t.like(read(realtime.meter(), done('a', usage)), [
    {
      usage: {
        prompt_tokens: 10,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 10, audio_tokens: 10, image_tokens: 10 },
        completion_tokens_details: { audio_tokens: 5 },
      },
    },
  ])
})

test('realtime: a client’s own words in an event hide no usage', t => {
  const response = {
    metadata: { type: 'response.output_audio.delta' },
    output: [{ content: [{ transcript: '{"type":"response.output_audio.delta"' }] }],
    id: 'a',
    usage: usualUsage,
  }
  t.is(read(realtime.meter(), { type: 'response.done', response }).length, 1)
  t.is(read(realtime.meter(), { response, event_id: 'event_1', type: 'response.done' }).length, 1)
  const said = { type: 'response.output_audio_transcript.delta', delta: '{"usage":{"input_tokens":7}}' }
  t.deepEqual(read(realtime.meter(), said), [])
})

const started = { type: 'session.started', session: { id: 'live_1', model: 'gpt-live-1' } }
const lasted = (seconds: unknown) => ({ type: 'session.usage.updated', usage: { seconds } })
const ended = (seconds: unknown) => ({ type: 'session.closed', reason: 'close_requested', usage: { seconds } })

test('realtime: what ends without a usage is left to estimate if something of it was delivered', t => {
  const nothing = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }
  const spoken = (id: string, delta: string) => ({ type: 'response.output_text.delta', response_id: id, delta })
  for (const usage of [null, 'much', nothing]) {
    const meter = realtime.meter()
    read(meter, settings({ model: 'whisper-1' }), created('a'), created('b'))
    t.like(read(meter, spoken('a', 'Forty-two.'), done('a', usage)), [
      { upstreamModel: null, unreported: { output: { textBytes: 10 } } },
    ])
    t.is(send(meter, create())!.work.prompt.textBytes, 10, 'the next prompt has it')
    t.deepEqual(
      read(meter, { ...done('b', usage), response: { id: 'b', status: 'failed', usage } }).filter(isCharged),
      [],
    )
    send(meter, append(2))
    read(meter, { type: 'input_audio_buffer.committed', item_id: 'item_1' })
    t.like(read(meter, { ...transcribed(usage), transcript: 'Good morning.' }), [
      { upstreamModel: 'whisper-1', unreported: { output: { textBytes: 13 } } },
    ])
  }
})

test('realtime: a usage that is reported again is none', t => {
  const meter = realtime.meter()
  t.is(read(meter, created('a'), done('a'), done('a')).length, 1)
  t.is(read(meter, done('never begun'), done('never begun')).length, 1)
  read(meter, settings({ model: 'whisper-1' }), { type: 'input_audio_buffer.committed', item_id: 'item_1' })
  const report = transcribed({ type: 'duration', seconds: 2 })
  t.is(read(meter, report, report).length, 1)
  t.is(read(meter, created('b'), done('b')).length, 1)
})

test('live: a task that ends without a usage is left to estimate if something of it was delivered', t => {
  const meter = live.meter()
  const tell = (event: object) => read(meter, { type: 'response.event', delegation_id: 'dlg_1', event })
  read(meter, started)
  tell({ type: 'response.created', response: { model: 'gpt-5-mini' } })
  tell({ type: 'response.output_text.delta', delta: 'Forty-two.' })
  t.like(tell({ type: 'response.completed', response: { model: 'gpt-5-mini', usage: null } }), [
    { upstreamModel: 'gpt-5-mini', unreported: { output: { textBytes: 10 } } },
  ])
  tell({ type: 'response.created', response: { model: 'gpt-5-mini' } })
  t.deepEqual(tell({ type: 'response.failed', response: { model: 'gpt-5-mini', usage: null } }), [])
})

test('live: the length is the last that was reported, and never falls', t => {
  const meter = live.meter()
  t.true(meter.ownClock)
  t.is(meter.sessionSeconds, 0, 'a session that was not started costs nothing')
  t.false(meter.hasBegun)
  read(meter, started)
  t.true(meter.hasBegun)
  t.is(meter.sessionSeconds, null)
  read(meter, lasted(4))
  t.is(meter.sessionSeconds, 4)
  for (const seconds of [3, -1, '9', null, 1e12, undefined]) {
    read(meter, lasted(seconds))
    t.is(meter.sessionSeconds, 4, String(seconds))
  }
  t.true(meter.hasPendingUsage)
  read(meter, ended(5.25))
  t.is(meter.sessionSeconds, 5.25)
  t.false(meter.hasPendingUsage)
})

test('live: a delegated response is charged to its own model, whether completed, incomplete or failed', t => {
  for (const type of ['response.completed', 'response.incomplete', 'response.failed']) {
    const response = { id: 'resp_1', model: 'gpt-5.1-2025-11-13', usage: delegatedUsage }
    t.deepEqual(read(live.meter(), { type: 'response.event', event: { type, response } }), [
      {
        upstreamModel: 'gpt-5.1-2025-11-13',
        usage: {
          prompt_tokens: 1_200,
          completion_tokens: 340,
          total_tokens: 1_540,
          prompt_tokens_details: { cached_tokens: 1_024, cache_write_tokens: 0, image_tokens: 0 },
          completion_tokens_details: { reasoning_tokens: 256 },
        },
      },
    ])
  }
  const decision = { model: 'gpt-5-mini', usage: delegatedUsage }
  const decided = { type: 'decision.event', event: { type: 'decision.completed', decision } }
  t.like(read(live.meter(), decided), [{ upstreamModel: 'gpt-5-mini' }])
  const unnamed = { type: 'response.event', event: { type: 'response.completed', response: { usage: delegatedUsage } } }
  t.like(read(live.meter(), unnamed), [{ upstreamModel: '' }], 'never the price of the session')
  const begun = { type: 'response.event', event: { type: 'response.in_progress', response: { usage: delegatedUsage } } }
  t.deepEqual(read(live.meter(), begun), [])
})

test('any bytes and any events are read without a throw, and nothing absurd comes of them', t => {
  const names = fc.constantFrom('type', 'usage', 'response', 'session', 'event', 'model', 'seconds', 'input_tokens')
  const texts = fc.constantFrom('response.done', 'response.created', 'session.closed', 'response.event', 'duration')
  const { json } = fc.letrec(tie => ({
    json: fc.oneof(
      { maxDepth: 4 },
      texts,
      fc.double(),
      fc.constant(null),
      fc.array(tie('json'), { maxLength: 3 }),
      fc.dictionary(names, tie('json')),
    ),
  }))
  const bytes = fc.oneof(
    fc.uint8Array().map(array => Buffer.from(array)),
    fc.string().map(text => Buffer.from(`"usage"${text}`)),
    json.map(value => Buffer.from(JSON.stringify(value))),
  )
  fc.assert(
    fc.property(fc.array(bytes, { maxLength: 20 }), frames => {
      for (const meter of [realtime.meter(), live.meter(), gemini.meter()]) {
        for (const frame of frames) meter.countSent(frame, meter.detectRequest(frame), monotonicAt(0))
        for (const use of frames.flatMap(frame => meter.readUsage(frame))) {
          if ('unreported' in use) continue
          const amount = 'seconds' in use ? use.seconds : use.usage.total_tokens
          t.true(amount >= 0 && amount <= 10_000_000)
        }
        t.true((meter.sessionSeconds ?? 0) <= 86_400)
      }
    }),
    { numRuns: fuzzRuns(300) },
  )
  t.pass()
})

const open = (text: string) => live.opening!(Buffer.from(text), target).toString()

test('any value as an id is read without a throw, of an object with a toString of its own as well', t => {
  const ids: unknown[] = [undefined, null, 7, '', [], {}, { toString: 1 }, [{ toString: 1 }]]
  for (const { meter } of [realtime, live, gemini]) {
    const events = ids.flatMap(id => [
      { type: 'response.created', response: { id } },
      { type: 'response.output_text.delta', response_id: id, delta: 'Well.' },
      { type: 'response.done', response: { id, usage: usualUsage } },
      { type: 'input_audio_buffer.committed', item_id: id },
      { type: `${transcriptionEvent}.completed`, item_id: id, transcript: 'Well.' },
      { type: 'response.event', delegation_id: id, event: { type: 'response.created', response: { id } } },
      { type: 'response.event', delegation_id: id, event: { type: 'response.completed', response: { id } } },
    ])
    t.notThrows(() => read(meter(), settings({ model: 'whisper-1' }), ...events))
  }
})

test('opening: the model is put in, and no other byte changes', t => {
  const changed: [sent: string, passed: string][] = [
    ['{"type":"session.start","session":{}}', '{"type":"session.start","session":{"model":"gpt-live-1"}}'],
    ['{"session" : { "voice":"é\\u00e9" } }', '{"session" : {"model":"gpt-live-1", "voice":"é\\u00e9" } }'],
    ['{"session":{"model" : "my-live" }}', '{"session":{"model" : "gpt-live-1" }}'],
    ['{"session":{"model":"OpenAI\\u002fMy-Live"}}', '{"session":{"model":"gpt-live-1"}}'],
    ['{"session":{"model":null,"x":1.10}}', '{"session":{"model":"gpt-live-1","x":1.10}}'],
    [
      '{"model":"a","x":{"session":{"model":"b"}},\n"session":{"delegation":{"responses":{"model":"gpt-5"}},"model":"my-live"}}',
      '{"model":"a","x":{"session":{"model":"b"}},\n"session":{"delegation":{"responses":{"model":"gpt-5"}},"model":"gpt-live-1"}}',
    ],
  ]
  for (const [sent, passed] of changed) t.is(open(sent), passed)
  for (const same of [
    '{"type":"session.start","session":{"model":"gpt-live-1"} }',
    '{"type":"session.close"}',
    '{"session":null}',
    '["session"]',
  ]) {
    const frame = Buffer.from(same)
    t.is(live.opening!(frame, target), frame)
  }
})

test('opening: 403 for another model, 400 for what two parsers may read in two ways', t => {
  for (const model of ['"gpt-live-2"', '"gpt-realtime-2.1"', '7', '{}', '""', '"my-live "']) {
    t.like(
      t.throws(() => open(`{"type":"session.start","session":{"model":${model}}}`)),
      { status: 403, code: 'model_not_allowed', param: 'session.model' },
      model,
    )
  }
  for (const text of [
    '{"session":{"model":"my-live","model":"gpt-live-2"}}',
    '{"session":{"model":"my-live"},"session":{"model":"gpt-live-2"}}',
    '{"session":{"model":"my-live"}',
    '',
  ]) {
    t.like(
      t.throws(() => open(text)),
      { status: 400, code: 'invalid_json' },
      text,
    )
  }
})

/** What a client's frame asks for; it is passed on. */
function send(meter: RealtimeMeter, event: unknown, nowMs = 0): WorkRequest | null {
  const frame = Buffer.from(typeof event === 'string' ? event : JSON.stringify(event))
  const ask = meter.detectRequest(frame)
  meter.countSent(frame, ask, monotonicAt(nowMs))
  return ask
}
const create = (response?: object) => ({ type: 'response.create', ...(response && { response }) })
const append = (seconds: number) => ({ type: 'input_audio_buffer.append', audio: silence(seconds) })

test('realtime: an answer is under way from being asked for to its usage, its refusal, or half a minute', t => {
  const meter = realtime.meter()
  t.true(send(meter, create())!.isCertain)
  t.true(send(meter, '{"type":"respons\\u0065.create"}')!.isCertain, 'also if it is spelt otherwise')
  t.true(meter.hasPendingUsage)
  t.deepEqual(
    meter.pendingWork.map(({ hasBegun }) => hasBegun),
    [false, false],
  )
  read(meter, created('a'))
  t.deepEqual(
    meter.pendingWork.map(({ hasBegun }) => hasBegun),
    [false, true],
  )
  const error = (error: object) => ({ type: 'error', error })
  read(
    meter,
    error({ code: 'invalid_value', param: 'session.voice' }),
    error({ code: 'unknown', param: 'response_id' }),
  )
  t.is(meter.pendingWork.length, 2, 'other errors say nothing of it')
  read(meter, error({ code: 'conversation_already_has_active_response' }))
  t.is(meter.pendingWork.length, 1)
  send(meter, create({ output_modalities: ['x'] }))
  read(meter, error({ code: 'invalid_value', param: 'response.output_modalities' }))
  t.is(meter.pendingWork.length, 1)
  send(meter, create(), 1_000)
  meter.expireRequests(monotonicAt(30_999))
  t.is(meter.pendingWork.length, 2)
  meter.expireRequests(monotonicAt(31_000))
  t.is(meter.pendingWork.length, 1)
  read(meter, done('a'))
  t.deepEqual(meter.pendingWork, [])
})

test('realtime: every answer is dismissed by its id, once, also one that begins afterwards', t => {
  const meter = realtime.meter()
  for (const _ of Array(3)) send(meter, create({ conversation: 'none' }))
  read(meter, created('a'), created('b'))
  const ids = () => meter.finalFrames().map(frame => JSON.parse(frame).response_id)
  t.deepEqual(ids(), ['a', 'b'])
  t.deepEqual(ids(), [])
  read(meter, created('c'))
  t.deepEqual(ids(), ['c'])
})

test('realtime: what passes of an answer is counted: sound by its format, texts by their bytes', t => {
  const meter = realtime.meter()
  const where = (id: string) => ({ response_id: id, output_index: 0 })
  const spoken = (id: string, delta: string) => ({ type: 'response.output_audio.delta', delta, ...where(id) })
  read(meter, created('a'), created('b'), spoken('b', silence(1)))
  read(meter, { type: 'response.output_text.delta', delta: 'Grüße', ...where('a') })
  read(meter, { type: 'response.function_call_arguments.delta', delta: '{"a":1}', ...where('a') })
  const [a, b] = meter.pendingWork
  t.is(a!.output.textBytes, 14)
  t.is(Math.floor(b!.output.audioTokens), 20)
  const session = { audio: { output: { format: { type: 'audio/pcmu' } } } }
  read(meter, { type: 'session.updated', session }, spoken('b', Buffer.alloc(8_000).toString('base64')))
  t.is(Math.floor(b!.output.audioTokens), 40)
})

test('realtime: the prompt is what the last usage told and what was sent since', t => {
  const meter = realtime.meter()
  const manual = { type: 'session.updated', session: { audio: { input: { turn_detection: null } } } }
  read(meter, manual)
  t.is(send(meter, append(10)), null, 'audio requests no reservation where no response follows')
  read(meter, { type: 'input_audio_buffer.committed', item_id: 'item_1' })
  const text = 'x'.repeat(1_000)
  t.is(send(meter, { type: 'conversation.item.create', item: { content: [{ type: 'input_text', text }] } }), null)
  const first = send(meter, create())!.work.prompt
  t.is(Math.floor(first.audioTokens), 100)
  t.true(first.textBytes >= 1_000 && first.textBytes < 1_150)
  read(meter, created('a'))
  const image = { type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(5_000)}` }
  send(meter, { type: 'conversation.item.create', item: { content: [image] } })
  read(meter, done('a'))
  const second = send(meter, create())!.work.prompt
  t.deepEqual([Math.floor(second.audioTokens), second.imageTokens], [104, 5_000], 'the model’s sound and the picture')
  t.is(second.textTokens, 149)
  t.true(second.textBytes < 150, 'what the usage told of is not counted twice')
  read(meter, created('b'), done('b'))
  send(meter, create({ conversation: 'none', input: [] }))
  read(meter, created('c'), done('c', { input_tokens: 1, output_tokens: 1, total_tokens: 2 }))
  const third = send(meter, create())!.work.prompt
  t.true(third.audioTokens >= 104, 'an answer of its own prompt tells nothing of the conversation')
})

test('realtime: sound that a provider may answer by itself counts as the next prompt, silence before it does not', t => {
  const meter = realtime.meter()
  const ask = send(meter, append(60))!
  t.false(ask.isCertain)
  const heard = () => Math.floor(meter.detectRequest(Buffer.from(JSON.stringify(append(1))))!.work.prompt.audioTokens)
  t.is(heard(), 600)
  read(meter, { type: 'input_audio_buffer.speech_started' })
  t.is(heard(), 100)
  const hidden = JSON.stringify({ type: 'input_audio_buffer.append', item: { type: 'message', text: 'x'.repeat(900) } })
  send(meter, hidden)
  t.true(send(meter, create())!.work.prompt.textBytes >= 900, 'text is not taken for sound')
})

test('realtime: a transcription is pending work of its model as soon as sound is appended', t => {
  const meter = realtime.meter()
  read(meter, settings({ model: 'whisper-1' }))
  send(meter, append(5))
  t.like(meter.pendingWork, [{ upstreamModel: 'whisper-1', hasBegun: false }])
  read(meter, { type: 'input_audio_buffer.committed', item_id: 'item_1' })
  t.is(meter.pendingWork.length, 1)
  t.like(meter.pendingWork[0], { upstreamModel: 'whisper-1', hasBegun: true, maxOutputTokens: 50 })
  read(meter, transcribed({ type: 'duration', seconds: 5 }))
  t.deepEqual(meter.pendingWork, [])
})

test('live: a task is under way from its beginning to its end, at its model’s price', t => {
  const meter = live.meter()
  read(meter, { ...started, session: { delegation: { responses: { model: 'gpt-5-mini' } } } }, lasted(60))
  t.is(send(meter, { type: 'session.input_audio.append', audio: silence(1) }), null)
  t.like(send(meter, create()), { isCertain: true, work: { upstreamModel: 'gpt-5-mini' } })
  const tell = (event: object) => read(meter, { type: 'response.event', delegation_id: 'dlg_1', event })
  tell({ type: 'response.created', response: { model: 'gpt-5-mini-2025-08-07' } })
  tell({ type: 'response.output_text.delta', delta: 'Forty-two.' })
  t.is(meter.pendingWork.length, 1)
  t.like(meter.pendingWork[0], { upstreamModel: 'gpt-5-mini-2025-08-07', hasBegun: true, output: { textBytes: 10 } })
  t.true(meter.pendingWork[0]!.prompt.textTokens >= 2_360)
  tell({ type: 'response.completed', response: { model: 'gpt-5-mini', usage: delegatedUsage } })
  t.deepEqual(meter.pendingWork, [])
})

test('gemini: an answer is under way from being asked for to its usage; each that interrupts another counts', t => {
  const meter = gemini.meter()
  t.is(send(meter, { setup: { model: 'models/x' } }), null)
  read(meter, { setupComplete: {} })
  const turn = { clientContent: { turns: [{ parts: [{ text: 'Hello.' }] }], turnComplete: true } }
  for (const event of [
    turn,
    turn,
    { toolResponse: {} },
    { realtimeInput: { text: 'Hi' } },
    { realtimeInput: { activityEnd: {} } },
  ])
    t.true(send(meter, event)!.isCertain, JSON.stringify(event))
  t.is(meter.pendingWork.length, 5)
  const sound = { mimeType: 'audio/pcm;rate=16000', data: Buffer.alloc(32_000).toString('base64') }
  const ask = send(meter, { realtimeInput: { audio: sound } })!
  t.false(ask.isCertain, 'the provider decides')
  t.true(ask.work.prompt.audioTokens >= 25)
  const video = { mimeType: 'image/jpeg', data: 'A'.repeat(9_000) }
  t.is(send(meter, { realtimeInput: { video } })!.work.prompt.imageTokens, 1_290)
  const spoken = { inlineData: { mimeType: 'audio/pcm;rate=24000', data: silence(1) } }
  read(meter, { serverContent: { modelTurn: { parts: [spoken] } } })
  const [answer] = meter.pendingWork.filter(({ hasBegun }) => hasBegun)
  t.is(Math.floor(answer!.output.audioTokens), 25)
  t.is(meter.pendingWork.length, 5)
  read(meter, { serverContent: { turnComplete: true }, usageMetadata: { promptTokenCount: 9, responseTokenCount: 25 } })
  t.is(meter.pendingWork.length, 4)
})

test('realtime and gemini: base64 that an encoder wrote with escapes is sound all the same', t => {
  for (const escaped of ['\\u002B', '\\/', '\\u002f', '\\u003D']) {
    const audio = `${'A'.repeat(3_200)}${escaped}`
    const meter = realtime.meter()
    t.is(send(meter, `{"type":"input_audio_buffer.append","audio":"${audio}"}`)!.isCertain, false, escaped)
    const { prompt } = send(meter, create())!.work
    t.deepEqual([Math.floor(prompt.audioTokens), prompt.textBytes < 100], [0, true])
    const other = gemini.meter()
    read(other, { setupComplete: {} })
    const ask = send(other, `{"realtimeInput":{"audio":{"mimeType":"audio\\/pcm","data":"${audio}"}}}`)!
    t.deepEqual([ask.isCertain, ask.work.prompt.textBytes < 100], [false, true], escaped)
  }
})
