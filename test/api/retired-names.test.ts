import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

let key: string

const gateway = useGateway(test)
test.before(async () => {
  key = (await gateway.account()).test
})

test('404 for a retired name on every route, with what replaces it; 200 for today’s names of the makers', async t => {
  const messages = [{ role: 'user', content: 'Hi' }]
  const post = (path: string, body: object) => gateway.fetch(path, { key, body })
  const retired: [path: string, body: object, message: RegExp][] = [
    ['/v1/chat/completions', { model: 'o3-mini', messages }, /retired on 2026-10-23\. Use `gpt-5\.6-sol` instead/],
    ['/v1/messages', { model: 'claude-sonnet-4-0', messages, max_tokens: 9 }, /Use `claude-sonnet-4-6` instead/],
    [
      '/v1/chat/completions',
      { model: 'gpt-4o-audio-preview', messages },
      /retired on 2026-05-07\. Use `gpt-audio-1\.5` instead/,
    ],
    [
      '/v1/realtime/client_secrets',
      { session: { model: 'gpt-4o-realtime-preview' } },
      /retired on 2026-05-07\. Use `gpt-realtime-2\.1` instead/,
    ],
    ['/v1/responses', { model: 'gpt-5-codex', input: 'Hi' }, /Use `gpt-5\.6-sol` instead/],
    ['/v1/embeddings', { model: 'text-embedding-004', input: 'Hi' }, /Use `gemini-embedding-001` instead/],
    ['/v1/images/generations', { model: 'dall-e-3', prompt: 'A cat' }, /Use `gpt-image-2` instead/],
  ]
  for (const [path, body, message] of retired) {
    const response = await post(path, body)
    const { error } = (await response.json()) as { error: { message: string } }
    t.is(response.status, 404, path)
    t.regex(error.message, message)
  }
  for (const model of ['gpt-5.6', 'models/gemini-3-flash-preview', 'mistral-large-latest', 'claude-haiku-5-5'])
    t.is((await post('/v1/chat/completions', { model, messages })).status, 200, model)
  const claude = await post('/v1/messages', { model: 'claude-fable-5-2', messages, max_tokens: 9 })
  t.is(claude.status, 200)
  t.is((await post('/v1/embeddings', { model: 'text-embedding-ada-002', input: 'Hi' })).status, 200)
})
