import { startChatProvider } from '../emulators/chat-rules.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const strict = use(test, () => startChatProvider('openai'))
const chat = use(test, () => startWorld({ OPENAI_BASE_URL: `${strict.url}/v1`, OPENROUTER_API_KEY: '' }))
const responses = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))

test.serial(
  '200: the options of a stream in a request for a whole answer, which OpenAI refuses, are not sent',
  async t => {
    const messages = [{ role: 'user', content: 'Hi' }]
    for (const [path, world, emulator, body] of [
      ['/v1/chat/completions', chat, strict, { messages, stream_options: { include_usage: true } }],
      ['/v1/completions', chat, strict, { prompt: 'Hi', stream_options: { include_usage: true } }],
      ['/v1/responses', responses, responses.openai, { input: 'Hi', stream_options: { include_obfuscation: false } }],
    ] as const)
      for (const stream of [undefined, false]) {
        const { live: key } = await world.gateway.account()
        const response = await world.gateway.fetch(path, { key, body: { model: 'gpt-4.1', stream, ...body } })
        t.is(response.status, 200, await response.text())
        t.is(response.headers.get('x-gateway-dropped'), null)
        t.false('stream_options' in emulator.requests.at(-1)!.body)
      }
  },
)
