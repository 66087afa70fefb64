import { factsOf } from '../../shared/engine/report.ts'
import { asksFor1hCache } from '../../shared/kinds/cache-marks.ts'
import { test } from '../support/test.ts'

const parametersOf = (body: object) => factsOf(body, null).parameters

test('the log keeps settings and counts of what was sent, no texts of the prompt', t => {
  const body = {
    model: 'auto',
    messages: [{ role: 'user', content: 'secret' }],
    prompt: 'secret',
    temperature: 0,
    stream: true,
    logprobs: false,
    seed: null,
    service_tier: 'flex',
    style: 'x'.repeat(65),
    tool_choice: { type: 'function', function: { name: 'f' } },
    response_format: { type: 'json_schema', json_schema: { name: 'secret' } },
    reasoning: { effort: 'high', summary: 'auto' },
    thinking: null,
    tools: [{}, {}],
    models: 'gpt-4o',
  }
  t.deepEqual(parametersOf(body), {
    temperature: 0,
    logprobs: false,
    service_tier: 'flex',
    'response_format.type': 'json_schema',
    'reasoning.effort': 'high',
    tools: 2,
  })
})

test('nothing is kept of a body without settings, or with values of other types', t => {
  t.deepEqual(factsOf({ model: 'auto', messages: [] }, null), {})
  const odd = { temperature: [1], reasoning: 'high', thinking: ['type'], response_format: 7, tools: {}, models: null }
  t.is(parametersOf(odd), undefined)
  t.is(parametersOf(JSON.parse('{"__proto__": {"temperature": 1}, "constructor": 1}')), undefined)
})

test('of a body with many members the first ones are read', t => {
  const others = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`field_${i}`, i]))
  t.deepEqual(parametersOf({ temperature: 1, ...others, top_p: 1 }), { temperature: 1 })
})

test('a mark for an hour counts wherever a block holds it', t => {
  const mark = { cache_control: { type: 'ephemeral', ttl: '1h' } }
  const text = { type: 'text', text: 'x', ...mark }
  const blocks = [
    text,
    { type: 'tool_result', tool_use_id: 'a', content: [text] },
    { type: 'document', source: { type: 'content', content: [text] } },
    {
      type: 'tool_result',
      tool_use_id: 'a',
      content: [{ type: 'document', source: { type: 'content', content: [text] } }],
    },
    { type: 'tool_addition', tool: { type: 'tool_definition', definition: { name: 'a', ...mark } } },
    {
      type: 'tool_search_tool_result',
      content: { tool_references: [{ type: 'tool_reference', tool_name: 'a', ...mark }] },
    },
    { type: 'compaction', content: null, tool_changes: [{ type: 'tool_addition', tool: { ...mark } }] },
  ]
  for (const block of blocks) {
    t.true(asksFor1hCache({ messages: [{ content: [block] }] }), JSON.stringify(block))
    const short = JSON.parse(JSON.stringify(block).replaceAll('"1h"', '"5m"'))
    t.false(asksFor1hCache({ messages: [{ content: [short] }] }))
  }
})
