import fc from 'fast-check'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { relayFor } from '../../../shared/chat/choices-relay.ts'
import { messagesRelayFor } from '../../../shared/chat/messages-relay.ts'
import type { AnswerRelay, StreamRelay } from '../../../shared/chat/stream-relay.ts'
import type { Call, DirectAdapter } from '../../../shared/providers/contract.ts'
import { protocols } from '../../../shared/providers/protocols.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { fuzzRuns } from '../../support/fuzz.ts'
import { test } from '../../support/test.ts'

const catalog = loadCatalog()
const { chat, completion } = protocols.openai!.direct

function relayOf(isChat: boolean, includeUsage: boolean, choices: number): StreamRelay {
  const model = catalog.find('gpt-4.1')!
  const [target] = catalog.targets(model)
  const body = { model: 'gpt-4.1', messages: [], stream: true, n: choices }
  const call: Call<'chat'> = { target: { model, ...target! }, body, raw: null, maxTokens: null, media: new Map() }
  const object = isChat ? 'chat.completion.chunk' : 'text_completion'
  const adapter = (isChat ? chat! : completion!) as DirectAdapter<'chat'>
  return relayFor(
    { adapter, call, requests: [null] },
    { id: 'ours', object, created: 1, model: 'ours' },
    { choices, includeUsage },
  )
}

/** All that a relay makes of a stream that comes in these packets. */
function outcome(relay: AnswerRelay, packets: Buffer[]) {
  let out = ''
  let fault: string | null = null
  try {
    for (const packet of packets) {
      if (relay.over) break
      relay.feed(packet)
      out += relay.flush()
    }
    relay.close()
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    fault = `${error.reason}: ${error.message}`
  }
  out += relay.flush()
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, cost: 0 }
  const hasChunks = 'hasChunks' in relay && relay.hasChunks
  const { output, over, hasOutput, finishReason, reported, upstreamId, upstreamModel } = relay
  const counted = {
    text: output.text(),
    length: output.length,
    additions: output.additions,
    usage: relay.usage,
    reported,
  }
  const end = relay.formatEnding({ usage, provider: 'p' })
  return { out, fault, counted, over, hasChunks, hasOutput, finishReason, upstreamId, upstreamModel, end }
}

function cutAt(bytes: Buffer, places: number[]): Buffer[] {
  const at = [...new Set(places.map(place => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length))
}

const text = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(' word', 'a', ' the', '', ' long enough to be a slice of its event', '{"', ':', "'}"),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }) },
  fc.constantFrom(
    'é',
    '🚀',
    '\n\n',
    '"content":"a"',
    'headgate-probe-0',
    'headgate-probe-1',
    '$1',
    '\\',
    '[DONE]',
    '"}',
  ),
)
const members = ['content', 'reasoning_content', 'refusal', 'reasoning'] as const
const calls = [{ index: 0, id: 'c', function: { name: 'f', arguments: '{' } }]

/** What one server does in all of its chunks. */
const server = fc.record({
  isChat: fc.boolean(),
  includeUsage: fc.boolean(),
  spaced: fc.boolean(),
  model: fc.constantFrom('up', 'ours', 'é', null),
  fingerprint: fc.constantFrom('fp', null, undefined),
  usage: fc.constantFrom(null, undefined),
  more: fc.constantFrom<object>(
    {},
    { content: ' word' },
    { vendor: { content: ' word', p: 'x', model: 'up' } },
    { logprobs: null, é: 1 },
  ),
  late: fc.constantFrom<object>({}, { content: 'a' }, { choices_: [{ delta: { content: ' word' } }] }),
  beside: fc.constantFrom<object>(
    {},
    { role: 'assistant' },
    { tool_calls: null, refusal: null },
    { audio: null, vendor: 1 },
  ),
  text: fc.constantFrom(undefined, null, '', 'x'),
  padding: fc.constantFrom(null, 'obfuscation', 'p'),
  paddingFirst: fc.boolean(),
  member: fc.constantFrom(...members),
})

const chunk = fc.record({
  text,
  padding: fc.constantFrom('', 'x', 'Ab3', 'é', '"', ' '),
  index: fc.oneof({ weight: 8, arbitrary: fc.constant(0) }, fc.constantFrom(1, 2)),
  created: fc.oneof({ weight: 8, arbitrary: fc.constant(7) }, fc.constant(8)),
  odd: fc.oneof(
    { weight: 30, arbitrary: fc.constant('none' as const) },
    fc.constantFrom(
      ...([
        'finish',
        'calls',
        'error',
        'usage',
        'comment',
        'note',
        'garbage',
        'two',
        'other member',
        'twice',
        'done',
        'crlf',
        'named',
        'blank',
      ] as const),
    ),
  ),
})
type Server = typeof server extends fc.Arbitrary<infer T> ? T : never
type Chunk = typeof chunk extends fc.Arbitrary<infer T> ? T : never

function jsonOf(server: Server, { text, padding, index, created, odd }: Chunk): string {
  const { isChat, model, fingerprint, usage, more, late, beside, member } = server
  const name = odd === 'other member' ? 'reasoning_content' : member
  const calling = odd === 'calls' ? { tool_calls: calls } : {}
  const delta = { ...beside, [name]: text, ...calling }
  const choice = {
    index,
    ...(isChat ? { delta, ...(server.text !== undefined && { text: server.text }) } : { text }),
    logprobs: null,
    finish_reason: odd === 'finish' ? 'stop' : null,
  }
  const pad = server.padding ? { [server.padding]: padding } : {}
  const counts = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  const json = JSON.stringify({
    ...more,
    ...(server.paddingFirst && pad),
    id: 'c',
    created,
    ...(model !== null && { model }),
    ...(fingerprint !== undefined && { system_fingerprint: fingerprint }),
    choices: odd === 'two' ? [choice, { ...choice, index: 1 }] : [choice],
    ...((odd === 'usage' || usage === null) && { usage: odd === 'usage' ? counts : null }),
    ...(odd === 'error' && { error: { message: 'it failed' } }),
    ...(!server.paddingFirst && pad),
    ...late,
  })
  const twice =
    odd === 'twice' ? json.replace('"logprobs":null', '"delta":{"content":"z"},"text":"z","logprobs":null') : json
  return server.spaced ? twice.replaceAll('":', '": ').replaceAll(',"', ', "') : twice
}

/** `before`: a line before each event; one that is a comment changes nothing but that no event can be taken for a repeated one. */
function streamOf(server: Server, chunks: Chunk[], before: string): string {
  const event = (one: Chunk) => {
    const data = `${before}data: ${jsonOf(server, one)}`
    if (one.odd === 'comment') return ': ping\n\n'
    if (one.odd === 'note') return `${before}data: {"type":"ping"}\n\n`
    if (one.odd === 'garbage') return `${before}data: reset\n\n`
    if (one.odd === 'done') return `${before}data: [DONE]\n\n`
    if (one.odd === 'crlf') return `${data}\r\n\r\n`
    if (one.odd === 'named') return `event: x\n${data}\n\n`
    return `${data}\n\n${one.odd === 'blank' ? '\n' : ''}`
  }
  return chunks.map(event).join('')
}

const note = ':parsed\n'
/** More than one blank line between events is as good as one: which event they belong to depends on the packets. */
const tidy = (out: string) => out.replace(/\n{3,}/g, '\n\n').replace(/^\n+/, '')

test('events that repeat an earlier one come to the same as events that are parsed, however they are cut into packets', t => {
  const numRuns = fuzzRuns(1_000)
  let repeated = 0
  const stream = fc.record({
    server,
    chunks: fc.array(chunk, { minLength: 1, maxLength: 14 }),
    choices: fc.integer({ min: 1, max: 3 }),
    splits: fc.array(fc.nat(), { maxLength: 12 }),
    isCutByEvent: fc.boolean(),
  })
  fc.assert(
    fc.property(stream, ({ server, chunks, choices, splits, isCutByEvent }) => {
      const packetsOf = (before: string) =>
        isCutByEvent
          ? chunks.map(one => Buffer.from(streamOf(server, [one], before)))
          : cutAt(Buffer.from(streamOf(server, chunks, before)), splits)
      const got = outcome(relayOf(server.isChat, server.includeUsage, choices), packetsOf(''))
      const parsed = outcome(relayOf(server.isChat, server.includeUsage, choices), packetsOf(note))
      t.deepEqual({ ...got, out: tidy(got.out) }, { ...parsed, out: tidy(parsed.out.replaceAll(note, '')) })
      if (got.counted.additions > 4) repeated++
    }),
    { numRuns },
  )
  t.true(repeated > 0.15 * numRuns) // Of about 0.55.
})

test('the text of repeated events is counted, and their frame is ours', t => {
  const frame = { id: 'c', created: 7, model: 'up', system_fingerprint: null }
  const eventOf = (content: string, obfuscation: string) =>
    `data: ${JSON.stringify({ ...frame, choices: [{ index: 0, delta: { content }, finish_reason: null }], usage: null, obfuscation })}\n\n`
  const events = ['a', ' b', ' c', ' d', ' e'].map((content, i) => eventOf(content, 'x'.repeat(i)))
  const relay = relayOf(true, false, 1)
  relay.feed(Buffer.from(events[0]!))
  relay.flush()
  relay.feed(Buffer.from(events.slice(1).join('')))
  const ours = events
    .slice(1)
    .join('')
    .replaceAll('"up","system_fingerprint":null', '"ours"')
    .replaceAll(',"usage":null', '')
  t.is(relay.flush(), ours)
  t.is(relay.output.text(), 'a b c d e')
  t.is(relay.output.additions, 5)
})

function messagesRelay(): AnswerRelay {
  const model = catalog.find('claude-sonnet-4.6')!
  const [target] = catalog.targets(model)
  const body = { model: model.id, max_tokens: 9, messages: [{ role: 'user' as const, content: 'Hi' }] }
  const call: Call<'messages'> = { target: { model, ...target! }, body, raw: null, maxTokens: null, media: new Map() }
  const adapter = protocols.anthropic!.direct.messages!
  return messagesRelayFor({ adapter, call, requests: [null] }, { id: 'ours', requestId: 'req', isBilled: () => true })
}

const delta = fc.record({
  text,
  member: fc.oneof(
    { weight: 8, arbitrary: fc.constant('text') },
    fc.constantFrom('thinking', 'partial_json', 'signature'),
  ),
  index: fc.oneof({ weight: 8, arbitrary: fc.constant(0) }, fc.constant(1)),
  /** Spaces that hide the length of the text, before each of the last two brackets. */
  spaces: fc.tuple(fc.nat(3), fc.nat(3)),
  odd: fc.oneof(
    { weight: 20, arbitrary: fc.constant('none') },
    fc.constantFrom(
      'citation',
      'twice',
      'late',
      'ping',
      'comment',
      'garbage',
      'stop',
      'error',
      'end',
      'unnamed',
      'crlf',
    ),
  ),
})
type Delta = typeof delta extends fc.Arbitrary<infer T> ? T : never

const named = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

function deltaEvent({ text, member, index, spaces: [before, after], odd }: Delta): string {
  const end = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }
  if (odd === 'ping' || odd === 'stop')
    return named({ type: odd === 'ping' ? 'ping' : 'content_block_stop', ...{ index } })
  if (odd === 'comment') return ': ping\n\n'
  if (odd === 'garbage') return 'event: content_block_delta\ndata: {"delta"\n\n'
  if (odd === 'error') return named({ type: 'error', ...{ error: { type: 'overloaded_error', message: 'No' } } })
  if (odd === 'end') return named(end) + named({ type: 'message_stop' })
  const type = member === 'partial_json' ? 'input_json_delta' : `${member}_delta`
  const value = JSON.stringify(text)
  const more = odd === 'citation' ? ',"citation":{"text":"a"}' : odd === 'twice' ? `,"${member}":"z"` : ''
  const late = odd === 'late' ? ',"delta":{"text":"b"}' : ''
  const json = `{"type":"content_block_delta","index":${index},"delta":{"type":"${type}","${member}":${value}${more}`
  const line = `data: ${json}${' '.repeat(before % 2)}}${' '.repeat(before)}${late}}${' '.repeat(after)}`
  const name = odd === 'unnamed' ? '' : 'event: content_block_delta\n'
  return `${name}${line}${odd === 'crlf' ? '\r\n\r\n' : '\n\n'}`
}

const messageStart = {
  type: 'message_start',
  message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [], usage: { input_tokens: 4 } },
}
const opening = [
  named(messageStart),
  ...[0, 1].map(index =>
    named({ type: 'content_block_start', ...{ index, content_block: { type: 'text', text: '' } } }),
  ),
]

test('equal to parsed events: repeated content_block_delta of Messages, however they are cut', t => {
  const numRuns = fuzzRuns(1_000)
  let repeated = 0
  const stream = fc.record({
    deltas: fc.array(delta, { minLength: 1, maxLength: 14 }),
    splits: fc.array(fc.nat(), { maxLength: 12 }),
    isCutByEvent: fc.boolean(),
  })
  fc.assert(
    fc.property(stream, ({ deltas, splits, isCutByEvent }) => {
      const packetsOf = (before: string) => {
        const events = [...opening, ...deltas.map(deltaEvent)].map(event => before + event)
        return isCutByEvent ? events.map(event => Buffer.from(event)) : cutAt(Buffer.from(events.join('')), splits)
      }
      const got = outcome(messagesRelay(), packetsOf(''))
      const parsed = outcome(messagesRelay(), packetsOf(note))
      t.deepEqual({ ...got, out: tidy(got.out) }, { ...parsed, out: tidy(parsed.out.replaceAll(note, '')) })
      if (got.counted.additions > 4) repeated++
    }),
    { numRuns },
  )
  t.true(repeated > 0.15 * numRuns) // Of about 0.55.
})

test('a repeated delta of Messages is passed on byte for byte and not parsed', t => {
  const events = ['a', ' b', ' c', ' d', ' e'].map((content, i) =>
    named({ type: 'content_block_delta', ...{ index: 0, delta: { type: 'text_delta', text: content } } }).replace(
      '"}}',
      `"}${' '.repeat(i)}}`,
    ),
  )
  const relay = messagesRelay()
  relay.feed(Buffer.from([...opening, events[0]].join('')))
  relay.flush()
  const parse = JSON.parse
  const rest = Buffer.from(events.slice(1).join(''))
  try {
    JSON.parse = () => t.fail('it was parsed')
    relay.feed(rest)
  } finally {
    JSON.parse = parse
  }
  t.is(relay.flush(), rest.toString())
  t.is(relay.output.text(), 'a b c d e')
  t.is(relay.output.additions, 5)
})
