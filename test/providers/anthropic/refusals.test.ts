import { GatewayError } from '../../../shared/base/errors.ts'
import { adapter, called, callOf, hi, image, parts, tool } from '../../support/providers/anthropic.ts'
import { test } from '../../support/test.ts'

const file = (fields: object) => parts({ type: 'file', file: fields })
const refusedRequests: [param: string, code: string, body: object][] = [
  ['messages', 'invalid_request', { messages: [{ role: 'user', content: ' ' }] }],
  ['n', 'unsupported_capability', { n: 2 }],
  ['logprobs', 'unsupported_capability', { logprobs: true }],
  ['modalities', 'unsupported_capability', { modalities: ['text', 'audio'], audio: { voice: 'v', format: 'wav' } }],
  ['modalities', 'unsupported_capability', { modalities: ['image', 'text'] }],
  ['functions', 'unsupported_capability', { functions: [{ name: 'w' }] }],
  [
    'tool_choice.allowed_tools',
    'unsupported_capability',
    { tools: [tool], tool_choice: { type: 'allowed_tools', allowed_tools: {} } },
  ],
  [
    'tool_choice.function.name',
    'invalid_request',
    { tools: [tool], tool_choice: { type: 'function', function: { name: 'z' } } },
  ],
  ['tool_choice', 'invalid_request', { tool_choice: 'required' }],
  [
    'messages.0.content.1.input_audio',
    'unsupported_capability',
    parts({ type: 'text', text: 'a' }, { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } }),
  ],
  ['messages.0.content.0.image_url.url', 'unsupported_capability', image('data:image/bmp;base64,AAAA')],
  ['messages.0.content.0.image_url.url', 'invalid_request', image('http://a.example/b.png')],
  ['messages.0.content.0.image_url.url', 'invalid_request', image('data:image/png,AAAA')],
  ['messages.0.content.0.image_url.url', 'invalid_request', image('data:image/png;base64,')],
  ['messages.0.content.0.file.file_data', 'invalid_request', file({ filename: 'a.pdf' })],
  ['messages.0.content.0.file.file_data', 'unsupported_capability', file({ file_data: 'data:text/csv;base64,AAAA' })],
  ['messages.1.audio', 'unsupported_capability', { messages: [hi, { role: 'assistant', audio: { id: 'a' } }] }],
  [
    'messages.1.tool_call_id',
    'invalid_request',
    { messages: [hi, { role: 'tool', tool_call_id: 'call_1', content: '1' }] },
  ],
  [
    'messages.2.tool_call_id',
    'invalid_request',
    { messages: [hi, called('{}'), { role: 'tool', tool_call_id: 'call_9', content: '1' }] },
  ],
  ['messages.1.role', 'unsupported_capability', { messages: [hi, { role: 'function', name: 'w', content: '1' }] }],
  [
    'response_format.json_schema.schema',
    'invalid_request',
    { response_format: { type: 'json_schema', json_schema: { name: 'x' } } },
  ],
]

for (const [index, [param, code, body]] of refusedRequests.entries()) {
  test(`400 ${code} on ${param} (${index})`, t => {
    const error = t.throws(() => adapter.request(callOf({ model: 'x', messages: [hi], ...body })), {
      instanceOf: GatewayError,
    })
    t.deepEqual([error?.status, error?.code, error?.param], [400, code, param])
    t.true(error!.message.includes(param))
  })
}

test('200 without a thinking field where thinking cannot be turned off', t => {
  const call = callOf(
    { model: 'x', messages: [hi], reasoning_effort: 'none' },
    { thinking: 'adaptive', thinking_off: false },
  )
  t.false('thinking' in JSON.parse(String(adapter.request(call).body)))
})
