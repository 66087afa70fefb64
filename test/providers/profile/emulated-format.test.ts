import fc from 'fast-check'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { ChatChunk, ChatCompletion, ChatRequest } from '../../../shared/kinds/chat.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { emulationOf, JsonContentDecoder, withJsonContent } from '../../../shared/providers/profile/emulated-format.ts'
import { JsonText } from '../../../shared/providers/profile/json-text.ts'
import type { StreamDecoder } from '../../../shared/providers/stream-decoder.ts'
import { test } from '../../support/test.ts'

const catalog = loadCatalog()

function targetOf(id: string, provider: string): Target {
  const model = catalog.find(id)!
  const served = catalog.targets(model).find(one => one.provider.name === provider)!
  return { model, ...served }
}

const format = (schema: object): ChatRequest['response_format'] => ({
  type: 'json_schema',
  json_schema: { name: 'x', schema: schema as Record<string, unknown> },
})
const object = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
const asking = (more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'x',
  messages: [{ role: 'user', content: 'Hello' }],
  response_format: format(object),
  ...more,
})
const tools: ChatRequest['tools'] = [{ type: 'function', function: { name: 'weather' } }]

test('how each target is asked: by its format, by a tool, or by the prompt', t => {
  const llama = targetOf('llama-3.3-70b-instruct', 'groq')
  const deepseek = targetOf('deepseek-v4-pro', 'deepseek')
  const openai = targetOf('gpt-5.6-luna', 'openai')
  t.is(emulationOf(asking(), openai), null)
  t.is(emulationOf(asking({ response_format: { type: 'text' } }), llama), null)
  t.is(emulationOf(asking(), llama), 'tool')
  t.is(emulationOf(asking({ tools }), llama), 'tool')
  t.is(emulationOf(asking({ tools, tool_choice: 'none' }), llama), 'tool')
  t.is(emulationOf(asking({ tools, tool_choice: 'required' }), llama), 'prompt', 'the client forces its own')
  t.is(emulationOf(asking({ response_format: format({ type: 'array' }) }), llama), 'prompt', 'arguments are an object')
  t.is(emulationOf(asking({ response_format: { type: 'json_object' } }), llama), null, 'its JSON mode')
  t.is(emulationOf(asking({ response_format: { type: 'json_object' }, tools }), llama), 'prompt', 'not beside tools')
  t.is(emulationOf(asking(), deepseek), 'prompt', 'it thinks')
  t.is(emulationOf(asking({ reasoning_effort: 'none' }), deepseek), 'tool')
})

/** A decoder that returns the chunks it is given. */
function decoderOf(chunks: ChatChunk[]): StreamDecoder<ChatChunk> {
  return { done: true, push: () => chunks.splice(0, 1) }
}

const chunk = (delta: object, finish_reason: string | null = null) =>
  ({ choices: [{ index: 0, delta, finish_reason }] }) as unknown as ChatChunk

function textOf(chunks: ChatChunk[], by: 'tool' | 'prompt', body = asking()): { text: string; finish: unknown } {
  const queue = [...chunks]
  const decoder = new JsonContentDecoder(decoderOf(queue), body, by)
  const read = chunks.flatMap(() => decoder.push({ event: '', data: '' }))
  const text = read.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
  return { text, finish: read.at(-1)?.choices[0]?.finish_reason }
}

/** A text cut at random places. */
const pieces = (text: string, cuts: readonly number[]): string[] => {
  const places = [...new Set(cuts.map(cut => cut % (text.length + 1)))].sort((a, b) => a - b)
  return [...places, text.length].map((end, index) => text.slice(places[index - 1] ?? 0, end))
}

test('any object through the tool, in any pieces, is the same value', t => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.nat()), fc.string(), (value, cuts, intro) => {
      const args = JSON.stringify(value)
      const [first, ...others] = pieces(args, cuts)
      const call = { index: 0, id: 'c', function: { name: 'json_answer', arguments: first } }
      const chunks = [
        chunk({ role: 'assistant', content: intro }),
        chunk({ tool_calls: [call] }),
        ...others.map(piece => chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
        chunk({}, 'tool_calls'),
      ]
      t.deepEqual(textOf(chunks, 'tool'), { text: args, finish: 'stop' })
      const message = {
        role: 'assistant',
        content: intro,
        tool_calls: [{ ...call, function: { name: 'json_answer', arguments: args } }],
      }
      const whole = { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] } as unknown as ChatCompletion
      t.is(withJsonContent(whole, asking(), 'tool').choices[0]!.message.content, args)
    }),
  )
})

test('any object in prose and a fence, in any pieces, is the same value', t => {
  const prose = fc.string().filter(text => !/[{[]/.test(text))
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.array(fc.nat()),
      prose,
      fc.string(),
      (value, cuts, before, after) => {
        const json = JSON.stringify(value, null, 1)
        const chunks = pieces(`${before}\`\`\`json\n${json}\n\`\`\`${after}`, cuts).map(content => chunk({ content }))
        t.is(textOf([...chunks, chunk({}, 'stop')], 'prompt').text, json)
      },
    ),
  )
})

test('the text of a schema that may be a text stays whole', t => {
  const body = asking({ response_format: format({ type: 'string' }) })
  t.is(textOf([chunk({ content: '"see [1]"' }), chunk({}, 'stop')], 'prompt', body).text, '"see [1]"')
})

test('a text without JSON is passed on, in a stream at its end', t => {
  t.is(JsonText.of('I cannot do that.', 'object'), 'I cannot do that.')
  for (const by of ['tool', 'prompt'] as const)
    t.is(textOf([chunk({ content: 'I can' }), chunk({ content: 'not.' }), chunk({}, 'stop')], by).text, 'I cannot.')
})
