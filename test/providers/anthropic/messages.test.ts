import { checkRequest } from '../../emulators/anthropic-rules.ts'
import { called, hi, hiTurn, image, mark, parts, type Traits, upstreamBody } from '../../support/providers/anthropic.ts'
import { test } from '../../support/test.ts'

const pdf = 'data:application/pdf;base64,JVBERi0='
const userTurn = (...content: object[]) => [{ role: 'user', content }]

/** Fields of the client's request → fields of the upstream request (`undefined`: not sent). */
const mappings: [title: string, body: object, expected: object, traits?: Traits][] = [
  [
    'an image by URL',
    image('https://a.example/b.png'),
    { messages: userTurn({ type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } }) },
  ],
  [
    'an image/jpg',
    image('data:image/jpg;base64,AA=='),
    { messages: userTurn({ type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AA==' } }) },
  ],
  [
    'a PDF',
    parts({ type: 'file', file: { file_data: pdf, filename: 'a.pdf' }, ...mark }),
    {
      messages: userTurn({
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
        title: 'a.pdf',
        ...mark,
      }),
    },
  ],
  ['blank parts', parts({ type: 'text', text: ' \n' }, { type: 'text', text: 'hi' }), { messages: [hiTurn] }],
  [
    'cache marks',
    parts({ type: 'text', text: 'hi', ...mark }),
    { messages: userTurn({ type: 'text', text: 'hi', ...mark }) },
  ],
  [
    'a cache mark in the system prompt',
    {
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'A', ...mark }] },
        { role: 'system', content: 'B' },
        hi,
      ],
    },
    {
      system: [
        { type: 'text', text: 'A', ...mark },
        { type: 'text', text: 'B' },
      ],
    },
  ],
  [
    'a later system message as user text',
    { messages: [hi, { role: 'assistant', content: 'yo' }, { role: 'system', content: 'S' }, hi] },
    {
      messages: [
        hiTurn,
        { role: 'assistant', content: [{ type: 'text', text: 'yo' }] },
        ...userTurn({ type: 'text', text: 'S' }, { type: 'text', text: 'hi' }),
      ],
      system: undefined,
    },
  ],
  [
    'assistant text, refusal parts and reasoning',
    {
      messages: [
        hi,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'a' },
            { type: 'refusal', refusal: 'b' },
          ],
          reasoning_content: 'r',
        },
        hi,
      ],
    },
    {
      messages: [
        hiTurn,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        hiTurn,
      ],
    },
  ],
  [
    'neighbours of one role become one turn',
    { messages: [hi, hi, { role: 'assistant', content: '' }, hi] },
    { messages: userTurn({ type: 'text', text: 'hi' }, { type: 'text', text: 'hi' }, { type: 'text', text: 'hi' }) },
  ],
  [
    'results stand before what the user said between them; foreign ids are made acceptable',
    {
      messages: [
        hi,
        called('', 'w:0'),
        { role: 'system', content: 'S' },
        { role: 'tool', tool_call_id: 'w:0', content: [{ type: 'text', text: '5C' }] },
      ],
    },
    {
      messages: [
        hiTurn,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'w_0', name: 'w', input: {} }] },
        ...userTurn(
          { type: 'tool_result', tool_use_id: 'w_0', content: [{ type: 'text', text: '5C' }] },
          { type: 'text', text: 'S' },
        ),
      ],
    },
  ],
  [
    'an empty result',
    { messages: [hi, called('{}'), { role: 'tool', tool_call_id: 'call_1', content: '' }] },
    {
      messages: [
        hiTurn,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'w', input: {} }] },
        ...userTurn({ type: 'tool_result', tool_use_id: 'call_1' }),
      ],
    },
  ],
]

for (const [title, body, expected, traits] of mappings) {
  test(`mapped: ${title}`, t => {
    const sent = upstreamBody({ model: 'x', messages: [hi], ...body }, traits)
    for (const [field, value] of Object.entries(expected)) t.deepEqual(sent[field], value, field)
    t.is(checkRequest(sent, '2023-06-01'), null)
  })
}
