import test from 'ava'
import fc from 'fast-check'
import { loadCatalog } from '../shared/catalog/catalog.ts'
import type { Target } from '../shared/providers/contract.ts'
import { live } from '../shared/providers/openai/live.ts'
import { realtime } from '../shared/providers/openai/realtime.ts'
import type { RealtimeMeter, RealtimeUse } from '../shared/providers/realtime-contract.ts'
import { delegatedUsage } from './emulators/openai-live.ts'
import { usualUsage } from './emulators/openai-realtime.ts'

const catalog = loadCatalog()
const liveModel = catalog.find('gpt-live-1')!
/** A deployment whose name is not the model's. */
const target = {
  model: { ...liveModel, id: 'my-live' },
  deployment: liveModel.providers[0]!,
  provider: catalog.providers.get('openai')!,
} satisfies Target

function read(meter: RealtimeMeter, ...events: unknown[]): RealtimeUse[] {
  return events.flatMap(event => meter.read(Buffer.from(JSON.stringify(event))))
}

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
  t.false(meter.owing)
  t.deepEqual(read(meter, created('a'), created('b')), [])
  t.true(meter.owing)
  t.is(read(meter, done('a')).length, 1)
  t.true(meter.owing)
  t.is(read(meter, done('b', null)).length, 0)
  t.false(meter.owing)
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
  t.false(meter.owing, 'nothing is written down')
  read(meter, settings({ model: 'whisper-1' }), committed)
  t.true(meter.owing)
  t.deepEqual(read(meter, transcribed({ type: 'duration', seconds: 2.5 })), [
    { upstreamModel: 'whisper-1', seconds: 2.5 },
  ])
  t.false(meter.owing)
  read(meter, committed, { type: `${transcriptionEvent}.failed`, item_id: 'item_1', error: {} })
  t.false(meter.owing)
  read(meter, settings({ model: 'gpt-4o-transcribe' }))
  const [use] = read(meter, transcribed({ type: 'tokens', input_tokens: 25, output_tokens: 7, total_tokens: 32 }))
  t.like(use, { upstreamModel: 'gpt-4o-transcribe', usage: { prompt_tokens: 25, completion_tokens: 7 } })
  read(meter, settings(null), committed)
  t.false(meter.owing, 'it was switched off')
  t.like(read(meter, transcribed({ type: 'duration', seconds: 1 })), [{ upstreamModel: 'gpt-4o-transcribe' }])
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
  test(`realtime: a usage that is none reports nothing: ${what}`, t => {
    const meter = realtime.meter()
    read(meter, settings({ model: 'whisper-1' }), created('a'))
    t.deepEqual(read(meter, done('a', usage), transcribed(usage)), [])
    t.false(meter.owing, 'what is done is done')
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

test('live: the length is the last that was told, and never falls', t => {
  const meter = live.meter()
  t.true(meter.ownClock)
  t.is(meter.sessionSeconds, 0, 'a session that was not started costs nothing')
  t.false(meter.begun)
  read(meter, started)
  t.true(meter.begun)
  t.is(meter.sessionSeconds, null)
  read(meter, lasted(4))
  t.is(meter.sessionSeconds, 4)
  for (const seconds of [3, -1, '9', null, 1e12, undefined]) {
    read(meter, lasted(seconds))
    t.is(meter.sessionSeconds, 4, String(seconds))
  }
  t.true(meter.owing)
  read(meter, ended(5.25))
  t.is(meter.sessionSeconds, 5.25)
  t.false(meter.owing)
})

test('live: what is delegated is the other model’s use, however it ends', t => {
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
      for (const meter of [realtime.meter(), live.meter()]) {
        for (const use of frames.flatMap(frame => meter.read(frame))) {
          const amount = 'seconds' in use ? use.seconds : use.usage.total_tokens
          t.true(amount >= 0 && amount <= 10_000_000)
        }
        t.true((meter.sessionSeconds ?? 0) <= 86_400)
      }
    }),
    { numRuns: 300 },
  )
  t.pass()
})

const open = (text: string) => live.opening!(Buffer.from(text), target).toString()

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
