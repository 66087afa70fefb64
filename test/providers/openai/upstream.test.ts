import { type Dispatcher, request } from 'undici'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { UpstreamRequest } from '../../../shared/providers/contract.ts'
import { createSandbox } from '../../../shared/providers/sandbox/upstream.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { call } from '../../support/providers/openai-call.ts'
import { type ExecutionContext, test } from '../../support/test.ts'

const { chat, completion, embedding } = openai.direct as Required<typeof openai.direct>

type Upstream = { url: string; echo: string; dispatcher?: Dispatcher; close(): Promise<void> }
const upstreams: Record<string, () => Promise<Upstream>> = {
  async emulator() {
    const emulator = await startOpenAiEmulator()
    return { url: `${emulator.url}/v1`, echo: 'Echo: Hello, 世界', close: () => emulator.close() }
  },
  async sandbox() {
    const dispatcher = createSandbox()
    return { url: 'http://sandbox.invalid/v1', echo: 'Hello, 世界', dispatcher, close: () => dispatcher.destroy() }
  },
}

for (const [name, start] of Object.entries(upstreams)) {
  const open = async (t: ExecutionContext) => {
    const upstream = await start()
    t.teardown(() => upstream.close())
    return async ({ path, headers, body, method }: UpstreamRequest) => {
      const options = { method, body, headers: { ...headers, authorization: 'Bearer sk-test' } }
      const answer = await request(upstream.url + path, {
        ...options,
        ...(upstream.dispatcher && { dispatcher: upstream.dispatcher }),
      })
      return { text: await answer.body.text(), echo: upstream.echo, headers: answer.headers, status: answer.statusCode }
    }
  }
  const asked = { model: 'a', messages: [{ role: 'user', content: 'Hello, 世界' }] }

  test(`answered by the ${name}: chat, whole and streamed, with the same usage`, async t => {
    const send = await open(t)
    const whole = await send(chat.request(call<'chat'>(asked)))
    const { choices, usage } = chat.answer(JSON.parse(whole.text), call<'chat'>(asked))
    t.is(choices[0]?.message.content, whole.echo)

    const streamed = await send(chat.request(call<'chat'>({ ...asked, stream: true })))
    const decoder = chat.stream!(call<'chat'>(asked))
    const events = streamed.text
      .split('\n\n')
      .filter(Boolean)
      .map(line => ({ event: '', data: line.replace(/^data: /, '') }))
    const chunks = events.flatMap(one => decoder.push(one))
    t.is(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join(''), whole.echo)
    t.deepEqual(chunks.at(-1)?.usage, usage)
    t.true(decoder.done)
  })

  test(`answered by the ${name}: embeddings and completions`, async t => {
    const send = await open(t)
    const vectors = call<'embedding'>({ model: 'a', input: ['x', 'y'], encoding_format: 'base64', dimensions: 4 })
    const { data, usage } = embedding.answer(JSON.parse((await send(embedding.request(vectors))).text), vectors)
    t.is(Buffer.from(String(data[1]?.embedding), 'base64').length, 16)
    t.true(usage!.prompt_tokens > 0)
    const text = call<'completion'>({ model: 'a', prompt: 'Hello, 世界', max_tokens: 9 })
    const sentText = await send(completion.request(text))
    t.is(completion.answer(JSON.parse(sentText.text), text).choices[0]?.text, sentText.echo)
  })

  test(`${name === 'sandbox' ? '429' : '404'} of the ${name} is understood`, async t => {
    const send = await open(t)
    const limited = chat.request(
      call<'chat'>({ ...asked, messages: [{ role: 'user', content: 'sandbox:rate_limit' }] }),
    )
    const { status, headers, text } = await send(name === 'sandbox' ? limited : { ...limited, path: '/lost' })
    const failed = openai.failure(status, headers, text)
    t.deepEqual(
      [failed.reason, failed.retryAfterMs],
      name === 'sandbox' ? ['rate_limited', 1000] : ['model_unavailable', null],
    )
  })
}
