import { after, events, hang } from '../../emulators/emulator.ts'
import { chatChunk, reply } from '../../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, saying, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, () =>
  startWorld({
    UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '1200',
    UPSTREAM_IDLE_TIMEOUT_MS: '1200',
    UPSTREAM_TOTAL_TIMEOUT_MS: '5000',
  }),
)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

async function ask(key: string, body: object) {
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

for (const stream of [false, true]) {
  const model = stream ? 'claude-opus-4-6' : 'gpt-5'
  test.serial(`200 from the second provider when the first never begins (stream: ${stream})`, async t => {
    for (const emulator of [world.openai, world.anthropic]) emulator.next(hang)
    const account = await world.gateway.account()
    const { status, headers, text } = await ask(account.live, saying(model, 'Hello', { stream }))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-provider'), 'openrouter')
    t.is(headers.get('x-gateway-attempts'), '2')
    const { usage } = stream ? dataOf(text).at(-2) : JSON.parse(text)
    t.is(await chargedNano(world, account), expectedNano(model, usage, { provider: 'openrouter' }))
  })

  test.serial(
    `504 when no provider begins in time; the aborted upstreams cost nothing (stream: ${stream})`,
    async t => {
      for (const emulator of [world.openai, world.anthropic, world.openrouter]) emulator.next(hang)
      const account = await world.gateway.account()
      const { status, headers, text } = await ask(account.live, saying(model, 'Hello', { stream }))
      t.is(status, 504)
      const { error } = JSON.parse(text)
      t.like(error, { code: 'upstream_timeout', type: 'upstream_error' })
      t.deepEqual(
        error.metadata.attempts.map(({ reason }: { reason: string }) => reason),
        ['timeout', 'timeout'],
      )
      await Promise.all([...world.openai.requests, ...world.anthropic.requests].map(({ aborted }) => aborted))
      t.is(await chargedNano(world, account), 0)
      t.like(await generationOf(world, headers.get('x-generation-id')!), { status: 504, errorCode: 'upstream_timeout' })
    },
  )
}

test.serial('200, then an error event of code upstream_timeout, when a stream falls silent', async t => {
  const choices = [{ index: 0, delta: { role: 'assistant', content: 'Once upon a time' }, finish_reason: null }]
  const begun = `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices })}\n\n`
  world.openai.next(events([begun], { end: 'hang' }))
  const account = await world.gateway.account()
  const { status, text } = await ask(account.live, saying('gpt-4.1', 'Hello', { stream: true }))
  t.is(status, 200)
  const data = dataOf(text)
  t.is(data.length, 2)
  t.like(data[1], { error: { code: 'upstream_timeout' } })
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('200 for whole answers that begin after the limit of a first byte, on every route', async t => {
  const { live } = await world.gateway.account()
  const paths: [path: string, body: object][] = [
    ['/v1/chat/completions', saying('gpt-4.1')],
    ['/v1/messages', saying('gpt-4.1', 'Hello', { max_tokens: 100 })],
    ['/v1/completions', { model: 'gpt-4.1', prompt: 'Hello' }],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello' }],
  ]
  world.openai.next(...paths.map(() => after(1_500, reply)))
  const responses = await Promise.all(paths.map(([path, body]) => world.gateway.fetch(path, { key: live, body })))
  for (const response of responses) t.is(response.status, 200, await response.text())
  t.is(world.openai.requests.length, paths.length)
})

test.serial('504 when a provider sends nothing but comments for the time of silence', async t => {
  const { live } = await world.gateway.account()
  const comments = Array.from({ length: 30 }, (_, i) => (i % 2 ? ': PROCESSING\n\n' : ':\r\n\r\n'))
  const late = [chatChunk({ role: 'assistant', content: 'Late' }), chatChunk({}, 'stop')]
  const pieces = [...comments, ...late.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`), 'data: [DONE]\n\n']
  world.openai.next(events(pieces, { intervalMs: 100 }))
  const { status, text } = await ask(live, saying('gpt-4.1', 'Hello', { stream: true }))
  t.is(status, 504, text)
  await world.openai.requests[0]!.aborted
})
