import { inputMessages, outputMessages } from '../../shared/log-exports/genai-messages.ts'
import { test } from '../support/test.ts'

const call = { type: 'tool_call', id: 'call_1', name: 'sql', arguments: 'SELECT 1' }

test('calls of custom tools are calls, and their outputs responses, in chat and in Responses', t => {
  const custom = { name: 'sql', input: 'SELECT 1' }
  const message = { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'custom', custom }] }
  const chat = { choices: [{ message, finish_reason: 'tool_calls' }] }
  t.deepEqual(outputMessages(chat), [{ role: 'assistant', parts: [call], finish_reason: 'tool_call' }])
  const item = { type: 'custom_tool_call', call_id: 'call_1', ...custom }
  const output = { type: 'custom_tool_call_output', call_id: 'call_1', output: '1' }
  t.deepEqual(inputMessages({ input: [item, output] }).messages, [
    { role: 'user', parts: [call] },
    { role: 'tool', parts: [{ type: 'tool_call_response', id: 'call_1', response: '1' }] },
  ])
})

test('serialised as JSON: a thinking text that is no string', t => {
  const thinking = { type: 'thinking', thinking: { toString: 1 } }
  const { messages } = inputMessages({ messages: [{ role: 'assistant', content: [thinking] }] })
  t.deepEqual(messages, [{ role: 'assistant', parts: [{ type: 'reasoning', content: '{"toString":1}' }] }])
})
