import type { ChatChunk } from '../../../shared/kinds/chat.ts'
import { createDecoder } from '../../../shared/providers/adapters/openai/decoder.ts'
import { ClientToolsDecoder, withClientTools } from '../../../shared/providers/profile/fit-tools.ts'
import type { ClientTool } from '../../../shared/providers/profile/fitting.ts'
import { test } from '../../support/test.ts'

const tools = new Map<string, ClientTool>([
  ['short', { name: 'a.long:name', type: 'function' }],
  ['patch', { name: 'patch', type: 'custom' }],
])
const decoderOf = () =>
  new ClientToolsDecoder(createDecoder<ChatChunk>({ read: json => json as unknown as ChatChunk }), tools)

type Calls = { index: number; id?: string; function?: object }[]
const chunkOf = (tool_calls: Calls | null, finish_reason: string | null = null) => ({
  id: 'c1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta: tool_calls ? { tool_calls } : {}, finish_reason }],
})

/** The deltas of calls that the client receives. */
function received(events: (object | string)[]): unknown[] {
  const decoder = decoderOf()
  const chunks = events.flatMap(event =>
    decoder.push({ event: '', data: typeof event === 'string' ? event : JSON.stringify(event) } as never),
  )
  return chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
}

const begun = (index: number, id: string, name: string) => ({
  index,
  id,
  type: 'function',
  function: { name, arguments: '' },
})
const piece = (index: number, text: string) => ({ index, function: { arguments: text } })

test('restored: names of parallel calls, and a custom tool with its text, in a stream', t => {
  const events = [
    chunkOf([begun(0, 'call_a', 'short')]),
    chunkOf([begun(1, 'call_b', 'patch')]),
    chunkOf([piece(1, '{"input":"*** Be')]),
    chunkOf([piece(0, '{}')]),
    chunkOf([piece(1, 'gin"}')]),
    chunkOf(null, 'tool_calls'),
  ]
  t.deepEqual(received(events), [
    { index: 0, id: 'call_a', type: 'function', function: { name: 'a.long:name', arguments: '' } },
    { index: 0, function: { arguments: '{}' } },
    { index: 1, id: 'call_b', type: 'custom', custom: { name: 'patch', input: '*** Begin' } },
  ])
})

test('restored: a name that arrives in pieces, beside a tool whose name only begins like it', t => {
  const nameless = (index: number, name: string) => ({ index, function: { name } })
  const events = [
    chunkOf([begun(0, 'call_a', 'sho')]),
    chunkOf([begun(1, 'call_b', 'sho')]),
    chunkOf([nameless(0, 'rt')]),
    chunkOf([nameless(1, 'p')]),
    chunkOf([piece(0, '{}')]),
    chunkOf([piece(1, '{}')]),
    chunkOf(null, 'tool_calls'),
  ]
  t.deepEqual(received(events), [
    { index: 0, id: 'call_a', type: 'function', function: { name: 'a.long:name', arguments: '' } },
    { index: 1, id: 'call_b', type: 'function', function: { name: 'shop', arguments: '' } },
    { index: 0, function: { arguments: '{}' } },
    { index: 1, function: { arguments: '{}' } },
  ])
})

test('restored: a call whose whole name is the beginning of another tool’s', t => {
  const call = begun(0, 'call_a', 'sho')
  t.deepEqual(received([chunkOf([call]), chunkOf(null, 'tool_calls')]), [call])
})

test('restored: a custom tool in a stream without a finish reason', t => {
  const events = [chunkOf([begun(0, 'call_b', 'patch')]), chunkOf([piece(0, '{"input":"x"}')]), '[DONE]']
  t.deepEqual(received(events), [{ index: 0, id: 'call_b', type: 'custom', custom: { name: 'patch', input: 'x' } }])
})

test('restored: a custom tool whose arguments are not the expected object, as they are', t => {
  const call = (text: string) => ({ id: 'c', type: 'function', function: { name: 'patch', arguments: text } })
  for (const [text, input] of [
    ['{"input":"x"}', 'x'],
    ['plain', 'plain'],
    ['null', 'null'],
    ['{"other":1}', '{"other":1}'],
  ]) {
    const answer = { choices: [{ index: 0, message: { role: 'assistant', tool_calls: [call(text!)] } }] }
    const restored = withClientTools(answer as never, tools)
    t.like(restored.choices[0]!.message.tool_calls![0], { type: 'custom', custom: { name: 'patch', input } })
  }
})
