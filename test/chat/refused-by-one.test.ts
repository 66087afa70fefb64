import { events, json } from '../emulators/emulator.ts'
import { chatReply, startOpenAiEmulator } from '../emulators/openai.ts'
import { saying, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Refusals and faults of one provider that another need not share: the request goes on there. */
const groq = use(test, startOpenAiEmulator)
const together = use(test, startOpenAiEmulator)
const world = use(test, () =>
  startWorld({
    GROQ_API_KEY: upstreamSecret,
    GROQ_BASE_URL: `${groq.url}/v1`,
    TOGETHER_API_KEY: upstreamSecret,
    TOGETHER_BASE_URL: `${together.url}/v1`,
  }),
)
test.beforeEach(() => {
  groq.reset()
  together.reset()
})

const atGroq = { provider: { only: ['groq'] } }
const firstGroq = { provider: { order: ['groq'], only: ['groq', 'together'] } }

async function ask(body: object, path = '/v1/chat/completions') {
  const { live } = await world.gateway.account()
  const response = await world.gateway.fetch(path, { key: live, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** What OpenRouter sends of a server behind it that broke off: earendil-works/pi#8511. */
const brokenOff = { finish_reason: 'stop', native_finish_reason: 'network_error' }
for (const stream of [false, true])
  test.serial(
    `200 from another provider when a stop hides that the server behind broke off (stream: ${stream})`,
    async t => {
      const message = { role: 'assistant', content: '' }
      const choice = { index: 0, ...brokenOff }
      const head = { id: 'gen-1', created: 1_795_132_800, model: 'up' }
      groq.next(
        stream
          ? events([
              `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ ...choice, delta: message }] })}\n\n`,
              'data: [DONE]\n\n',
            ])
          : json(200, { ...head, object: 'chat.completion', choices: [{ ...choice, message }] }),
      )
      const answer = await ask(saying('gpt-oss-20b', 'Hello', { ...firstGroq, stream }))
      t.is(answer.status, 200, answer.text)
      t.is(answer.headers.get('x-gateway-provider'), 'together')
    },
  )

test.serial(
  '200 from another provider for more images than a provider takes, which is not called; 400 without another',
  async t => {
    const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
    const asking = (count: number, provider: object) => ({
      model: 'llama-4-scout',
      messages: Array.from({ length: count }, () => ({
        role: 'user',
        content: [{ type: 'text', text: 'See' }, picture],
      })),
      provider,
    })
    const both = firstGroq.provider
    // earendil-works/pi#120
    const tooMany = { error: { message: 'Too many images provided. This model supports up to 5 images' } }
    groq.next(json(400, tooMany))
    const answer = await ask(asking(6, both))
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-provider'), 'together')
    t.deepEqual([groq.requests.length, together.requests.length], [0, 1])
    const alone = await ask(asking(6, { only: ['groq'] }))
    t.is(alone.status, 400, alone.text)
    t.like(JSON.parse(alone.text).error, { code: 'unsupported_capability', param: 'messages' })
    groq.reset()
    const five = await ask(asking(5, both))
    t.is(five.status, 200, five.text)
    t.is(groq.requests.length, 1)
  },
)

test.serial('200 from another provider for several answers where one gives one; 400 without another', async t => {
  // stanfordnlp/dspy#1155
  groq.next(json(400, { error: { message: "'n' : number must be at most 1" } }))
  const answer = await ask(saying('llama-3.3-70b-instruct', 'Hello', { ...firstGroq, n: 2 }))
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-provider'), 'together')
  t.deepEqual([groq.requests.length, together.requests[0]!.body.n], [0, 2])
  const alone = await ask(saying('llama-3.3-70b-instruct', 'Hello', { ...atGroq, n: 2 }))
  t.is(alone.status, 400, alone.text)
  t.like(JSON.parse(alone.text).error, { code: 'unsupported_capability', param: 'n' })
  groq.reset()
  const one = await ask(saying('llama-3.3-70b-instruct', 'Hello', { ...firstGroq, n: 1 }))
  t.is(one.status, 200, one.text)
  t.is(groq.requests.length, 1)
})

/** The account at a provider is at fault, with a status that is the request's elsewhere (reason-beside-status.ts has the sources). */
const accountFaults: [name: string, model: string, status: number, body: object][] = [
  [
    'suspended for unpaid invoices (412)',
    'llama-3.3-70b-instruct',
    412,
    {
      error: {
        message: 'Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay',
        param: null,
        code: 'PRECONDITION_FAILED',
        type: 'error',
      },
    },
  ],
  [
    'in arrears (400)',
    'llama-4-scout',
    400,
    { error: { code: 'Arrearage', message: 'Access denied, please make sure your account is in good standing.' } },
  ],
  [
    'whose key is wrong (400)',
    'gpt-oss-20b',
    400,
    { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: na***ys.' },
  ],
]
for (const [name, model, status, body] of accountFaults) {
  test.serial(`200 from another provider for an account ${name}`, async t => {
    groq.next(json(status, body))
    const answer = await ask(saying(model, 'Hello', firstGroq))
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-provider'), 'together')
    t.deepEqual([groq.requests.length, together.requests.length], [1, 1])
  })
}

test.serial('400 for a text that a provider refuses with 403, in each format; its key stays in use', async t => {
  const refusal = json(403, {
    code: 'The caller does not have permission to execute the specified operation',
    error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO',
  })
  const body = saying('gpt-oss-120b', 'Hello', { ...atGroq, max_tokens: 50 })
  for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses']) {
    groq.reset()
    groq.next(refusal)
    const sent = path === '/v1/responses' ? { model: 'gpt-oss-120b', input: 'Hello', ...atGroq } : body
    const answer = await ask(sent, path)
    t.is(answer.status, 400, answer.text)
    t.regex(JSON.parse(answer.text).error.message, /^Content violates usage guidelines/)
    t.is(groq.requests.length, 1)
  }
  groq.next(chatReply())
  t.is((await ask(body)).status, 200)
})
