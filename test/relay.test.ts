import test from 'ava'
import fc from 'fast-check'
import { loadCatalog } from '../shared/catalog/catalog.ts'
import { type Relay, relayFor } from '../shared/chat/relay.ts'
import { parseEvents, SseParser } from '../shared/io/sse.ts'
import type { Call } from '../shared/providers/contract.ts'
import { ProviderError } from '../shared/providers/contract.ts'
import { protocols } from '../shared/providers/protocols.ts'
import { messageEvents, sse } from './emulators/anthropic.ts'
import { dataOf } from './support/chat.ts'

const catalog = loadCatalog()
const shape = { id: 'chatcmpl-ours', object: 'chat.completion.chunk', created: 1, model: 'ours' }

function relayOf(slug: string, choices = 1): Relay {
  const model = catalog.find(slug)!
  const [target] = catalog.targets(model)
  const body = { model: slug, messages: [{ role: 'user' as const, content: 'x' }], stream: true, n: choices }
  const call: Call<'chat'> = { target: { model, ...target! }, body, raw: null, maxTokens: null, media: new Map() }
  const adapter = protocols[target!.provider.protocol]!.direct.chat!
  return relayFor({ adapter, call }, shape, choices)
}

/** What a client gets when the bytes come in these pieces. */
function relayed(relay: Relay, pieces: Buffer[]) {
  let out = ''
  for (const piece of pieces) {
    relay.feed(piece)
    out += relay.flush()
  }
  relay.close()
  out += relay.flush()
  const usage = relay.usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
  out += relay.ending({ usage: { ...usage, cost: 0 }, provider: 'p', includeUsage: false })
  const text = Buffer.from(out, relay.encoding).toString()
  const data = dataOf(text)
  const chunks = data.filter(one => one !== '[DONE]')
  const contents: Record<number, string> = {}
  const finishes: Record<number, string[]> = {}
  for (const { choices } of chunks) {
    for (const { index, delta, finish_reason } of choices) {
      contents[index] = (contents[index] ?? '') + (delta.content ?? '')
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
    counted: relay.tally.text(),
    last: chunks.at(-1),
    chunks,
  }
}

function cutAt(bytes: Buffer, places: number[]): Buffer[] {
  const at = [...new Set(places.map(place => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length))
}

const anyText = fc.string({ unit: 'binary', maxLength: 12 }).filter(text => text.isWellFormed())
const someText = fc.oneof(anyText, fc.constantFrom('é', '🚀', '"error":', '[DONE]', '"finish_reason":"stop"', '\r\n\n'))
const splits = fc.array(fc.nat(), { maxLength: 40 })

const passing = fc.record({
  texts: fc.array(someText, { minLength: 1, maxLength: 8 }),
  choices: fc.integer({ min: 1, max: 3 }),
  eol: fc.constantFrom('\n', '\r\n'),
  spaced: fc.boolean(),
  comments: fc.boolean(),
  done: fc.boolean(),
  usage: fc.constantFrom('none', 'with the finish', 'on its own'),
  splits,
})

function passingBytes({
  texts,
  choices,
  eol,
  spaced,
  comments,
  done,
  usage,
}: typeof passing extends fc.Arbitrary<infer T> ? T : never): Buffer {
  const counts = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
  const base = { id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 9, model: 'up', vendor: { x: 1 } }
  const events: object[] = []
  for (let index = 0; index < choices; index++) {
    for (const content of texts) events.push({ ...base, choices: [{ index, delta: { content }, finish_reason: null }] })
    const last = index === choices - 1 && usage === 'with the finish'
    events.push({ ...base, choices: [{ index, delta: {}, finish_reason: 'stop' }], ...(last && { usage: counts }) })
  }
  if (usage === 'on its own') events.push({ ...base, choices: [], usage: counts })
  const lines = events.map(event => `data:${spaced ? ' ' : ''}${JSON.stringify(event)}`)
  const withComments = comments ? lines.flatMap(one => [': ping', one]) : lines
  return Buffer.from([...withComments, ...(done ? ['data: [DONE]'] : [])].map(one => one + eol + eol).join(''))
}

test('any split of a stream in our dialect gives the same text, finish and usage', t => {
  fc.assert(
    fc.property(passing, stream => {
      const bytes = passingBytes(stream)
      const got = relayed(relayOf('gpt-4.1', stream.choices), cutAt(bytes, stream.splits))
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
    { numRuns: 300 },
  )
})

test('any split of an Anthropic stream gives the same text, finish and usage', t => {
  const pieces = fc.array(
    someText.filter(text => text !== ''),
    { minLength: 1, maxLength: 8 },
  )
  fc.assert(
    fc.property(pieces, splits, (texts, places) => {
      const usage = { input_tokens: 7, output_tokens: 9 }
      const content = [{ type: 'text', text: texts.join('') }]
      const message = { id: 'm', type: 'message', role: 'assistant', model: 'up', stop_sequence: null } as const
      const whole = { ...message, content, stop_reason: 'max_tokens', stop_details: null, usage }
      const bytes = Buffer.from(
        messageEvents(whole, () => texts)
          .map(sse)
          .join(''),
      )
      const got = relayed(relayOf('claude-sonnet-5'), cutAt(bytes, places))
      t.is(got.contents[0], texts.join(''))
      t.is(got.counted, texts.join(''))
      t.deepEqual(got.finishes[0], ['length'])
      t.like(got.usage, { prompt_tokens: 7, completion_tokens: 9 })
      t.is(got.ends, 1)
      t.true(got.chunks.every(({ id, model }) => id === 'chatcmpl-ours' && model === 'ours'))
    }),
    { numRuns: 200 },
  )
})

test('a stream in our dialect passes byte by byte, whatever fields it has', t => {
  const odd = 'data: {"choices":[{"delta":{"content":"\\u00e9 é 🚀","x":[1 ,2]},"index":0}],"id":"c","p":1.0e2}\n\n'
  const first = 'data: {"id":"c","model":"m","created":1,"choices":[{"index":0,"delta":{"content":""}}]}\n\n'
  const end = 'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
  const bytes = Buffer.from(first + odd + end)
  const { text } = relayed(relayOf('gpt-4.1'), cutAt(bytes, [first.length + 20, first.length + 51]))
  t.true(text.includes(odd))
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
  t.is(relay.tally.text(), 'onetwo')
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
