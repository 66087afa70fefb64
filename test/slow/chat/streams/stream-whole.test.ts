import type { Usage } from '../../../../shared/base/usage.ts'
import { dripped, type Framing, framed, type Reply } from '../../../emulators/emulator.ts'
import { piece } from '../../../emulators/gemini.ts'
import { chatChunk } from '../../../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../../../support/chat/gateway.ts'
import {
  answers,
  contentOf,
  counts,
  type Dialect,
  finishesOf,
  geminiCounts,
  models,
  type Payloads,
  readStream,
  streaming,
} from '../../../support/chat/streams.ts'
import type { Account } from '../../../support/gateway.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'

const world = use(test, startWorld)

const texts = ['Grüße', ', 🚀 日本', ' "quoted" \\ [DONE]', '\r\n\n"error": \u2028data: x']
const content = texts.join('')
const dialects = Object.keys(answers) as Dialect[]

/** What the client must get: by default the texts, finished by `stop`, with the provider's count. `null` = counted by us. */
type Expected = { content?: string; usage?: Usage | null; finish?: string }

/** Streams this reply and checks what the client gets and pays; the usage comes in a chunk of its own where asked for. */
async function check(
  t: ExecutionContext,
  dialect: Dialect,
  reply: Reply,
  expected: Expected = {},
  includeUsage = false,
) {
  world[dialect].next(reply)
  const account = await world.gateway.account()
  const options = { stream_options: { include_usage: includeUsage } }
  const { text, headers, chunks, error } = await readStream(world, account.live, dialect, options)
  t.is(error, null)
  t.is(headers.get('x-gateway-provider'), dialect)
  t.is(contentOf(chunks), expected.content ?? content)
  t.deepEqual(finishesOf(chunks), [expected.finish ?? 'stop'])
  t.true(text.endsWith('\n\ndata: [DONE]\n\n'))
  t.is(chunks.filter(({ usage }) => usage).length, 1)
  t.is(chunks.filter(({ choices }) => choices.length === 0).length, includeUsage ? 1 : 0)
  const usage = chunks.at(-1)!.usage!
  await checkMoney(t, account, dialect, usage, expected.usage, headers.get('x-generation-id')!)
}

/** Usage details name every count, those that the provider left out as well. */
function withWholeDetails(usage: Usage): Usage {
  return {
    ...usage,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0, ...usage.prompt_tokens_details },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, ...usage.completion_tokens_details },
  }
}

async function checkMoney(
  t: ExecutionContext,
  account: Account,
  dialect: Dialect,
  usage: Usage,
  expected: Usage | null = counts,
  id: string,
) {
  const { cost, estimated, ...tokens } = usage
  if (expected) t.deepEqual(tokens, withWholeDetails(expected))
  else
    t.true(
      usage.prompt_tokens > 3 && usage.completion_tokens > 0 && usage.completion_tokens < 60,
      JSON.stringify(usage),
    )
  t.is(estimated, expected ? undefined : true)
  const nano = expectedNano(models[dialect], usage)
  t.is(cost, nano / 1e9)
  t.is(await chargedNano(world, account), nano)
  t.like(await generationOf(world, id), { estimated: !expected, status: 200, finishReason: 'stop' })
}

const framings: [title: string, framing: Framing][] = [
  ['CRLF line ends', { eol: '\r\n' }],
  ['lone CR line ends', { eol: '\r' }],
  ['a byte-order mark', { mark: true }],
  ['comments and blank lines', { before: [': PROCESSING', '', '', ':'] }],
  ['names, ids and retry times', { before: ['event: message', 'id: 7', 'retry: 10'] }],
  ['several data lines per event', { spread: true }],
  ['several data lines per event, CRLF, no space', { spread: true, tight: true, eol: '\r\n' }],
  ['the last blank line missing', { unended: true }],
]
for (const dialect of dialects) {
  const whole = answers[dialect](texts)
  for (const [title, framing] of framings) {
    test.serial(`200, ${dialect}: ${title}`, t => check(t, dialect, dripped(framed(whole, framing), 1_000)))
    test.serial(`200, ${dialect}: ${title}, every byte a packet`, t =>
      check(t, dialect, dripped(framed(whole, framing), 1)),
    )
  }
  test.serial(`200, ${dialect}: 1,000 events in one packet`, t => {
    const many = Array.from({ length: 1_000 }, (_, index) => `${index} `)
    return check(t, dialect, streaming(answers[dialect](many)), { content: many.join('') }, true)
  })
  test.serial(`200, ${dialect}: 5 MB in one event`, t => {
    const giant = '🚀 x'.repeat(700_000)
    return check(t, dialect, streaming(answers[dialect]([giant, '.'])), { content: `${giant}.` })
  })
}

const opening = chatChunk({ role: 'assistant', content: '' })
const pieces = texts.map(one => chatChunk({ content: one }))
const [stop, counted] = [chatChunk({}, 'stop'), { ...chatChunk({}), choices: [], usage: counts }]
const nothingYet = { prompt_tokens: 1_000, completion_tokens: 0, total_tokens: 1_000 }
const growing = pieces.map((one, index) => ({ ...one, usage: { ...nothingYet, completion_tokens: index + 1 } }))
const { choices: _choices, ...bare } = chatChunk({}) as Record<string, unknown>
const filterResults = { prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] }
const verdict = { ...bare, choices: [{ index: 0, finish_reason: null, content_filter_offsets: { end_offset: 4 } }] }

const openai: [title: string, payloads: Payloads, expected?: Expected][] = [
  ['no usage', [opening, ...pieces, stop, '[DONE]'], { usage: null }],
  ['usage on every chunk, growing', [opening, ...growing, { ...stop, usage: counts }, '[DONE]']],
  [
    'usage on every text, growing',
    [opening, ...growing.slice(0, -1), { ...pieces.at(-1), usage: counts }, stop, '[DONE]'],
  ],
  ['usage with the finish', [opening, ...pieces, { ...stop, usage: counts }, '[DONE]']],
  ['usage before the finish, without choices', [opening, ...pieces, counted, stop, '[DONE]']],
  [
    'usage after the finish, with a choice',
    [opening, ...pieces, stop, chatChunk({}, null, { usage: counts }), '[DONE]'],
  ],
  ['usage twice', [opening, ...pieces, { ...stop, usage: { ...counts, completion_tokens: 3 } }, counted, '[DONE]']],
  ['usage before the text only', [{ ...opening, usage: nothingYet }, ...pieces, stop, '[DONE]'], { usage: null }],
  ['usage that counts no text', [opening, ...pieces, { ...stop, usage: nothingYet }, '[DONE]'], { usage: null }],
  ['usage that is none', [{ ...opening, usage: {} }, ...pieces, { ...stop, usage: {} }, '[DONE]'], { usage: null }],
  ['no [DONE]', [opening, ...pieces, stop, counted]],
  ['data after [DONE]', [opening, ...pieces, stop, counted, '[DONE]', chatChunk({ content: 'more' }), '<html>']],
  ['two [DONE]', [opening, ...pieces, stop, counted, '[DONE]', '[DONE]']],
  ['the finish twice', [opening, ...pieces, stop, stop, counted, '[DONE]']],
  ['the finish again with the usage', [opening, ...pieces, stop, { ...stop, usage: counts }, '[DONE]']],
  [
    'the finish with the last text',
    [opening, ...pieces.slice(0, -1), chatChunk({ content: texts.at(-1) }, 'stop'), counted],
  ],
  [
    'text after its finish',
    [opening, ...pieces.slice(0, 2), chatChunk({ content: texts[2] }, 'stop'), pieces[3]!, counted],
  ],
  ['the finish without a delta', [opening, ...pieces, { ...bare, choices: [{ finish_reason: 'stop' }] }, counted]],
  ['an empty finish reason', [opening, ...texts.map(one => chatChunk({ content: one }, '')), stop, counted]],
  ['[DONE] without a finish', [opening, ...pieces, counted, '[DONE]']],
  ['no role', [...pieces, stop, counted, '[DONE]']],
  [
    'choices without an index',
    [opening, ...texts.map(one => ({ ...bare, choices: [{ delta: { content: one } }] })), stop, counted],
  ],
  [
    'a first chunk with the filter’s results',
    [{ ...bare, ...filterResults, id: '', choices: [] }, opening, ...pieces, stop, counted],
  ],
  ['a filter’s verdict without a delta', [opening, ...pieces, verdict, stop, counted]],
  [
    'chunks whose choices are null',
    [{ ...bare, choices: null }, opening, { ...bare, choices: null }, ...pieces, stop, counted],
  ],
  ['chunks without choices', [bare, opening, bare, ...pieces, stop, counted, '[DONE]']],
  [
    'pings',
    [{ type: 'ping' }, opening, { type: 'ping' }, ...pieces, { object: 'vendor.ping' }, stop, counted, '[DONE]'],
  ],
  ['empty data', ['', opening, '', ...pieces, '', stop, counted, '', '[DONE]']],
]
for (const [index, [title, payloads, expected]] of openai.entries()) {
  test.serial(`200, openai: ${title}`, t => check(t, 'openai', streaming(payloads), expected, index % 2 === 0))
}

type Event = Record<string, object>
const message = answers.anthropic(texts) as Event[]
/** The message with these events changed, by type. */
const changed = (change: (type: string, event: Event) => object[]): Payloads =>
  message.flatMap(event => change(String(event.type), event))
const [delta, end] = message.slice(-2) as [Event, Event]
const startingWith = (usage?: object) => ({ type: 'message_start', message: { ...message[0]!.message, usage } })

const anthropic: [title: string, payloads: Payloads, expected?: Expected][] = [
  ['no usage', [startingWith(), ...message.slice(1, -2), { ...delta, usage: null }, end], { usage: null }],
  ['usage at the start only', [...message.slice(0, -2), { ...delta, usage: undefined }, end], { usage: null }],
  [
    'usage at the end only',
    [startingWith(), ...message.slice(1, -2), { ...delta, usage: { input_tokens: 1_000, output_tokens: 10 } }, end],
  ],
  ['usage on every event', changed((_type, event) => [{ usage: { output_tokens: 1 }, ...event }])],
  [
    'usage twice',
    changed((type, event) => (type === 'message_delta' ? [{ ...event, usage: { output_tokens: 3 } }, event] : [event])),
  ],
  ['no message_stop', message.slice(0, -1)],
  ['data after message_stop', [...message, ...message, '<html>']],
  [
    'unknown events and deltas',
    changed((_type, event) => [
      { type: 'news' },
      event,
      { type: 'content_block_delta', index: 9, delta: { type: 'news' } },
    ]),
  ],
  ['pings and empty data', changed((_type, event) => [{ type: 'ping' }, event]).flatMap(one => ['', one])],
]
for (const [index, [title, payloads, expected]] of anthropic.entries()) {
  test.serial(`200, anthropic: ${title}`, t => check(t, 'anthropic', streaming(payloads), expected, index % 2 === 0))
}

const metadata = { usageMetadata: geminiCounts }
const parts = texts.map(text => piece(text))
const growingParts = texts.map((text, index) =>
  piece(text, undefined, { usageMetadata: { ...geminiCounts, candidatesTokenCount: index + 1 } }),
)
const { promptTokenCount, totalTokenCount } = geminiCounts
const gemini: [title: string, payloads: Payloads, expected?: Expected][] = [
  ['no usage', [...parts, piece(null, 'STOP')], { usage: null }],
  ['usage on every event, growing', [...growingParts, piece(null, 'STOP', metadata)]],
  ['usage with the finish', [...parts, piece(null, 'STOP', metadata)]],
  [
    'usage with the last text, before the finish',
    [...parts.slice(0, -1), piece(texts.at(-1)!, undefined, metadata), piece(null, 'STOP')],
  ],
  ['usage after the finish', [...parts, piece(null, 'STOP'), metadata]],
  [
    'usage after the finish, with an empty candidate',
    [...parts, piece(null, 'STOP'), piece(null, undefined, metadata)],
  ],
  [
    'usage twice',
    [...parts, piece(null, 'STOP', { usageMetadata: { ...geminiCounts, candidatesTokenCount: 3 } }), metadata],
  ],
  ['usage before the text only', [piece('', undefined, metadata), ...parts, piece(null, 'STOP')], { usage: null }],
  [
    'usage that counts no text',
    [...parts, piece(null, 'STOP', { usageMetadata: { promptTokenCount } })],
    { usage: null },
  ],
  [
    'usage that counts the text in its total only',
    [...parts, piece(null, 'STOP', { usageMetadata: { promptTokenCount, totalTokenCount } })],
  ],
  ['the finish twice', [...parts, piece(null, 'STOP'), piece(null, 'STOP', metadata)]],
  [
    'empty candidates',
    [{ candidates: [], responseId: 'r' }, ...parts, { candidates: [] }, piece(null, 'STOP', metadata)],
  ],
]
for (const [index, [title, payloads, expected]] of gemini.entries()) {
  test.serial(`200, gemini: ${title}`, t => check(t, 'gemini', streaming(payloads), expected, index % 2 === 0))
}

for (const dialect of ['openai', 'anthropic'] as const) {
  test.serial(`200, ${dialect}: whole, though the connection stays open after the terminator`, t =>
    check(t, dialect, streaming(answers[dialect](texts), 'hang')),
  )
}

test.serial('200, openai: a called tool without a finish reason is meant to be run', async t => {
  const call = { index: 0, id: 'call_a1', type: 'function', function: { name: 'w', arguments: '{}' } }
  world.openai.next(streaming([opening, chatChunk({ tool_calls: [call] }), '[DONE]']))
  const { live } = await world.gateway.account()
  const { chunks } = await readStream(world, live, 'openai')
  t.deepEqual(finishesOf(chunks), ['tool_calls'])
})

test.serial('200, openai: each of two choices finishes once, whatever the server repeats', async t => {
  const of = (index: number, chunk: object) => ({
    ...chunk,
    choices: [{ ...(chunk as { choices: object[] }).choices[0], index }],
  })
  const two = [0, 1].flatMap(index => [of(index, opening), of(index, chatChunk({ content: String(index) }))])
  world.openai.next(streaming([...two, of(0, stop), of(1, stop), of(0, stop), of(1, stop), counted, '[DONE]']))
  const { live } = await world.gateway.account()
  const { chunks } = await readStream(world, live, 'openai', { n: 2 })
  t.deepEqual(
    chunks.flatMap(({ choices }) => choices.flatMap(one => (one.finish_reason ? one.index : []))),
    [0, 1],
  )
})

test.serial('200, openai: reasoning has one name in whole answers and in all chunks of a stream', async t => {
  const thoughts = ['Hm', ', ', 'so.'].map(reasoning => chatChunk({ reasoning, content: '' }))
  world.openai.next(streaming([opening, ...thoughts, ...pieces, stop, counted, '[DONE]']))
  const { live } = await world.gateway.account()
  const { text } = await readStream(world, live, 'openai')
  const deltas = dataOf(text)
    .slice(0, -1)
    .flatMap(({ choices }) => choices.map(({ delta }: { delta: object }) => delta))
  t.is(deltas.map(({ reasoning_content }) => reasoning_content ?? '').join(''), 'Hm, so.')
  t.true(deltas.every(one => !('reasoning' in one)))
})
