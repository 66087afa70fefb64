import { KeepAlive } from '../../../shared/io/keep-alive.ts'
import { cutMidStream, errorMidStream } from '../../emulators/anthropic.ts'
import { events, type Reply, reset } from '../../emulators/emulator.ts'
import { cutStream } from '../../emulators/gemini.ts'
import { chatReply } from '../../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, saying, startWorld } from '../../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

const question = 'Tell me a long story about a fox'

async function ask(key: string, model: string, more: object = {}, to = world) {
  const response = await to.gateway.fetch('/v1/chat/completions', { key, body: saying(model, question, more) })
  return { response, headers: response.headers, status: response.status, text: await response.text() }
}

function chunk(delta: object, finish_reason: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason }]
  return `data: ${JSON.stringify({ id: 'chatcmpl-e', object: 'chat.completion.chunk', created: 7, model: 'up', choices })}\n\n`
}
const begun = [chunk({ role: 'assistant', content: '' }), chunk({ content: 'Once upon a time' })]
const geminiChunk = `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text: 'Once upon' }] }, index: 0 }] })}\n\n`

const breaks: [title: string, model: string, reply: Reply, code: string, text: RegExp][] = [
  ['OpenAI, connection cut', 'gpt-4.1', chatReply({ cutAfter: 4 }), 'upstream_error', /^Echo: /],
  ['OpenAI, stream ended early', 'gpt-4.1', events(begun), 'upstream_error', /^Once upon a time$/],
  ['OpenAI, error event', 'gpt-4.1', chatReply({ errorAfter: 4 }), 'upstream_error', /^Echo: /],
  [
    'OpenAI, error in the same packet as text',
    'gpt-4.1-mini',
    events([begun.join(''), `${chunk({ content: ' more' })}data: {"error":{"message":"Oops"}}\n\n`]),
    'upstream_error',
    /^Once upon a time more$/,
  ],
  [
    'OpenAI, malformed chunk',
    'gpt-4.1-mini',
    events([...begun, 'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"st\n\n']),
    'upstream_invalid_response',
    /^Once upon a time$/,
  ],
  [
    'OpenAI, cut after the finishing piece was kept back',
    'gpt-4o',
    events([...begun, chunk({ content: '!' }, 'stop')], { end: 'cut' }),
    'upstream_error',
    /^Once upon a time!$/,
  ],
  ['Anthropic, connection cut', 'claude-sonnet-5', cutMidStream, 'upstream_error', /^Half/],
  ['Anthropic, error event', 'claude-sonnet-5', errorMidStream(), 'upstream_error', /^Half/],
  ['Gemini, connection cut', 'gemini-3.5-flash', cutStream(['Once upon', ' a time']), 'upstream_error', /^Once upon a/],
  [
    'Gemini, malformed chunk',
    'gemini-3.5-flash',
    events([geminiChunk, 'data: {oops\n\n']),
    'upstream_invalid_response',
    /^Once upon$/,
  ],
]
for (const [title, model, reply, code, expected] of breaks) {
  test.serial(`200, then one error event and no [DONE]: ${title}`, async t => {
    const { openai, anthropic, gemini } = world
    for (const emulator of [openai, anthropic, gemini]) emulator.next(reply)
    const account = await world.gateway.account()
    const { status, text, headers } = await ask(account.live, model, { stream: true })
    t.is(status, 200)
    const data = dataOf(text)
    const last = data.pop()
    t.deepEqual(last.choices, [{ index: 0, delta: {}, finish_reason: 'error' }])
    t.like(last, { object: 'chat.completion.chunk', error: { code, type: 'server_error' } })
    t.regex(last.error.message, / Server error \(provider returned error\): please retry your request\.$/)
    t.deepEqual(
      last.error.metadata.attempts.map((attempt: { provider: string }) => attempt.provider),
      [headers.get('x-gateway-provider')],
    )
    t.truthy(last.id)
    // By this beginning go-openai tells it from another chunk.
    t.regex(text, /\n\ndata: {"error":{[^\n]+\n\n$/)
    t.regex(data.map(({ choices }) => choices[0].delta.content ?? '').join(''), expected)
    t.true(data.every(({ choices, error }) => choices[0].finish_reason === null && !error))
    const row = await generationOf(world, headers.get('x-generation-id')!)
    t.like(row, { errorCode: code, finishReason: 'error', status: 502, estimated: true })
    const charged = await chargedNano(world, account)
    t.is(charged, Number(row.costNano))
    const delivered = { prompt_tokens: 30, completion_tokens: 20, total_tokens: 50 }
    t.true(charged > 0 && charged < expectedNano(model, delivered), String(charged))
  })
}

test.serial('200, whole, though the provider keeps the connection open after [DONE]', async t => {
  world.openai.next(events([...begun, chunk({}, 'stop'), 'data: [DONE]\n\n'], { end: 'hang' }))
  const { live } = await world.gateway.account()
  const { text } = await ask(live, 'gpt-4.1', { stream: true })
  t.is(dataOf(text).at(-1), '[DONE]')
})

/** Makes silent streams give a sign of life every `silenceMs` for the rest of a test. */
function keepAliveEvery(silenceMs: number, t: ExecutionContext): void {
  const { services } = world.gateway
  const { keepAlive } = services
  services.keepAlive = new KeepAlive(silenceMs)
  t.teardown(() => {
    services.keepAlive = keepAlive
  })
}

/** A reply that says nothing until it is broken. */
function breakable(): { reply: Reply; cut(): void } {
  let cut = () => {}
  const reply: Reply = (_request, response) => {
    cut = () => response.socket?.resetAndDestroy()
  }
  return { reply, cut: () => cut() }
}

test.serial(
  '200 with keep-alive comments while the provider is silent, and still another provider after it',
  async t => {
    keepAliveEvery(20, t)
    const { reply, cut } = breakable()
    world.openai.next(reply)
    const { live } = await world.gateway.account()
    const body = saying('gpt-5', question, { stream: true })
    const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body })
    t.is(response.status, 200, 'the first comment opened the stream')
    let text = ''
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      text += part
      if (text.split(': keep-alive\n\n').length > 3) cut()
    }
    const data = dataOf(text)
    t.is(data.at(-1), '[DONE]')
    t.is(data[0].provider, 'openrouter')
    t.regex(text, /^(: keep-alive\n\n){3,}data: /)
  },
)

test.serial('200, then an error event, when every provider fails after keep-alives have opened the stream', async t => {
  keepAliveEvery(10, t)
  const { reply, cut } = breakable()
  world.openai.next(reply, ...Array<Reply>(20).fill(reset))
  const account = await world.gateway.account()
  const body = saying('gpt-4o', question, { stream: true })
  const response = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body })
  t.is(response.status, 200)
  cut()
  const data = dataOf(await response.text())
  t.is(data.length, 1)
  t.like(data[0], { object: 'chat.completion.chunk', model: 'gpt-4o', error: { code: 'upstream_error' } })
  t.is(data[0].choices[0].finish_reason, 'error')
  t.like(await generationOf(world, response.headers.get('x-generation-id')!), { status: 502, costNano: 0n })
  t.is(await chargedNano(world, account), 0)
})
