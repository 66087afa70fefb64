import test from 'ava'
import { baseUrl, liveKey, requestsTo } from './support/environment.ts'
import { marker, targets, weather } from './support/samples.ts'

/**
 * Requests as coding agents send them on the chat route, beyond what the packages of the other tests do: with fields that a
 * provider may not know, and whole conversations with reasoning handed back.
 */
const fields: Record<string, object> = {
  Zed: { parallel_tool_calls: true, prompt_cache_key: 'thread-1', stop: [], temperature: 1 },
  Cline: { reasoning_effort: 'low', stream_options: { include_usage: true }, max_completion_tokens: 4_096 },
  opencode: { store: false, prompt_cache_key: 'session-1', verbosity: 'low', user: 'someone' },
  Continue: { stream_options: { include_usage: true }, max_tokens: 4_096, top_p: 1, presence_penalty: 0 },
  LibreChat: { user: '1234', frequency_penalty: 0, presence_penalty: 0, stream: true },
  'Open WebUI': { metadata: { chat_id: 'c', message_id: 'm' }, safety_identifier: 'someone', chat_id: 'c', id: 'm' },
}

const conversation = (text: string) => [
  { role: 'system', content: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }] },
  { role: 'user', content: 'What is the weather in Oslo?' },
  {
    role: 'assistant',
    content: '',
    reasoning_content: 'I should look.',
    reasoning_details: [{ type: 'reasoning.text', text: 'I should look.', index: 0 }],
    tool_calls: [
      { id: 'call_a', type: 'function', index: 0, function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
    ],
  },
  { role: 'tool', tool_call_id: 'call_a', name: 'weather', content: [{ type: 'text', text: `sunny ${text}` }] },
  { role: 'user', content: [{ type: 'text', text }] },
]

for (const { model, provider } of targets)
  for (const [agent, more] of Object.entries(fields))
    test.serial(
      `200 ${agent}, ${provider}: its fields and query parameters are taken, streamed with tools`,
      async t => {
        const text = `Go on ${marker()}`
        const tools = [{ type: 'function', function: { ...weather, strict: true } }]
        const response = await fetch(`${baseUrl}/chat/completions?api-version=2026-01-01&beta=true`, {
          method: 'POST',
          headers: { authorization: `Bearer ${liveKey}`, 'content-type': 'application/json', 'x-session-id': 'one' },
          body: JSON.stringify({
            model,
            messages: conversation(text),
            tools,
            tool_choice: 'auto',
            stream: true,
            ...more,
          }),
        })
        const answer = await response.text()
        t.is(response.status, 200, answer)
        const events = answer.split('\n\n').filter(event => event.startsWith('data: {'))
        const chunks = events.map(event => JSON.parse(event.slice('data: '.length)))
        t.true(
          chunks
            .map(({ choices }) => choices[0]?.delta.content ?? '')
            .join('')
            .includes(text),
        )
        t.is(chunks.filter(({ usage }) => usage).length, 1)
        t.true(answer.endsWith('data: [DONE]\n\n'))
        const [request] = await requestsTo(provider, text)
        t.true(request!.raw.includes(`sunny ${text}`))
      },
    )
