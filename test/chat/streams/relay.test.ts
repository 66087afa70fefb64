import fc from 'fast-check'
import { GatewayError } from '../../../shared/base/errors.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { relayFor } from '../../../shared/chat/choices-relay.ts'
import type { StreamRelay } from '../../../shared/chat/stream-relay.ts'
import { parseEvents, SseParser } from '../../../shared/io/sse.ts'
import type { Call, DirectAdapter } from '../../../shared/providers/contract.ts'
import { protocols } from '../../../shared/providers/protocols.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { framed } from '../../emulators/emulator.ts'
import { answers, type Dialect, models, type Payloads } from '../../support/chat/streams.ts'
import { fuzzRuns } from '../../support/fuzz.ts'
import { test } from '../../support/test.ts'

const catalog = loadCatalog()
const shape = { id: 'chatcmpl-ours', object: 'chat.completion.chunk', created: 1, model: 'ours' }

function relayOf(
  slug: string,
  choices = 1,
  served?: DirectAdapter<'chat'>,
  like = shape,
  includeUsage = false,
): StreamRelay {
  const model = catalog.find(slug)!
  const [target] = catalog.targets(model)
  const body = { model: slug, messages: [{ role: 'user' as const, content: 'x' }], stream: true, n: choices }
  const call: Call<'chat'> = { target: { model, ...target! }, body, raw: null, maxTokens: null, media: new Map() }
  const adapter = served ?? protocols[target!.provider.protocol]!.direct.chat!
  return relayFor({ adapter, call, requests: [null] }, like, { choices, includeUsage })
}

/** What a client gets when the bytes come in these pieces. */
function relayed(relay: StreamRelay, pieces: Buffer[]) {
  let out = ''
  for (const piece of pieces) {
    relay.feed(piece)
    out += relay.flush()
  }
  relay.close()
  out += relay.flush()
  const usage = relay.usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
  out += relay.formatEnding({ usage: { ...usage, cost: 0 }, provider: 'p' })
  const text = Buffer.from(out, relay.encoding).toString()
  const data = parseEvents(text).map(event => event.data)
  const chunks = data.filter(one => one !== '[DONE]').map(one => JSON.parse(one))
  const contents: Record<number, string> = {}
  const finishes: Record<number, string[]> = {}
  for (const { choices } of chunks) {
    for (const { index, delta, finish_reason } of choices) {
      contents[index] = (contents[index] ?? '') + (delta?.content ?? '')
      if (finish_reason) finishes[index] = [...(finishes[index] ?? []), finish_reason]
    }
  }
  const ends = data.filter(one => one === '[DONE]').length
  return {
    text,
    contents,
    finishes,
    ends,
    usage: relay.usage,
    counted: relay.output.text(),
    last: chunks.at(-1),
    chunks,
  }
}

function cutAt(bytes: Buffer, places: number[]): Buffer[] {
  const at = [...new Set(places.map(place => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length))
}

const anyText = fc.string({ unit: 'binary', maxLength: 12 }).filter(text => text.isWellFormed())
const someText = fc.oneof(
  anyText,
  fc.constantFrom('é', '🚀', '"error":', '"model":"up"', ',"usage":null', '[DONE]', '"finish_reason":"stop"', '\r\n\n'),
)
const splits = fc.array(fc.nat(), { maxLength: 40 })

/** How a stream is written and cut. */
const writing = fc.record({
  eol: fc.constantFrom('\n', '\r\n', '\r'),
  tight: fc.boolean(),
  spread: fc.boolean(),
  mark: fc.boolean(),
  unended: fc.boolean(),
  before: fc.subarray([': ping', '', 'id: 7', 'event: message']),
  splits,
})

const passing = fc.record({
  writing,
  texts: fc.array(someText, { minLength: 1, maxLength: 8 }),
  choices: fc.integer({ min: 1, max: 3 }),
  done: fc.boolean(),
  repeats: fc.boolean(),
  notes: fc.boolean(),
  usage: fc.constantFrom('none', 'growing', 'with the finish', 'on its own'),
})
type Passing = typeof passing extends fc.Arbitrary<infer T> ? T : never

const base = {
  ...{ id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 9, model: 'up', vendor: { x: 1 } },
  system_fingerprint: 'fp_up',
}

function passingPayloads({ texts, choices, done, repeats, notes, usage }: Passing): Payloads {
  const counts = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
  const payloads: object[] = []
  for (let index = 0; index < choices; index++) {
    const isLast = index === choices - 1
    for (const content of texts) {
      const growing = usage === 'growing' && { usage: { ...counts, completion_tokens: 1 } }
      payloads.push({ ...base, choices: [{ index, delta: { content }, finish_reason: null }], ...growing })
      if (notes) payloads.push({ type: 'ping' })
    }
    const withFinish = isLast && (usage === 'with the finish' || usage === 'growing') && { usage: counts }
    const finish = { ...base, choices: [{ index, delta: {}, finish_reason: 'stop' }], ...withFinish }
    payloads.push(finish, ...(repeats ? [finish] : []))
  }
  if (usage === 'on its own') payloads.push({ ...base, choices: [], usage: counts })
  return [...payloads, ...(done ? ['[DONE]'] : [])]
}

test('any split of a stream in our dialect gives the same text, finish and usage', t => {
  fc.assert(
    fc.property(passing, stream => {
      const bytes = Buffer.from(framed(passingPayloads(stream), stream.writing))
      const got = relayed(relayOf('gpt-4.1', stream.choices), cutAt(bytes, stream.writing.splits))
      const content = stream.texts.join('')
      for (let index = 0; index < stream.choices; index++) {
        t.is(got.contents[index], content)
        t.deepEqual(got.finishes[index], ['stop'])
      }
      t.is(got.counted.length, content.length * stream.choices)
      t.is(got.ends, 1)
      t.is(got.usage?.completion_tokens, stream.usage === 'none' ? undefined : 5)
      t.true(got.chunks.every(({ choices, vendor }) => choices.length === 1 && vendor.x === 1))
      t.like(got.last, { usage: { cost: 0 }, provider: 'p' })
    }),
    { numRuns: fuzzRuns(500) },
  )
})

test('any split of a stream in our dialect passes every byte between the first piece and the last, but for the name of the model', t => {
  const pieces = fc.array(someText, { minLength: 2, maxLength: 8 })
  fc.assert(
    fc.property(pieces, writing, (texts, how) => {
      const piece = (delta: object) => ({ ...base, choices: [{ index: 0, delta, finish_reason: null }] })
      const between = (model: string) =>
        framed(
          texts.map(content => ({ ...piece({ content }), model })),
          { ...how, mark: false, unended: false },
        )
      const finish = { ...base, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
      const whole =
        framed([piece({ role: 'assistant' })], { ...how, unended: false }) +
        between('up') +
        framed([finish], { ...how, mark: false })
      t.true(relayed(relayOf('gpt-4.1'), cutAt(Buffer.from(whole), how.splits)).text.includes(between(shape.model)))
    }),
    { numRuns: 200 },
  )
})

/** Chunks of servers that leave out what OpenAI has, or say more than it, in any order. */
const frames = fc.record({
  members: fc.shuffledSubarray(['model', 'usage', 'system_fingerprint', 'created', 'vendor', 'nested'] as const),
  model: fc.constantFrom('up', 'ours', 'a "b" é'),
  fingerprint: fc.constantFrom('fp', null),
  texts: fc.array(someText, { minLength: 1, maxLength: 4 }),
  includeUsage: fc.boolean(),
  writing,
})

test('every chunk has our name of the model, a fingerprint only where there is one, and `usage: null` only where usage is asked for', t => {
  fc.assert(
    fc.property(frames, ({ members, model, fingerprint, texts, includeUsage, writing }) => {
      const values = {
        ...{ model, usage: null, system_fingerprint: fingerprint, created: 7 },
        vendor: { usage: null },
        nested: { model, usage: null },
      }
      const chunk = (content: string) => ({
        ...Object.fromEntries(members.map(name => [name, values[name]])),
        choices: [{ index: 0, delta: { content }, finish_reason: null }],
        id: 'c',
      })
      const finish = { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
      const bytes = Buffer.from(framed([chunk('first'), ...texts.map(chunk), finish], writing))
      const relay = relayOf('gpt-4.1', 1, undefined, shape, includeUsage)
      const { chunks } = relayed(relay, cutAt(bytes, writing.splits))
      const usage = includeUsage ? { usage: null } : null
      const { usage: _usage, ...rest } = values
      const kept = Object.fromEntries(Object.entries(rest).filter(([name]) => (members as string[]).includes(name)))
      const frame = { ...kept, model: 'ours', ...usage }
      const hasFingerprint = members.includes('system_fingerprint') && fingerprint !== null
      for (const [i, content] of texts.entries()) {
        const { created: _created, ...shown } = chunks[i + 1]
        const { created: _kept, system_fingerprint: _null, ...expected } = frame as Record<string, unknown>
        t.like(shown, expected)
        t.is('system_fingerprint' in shown, hasFingerprint)
        t.is(shown.choices[0].delta.content, content)
        t.is('usage' in shown, includeUsage)
      }
      t.is(relay.upstreamModel, members.includes('model') ? model : null)
      t.is(chunks.filter(({ choices }) => choices.length === 0).length, includeUsage ? 1 : 0)
      t.truthy(chunks.at(-1).usage)
      t.true(chunks.slice(0, -1).every(one => 'usage' in one === includeUsage && !one.usage))
    }),
    { numRuns: fuzzRuns(500) },
  )
})

for (const dialect of ['anthropic', 'gemini'] as const) {
  test(`any split of a stream of ${dialect} gives the same text, finish and usage`, t => {
    const pieces = fc.array(
      someText.filter(text => text !== ''),
      { minLength: 1, maxLength: 8 },
    )
    fc.assert(
      fc.property(pieces, writing, (texts, how) => {
        const bytes = Buffer.from(framed(answers[dialect](texts), how))
        const got = relayed(relayOf(models[dialect]), cutAt(bytes, how.splits))
        t.is(got.contents[0], texts.join(''))
        t.is(got.counted, texts.join(''))
        t.deepEqual(got.finishes[0], ['stop'])
        t.like(got.usage, { prompt_tokens: 1_000, completion_tokens: 10 })
        t.is(got.ends, 1)
        t.true(got.chunks.every(({ id, model }) => id === 'chatcmpl-ours' && model === 'ours'))
      }),
      { numRuns: 200 },
    )
  })
}

const anyGarbage = fc.constantFrom('42', '"x"', '[]', '{}', 'null', '{"choices":[{"del', '<html>', '{"a":1}{"b":2}')
/** Garbage that no part of a chunk can look like, and garbage that can be read and is no chunk. */
const isRemark = (garbage: string) => !/["{}[\]]/.test(garbage)
for (const dialect of Object.keys(answers) as Dialect[]) {
  // Proxies before servers of OpenAI's dialect keep a connection open with the last two.
  const isPassedOver = (garbage: string) =>
    isRemark(garbage) || (dialect === 'openai' && (garbage === '{}' || garbage === 'null'))
  test(`any split of a stream of ${dialect} with garbage is whole where nothing is lost, and has a fault where something may be`, t => {
    const texts = ['a', 'é', '🚀', ' "error":', ' d']
    const payloads = answers[dialect](texts)
    const first = payloads.findIndex(payload => JSON.stringify(payload).includes('"a"'))
    const places = fc.integer({ min: 1, max: texts.length - 1 })
    fc.assert(
      fc.property(anyGarbage, fc.boolean(), places, writing, (garbage, isStray, place, how) => {
        const framing = { ...how, mark: false, unended: false }
        const before = framed(payloads.slice(0, first + place), { ...framing, mark: how.mark })
        const fault = isStray && garbage.startsWith('<') ? garbage + how.eol.repeat(2) : framed([garbage], framing)
        const bytes = Buffer.from(before + fault + framed(payloads.slice(first + place), framing))
        const relay = relayOf(models[dialect])
        let out = ''
        const relayed = () => {
          for (const packet of cutAt(bytes, how.splits)) {
            out += relay.flush()
            relay.feed(packet)
          }
          relay.close()
        }
        if (isPassedOver(garbage)) t.notThrows(relayed)
        else t.is(t.throws<ProviderError>(relayed).reason, 'invalid_response')
        out += relay.flush()
        // Ten tokens were counted, and a piece of our own dialect may be one: its end tells that some are missing.
        const goesOn = isPassedOver(garbage) || (dialect === 'openai' && garbage !== '[]')
        t.is(relay.usage === null, !isPassedOver(garbage))
        const chunks = parseEvents(Buffer.from(out, relay.encoding).toString()).map(event => JSON.parse(event.data))
        const content = chunks.map(({ choices }) => choices[0].delta.content ?? '').join('')
        t.is(content, (goesOn ? texts : texts.slice(0, place)).join(''))
        t.is(relay.output.text(), content)
      }),
      { numRuns: 200 },
    )
  })
}

test('a malformed event is passed over where the pieces are as many as the tokens; never an error, an object, or many of them', t => {
  const piece = (content: string) => ({ ...base, choices: [{ index: 0, delta: { content }, finish_reason: null }] })
  const end = (completion_tokens: number) => [
    { ...base, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { ...base, choices: [], usage: { prompt_tokens: 3, completion_tokens, total_tokens: 3 + completion_tokens } },
    '[DONE]',
  ]
  const half = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":" b\n\n'
  const run = (between: string, counted: number, isFinished = true) => {
    const pieces = framed([piece('a')]) + between + framed([piece(' c')])
    const stream = isFinished ? framed(end(counted)) : framed(end(counted).slice(1))
    return relayed(relayOf('gpt-4.1'), [Buffer.from(pieces), Buffer.from(stream)])
  }
  t.like(run(half, 2), { contents: { 0: 'a c' }, ends: 1, usage: { completion_tokens: 2 } })
  t.is(run('upstream reset\n\n', 9).usage?.completion_tokens, 9)
  const faults: [between: string, counted: number, isFinished?: boolean][] = [
    [half, 3],
    [half, 0],
    [half, 2, false],
    ['event: error\ndata: it failed\n\n', 2],
    ['data: {"foo":1}\n\n', 2],
    ['data: wait\n\n'.repeat(9), 2],
  ]
  for (const fault of faults)
    t.is(t.throws<ProviderError>(() => run(...fault), undefined, fault[0]).reason, 'invalid_response')
})

const anything = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom('', 'x', 0, 1, 'stop', 'error', {}, []))
const partly = (fields: Record<string, fc.Arbitrary<unknown>>) => fc.record(fields, { requiredKeys: [] })
const delta = partly({
  content: anything,
  tool_calls: fc.oneof(fc.array(anything), anything),
  audio: anything,
  images: anything,
})
const choice = partly({ index: anything, delta: fc.oneof(delta, anything), text: anything, finish_reason: anything })
const block = partly({
  type: fc.constantFrom('text', 'tool_use', 'thinking'),
  text: anything,
  id: anything,
  name: anything,
})
const oddities: Record<Dialect, fc.Arbitrary<unknown>> = {
  openai: fc.oneof(
    delta.map(fields => ({ choices: [{ index: 0, delta: fields }] })),
    partly({ choices: fc.array(fc.oneof(choice, anything)), usage: anything, error: anything, object: anything }),
  ),
  anthropic: partly({
    type: fc.constantFrom('message_start', 'content_block_start', 'content_block_delta', 'message_delta', 'error'),
    index: anything,
    delta: fc.oneof(partly({ type: anything, text: anything, stop_reason: anything }), anything),
    content_block: fc.oneof(block, anything),
    message: fc.oneof(partly({ id: anything, model: anything, usage: anything }), anything),
    usage: anything,
    error: anything,
  }),
  gemini: partly({
    candidates: fc.array(fc.oneof(partly({ content: anything, index: anything, finishReason: anything }), anything)),
    usageMetadata: anything,
    promptFeedback: anything,
    error: anything,
  }),
}
/** What has been misread before. */
const misread: { [dialect in Dialect]?: [object[], boolean][] } = {
  openai: [
    [
      [
        { choices: [{ index: 0, delta: { tool_calls: [{}] } }] },
        { choices: [{ delta: { tool_calls: false }, finish_reason: 'stop' }] },
      ],
      false,
    ],
  ],
}
for (const dialect of Object.keys(answers) as Dialect[]) {
  test(`nothing that a stream of ${dialect} holds causes anything but a ProviderError`, t => {
    const beginning = Buffer.from(framed(answers[dialect]([...'abcd']).slice(0, -3)))
    fc.assert(
      fc.property(fc.array(oddities[dialect], { minLength: 1, maxLength: 3 }), fc.boolean(), (events, begun) => {
        const relay = relayOf(models[dialect])
        try {
          if (begun) relay.feed(beginning)
          relay.feed(Buffer.from(framed(events as object[])))
          relay.close()
        } catch (error) {
          if (!(error instanceof ProviderError)) throw error
        }
        const out = Buffer.from(
          relay.flush() + relay.formatFailure(new GatewayError('internal_error', 'x')),
          relay.encoding,
        ).toString()
        for (const { data } of parseEvents(out)) t.true(Array.isArray(JSON.parse(data).choices))
        t.is(typeof relay.output.text(), 'string')
      }),
      { numRuns: fuzzRuns(1_000), examples: misread[dialect] ?? [] },
    )
  })
}

test('a text completion passes as it came; a chunk of a chat among its chunks is garbage', t => {
  const base = { id: 'cmpl-up', object: 'text_completion', created: 9, system_fingerprint: 'fp' }
  const piece = (text: string, finish_reason: string | null = null, model = 'up') =>
    framed([{ ...base, model, choices: [{ index: 0, text, finish_reason }] }])
  const { completion } = protocols.openai!.direct
  const relay = () => relayOf('gpt-4.1', 1, completion as never, { ...shape, object: 'text_completion' })
  const { text, counted, last } = relayed(relay(), [piece('a'), piece('é'), piece('', 'length')].map(Buffer.from))
  t.true(text.includes(piece('é', null, shape.model)))
  t.is(counted, 'aé')
  t.is(last.choices[0].finish_reason, 'length')
  const broken = relay()
  broken.feed(Buffer.from(piece('a')))
  const chat = framed([{ ...base, choices: [{ index: 0, delta: { content: 'x' } }] }])
  t.is(t.throws<ProviderError>(() => broken.feed(Buffer.from(chat))).reason, 'invalid_response')
})

test('an endless stream is counted, but kept only as far as the cap', t => {
  const relay = relayOf('gpt-4.1')
  const piece = (content: string) => ({ ...base, choices: [{ index: 0, delta: { content }, finish_reason: null }] })
  const packet = Buffer.from(framed(Array(64).fill(piece('x'.repeat(1_000)))))
  for (let i = 0; i < 100; i++) {
    relay.feed(packet)
    relay.flush()
  }
  t.is(relay.output.length, 6_400_000)
  t.true(relay.output.text().length <= 4 * 1024 * 1024 + 1_000)
})

test('a stream in our dialect passes byte by byte, whatever fields it has', t => {
  const odd =
    'data: {"choices":[{"delta":{"content":"\\u00e9 é 🚀","x":[1 ,2]},"index":0}],"id":"c","p":1.0e2,"model": "m" }\n\n'
  const first = 'data: {"id":"c","model":"m","created":1,"choices":[{"index":0,"delta":{"content":""}}]}\n\n'
  const end = 'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
  const bytes = Buffer.from(first + odd + end)
  const { text } = relayed(relayOf('gpt-4.1'), cutAt(bytes, [first.length + 20, first.length + 51]))
  t.true(text.includes(odd.replace('"m"', '"ours"')))
})

test('what came before a fault in the same packet is still flushed', t => {
  const piece = (content: string) =>
    `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`
  const relay = relayOf('gpt-4.1')
  relay.feed(Buffer.from(piece('one')))
  relay.flush()
  const error = t.throws(() => relay.feed(Buffer.from(`${piece('two')}data: {"error":{"code":503}}\n\n`)), {
    instanceOf: ProviderError,
  })
  t.is((error as ProviderError).reason, 'overloaded')
  t.true(relay.flush().includes('two'))
  t.is(relay.output.text(), 'onetwo')
})

test('a long event in many pieces is joined once', t => {
  const data = 'x'.repeat(8 * 1024 * 1024)
  const bytes = Buffer.from(`data: ${data}\n\ndata: y\n\n`)
  const parser = new SseParser()
  const events = []
  for (let from = 0; from < bytes.length; from += 4096) events.push(...parser.push(bytes.subarray(from, from + 4096)))
  t.deepEqual(
    events.map(event => event.data.length),
    [data.length, 1],
  )
})

test('an event without an end is refused, not collected for ever', t => {
  const parser = new SseParser()
  const megabyte = Buffer.alloc(1024 * 1024, 'x')
  t.throws(
    () => {
      for (let i = 0; i < 64; i++) parser.push(megabyte)
    },
    { instanceOf: RangeError },
  )
})

test('events: names, several data lines, comments, no space, CRLF, a last one without its blank line', t => {
  const text = 'event: a\r\ndata:1\r\ndata: 2\r\n\r\n: comment\n\nid: 7\ndata\n\n'
  t.deepEqual(parseEvents(text), [
    { event: 'a', data: '1\n2' },
    { event: '', data: '' },
  ])
  const parser = new SseParser()
  t.deepEqual(parser.push(Buffer.from('data: last\n')), [])
  t.deepEqual(parser.end(), { event: '', data: 'last' })
})
