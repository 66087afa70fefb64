import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { Webhook } from 'standardwebhooks'
import { operatorActor } from '../../shared/io/audit.ts'
import { getWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { events, json, type Reply } from '../emulators/emulator.ts'
import { chatChunk } from '../emulators/openai.ts'
import { chargedNano, dataOf, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { keepingAccount } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { allow, questionsOf, startGuard, verdict } from '../support/webhooks/guard.ts'
import { hang, status } from '../support/webhooks/receiver.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any

const world = use(test, () =>
  startWorld({ ENCRYPTION_KEY: 'a-secret-of-enough-characters-0123456789', ALLOW_PRIVATE_URLS: 'true' }),
)
const guard = use(test, startGuard)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
  guard.received.length = 0
  guard.always = allow
})

const gpt = 'gpt-4o-mini'
const claude = 'claude-sonnet-4-5'
const gemini = 'gemini-2.5-flash'
const address = 'jane.doe@example.com'
const card = '4111 1111 1111 1111'
const prompt = `Write to ${address} about ${card} today`
const masked = 'Write to [EMAIL_1] about [CARD_1] today'
const detect = (action: 'mask' | 'block', on: 'input' | 'output' | 'both' = 'input') =>
  (['email', 'card'] as const).map(type => ({ type, action, on }))
const rules = (more: object = {}) => ({ detectors: [], webhook: null, other_kinds: 'refuse' as const, ...more })
const masking = rules({ detectors: detect('mask') })
const asking = (more: object = {}) =>
  rules({ webhook: { url: guard.url, on: 'both', timeout_ms: 2_000, on_failure: 'fail_closed', ...more } })

const accountOf = (guardrails: Any, more: object = {}) => world.gateway.account({ guardrails, ...more })
const sent = () => [world.openai, world.anthropic, world.gemini, world.openrouter].flatMap(({ requests }) => requests)

async function post(key: string, path: string, body: object, headers: Record<string, string> = {}) {
  const response = await world.gateway.fetch(path, { key, body, headers })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text) as Any }
}
const chat = (key: string, body: object) => post(key, '/v1/chat/completions', body)

/** Asks in a dialect by the official client; returns the text of the answer. */
const clients: Record<string, (key: string, text: string, stream: boolean) => Promise<string>> = {
  async 'chat completions'(key, text, stream) {
    const { completions } = world.sdk(key).chat
    const body = { model: gpt, messages: [{ role: 'user' as const, content: text }] }
    if (!stream) return (await completions.create(body)).choices[0]!.message.content!
    let all = ''
    for await (const chunk of await completions.create({ ...body, stream }))
      all += chunk.choices[0]?.delta.content ?? ''
    return all
  },
  async completions(key, text, stream) {
    const { completions } = world.sdk(key)
    const body = { model: gpt, prompt: text, max_tokens: 200 }
    if (!stream) return (await completions.create(body)).choices[0]!.text
    let all = ''
    for await (const chunk of await completions.create({ ...body, stream })) all += chunk.choices[0]?.text ?? ''
    return all
  },
  messages: (key, text, stream) => askMessages(key, claude, text, stream),
  'messages translated': (key, text, stream) => askMessages(key, gpt, text, stream),
  async responses(key, text, stream) {
    const { responses } = world.sdk(key)
    const body = { model: gpt, input: text, store: false }
    if (!stream) return (await responses.create(body)).output_text
    let all = ''
    let last: Any
    for await (const event of await responses.create({ ...body, stream })) {
      if (event.type === 'response.output_text.delta') all += event.delta
      last = event
    }
    if (last.response.output[0].content[0].text !== all) throw new Error('the last event has another text')
    return all
  },
  generateContent: (key, text, stream) => askGemini(key, gemini, text, stream),
  'generateContent translated': (key, text, stream) => askGemini(key, gpt, text, stream),
}

async function askMessages(apiKey: string, model: string, text: string, stream: boolean): Promise<string> {
  const { messages } = new Anthropic({ apiKey, baseURL: world.gateway.url, maxRetries: 0 })
  const body = { model, max_tokens: 200, messages: [{ role: 'user' as const, content: text }] }
  const message = stream ? await messages.stream(body).finalMessage() : await messages.create(body)
  return message.content.map(block => (block.type === 'text' ? block.text : '')).join('')
}

async function askGemini(apiKey: string, model: string, contents: string, stream: boolean): Promise<string> {
  const { models } = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: world.gateway.url } })
  if (!stream) return (await models.generateContent({ model, contents })).text!
  let all = ''
  for await (const part of await models.generateContentStream({ model, contents })) all += part.text ?? ''
  return all
}

for (const [name, ask] of Object.entries(clients))
  for (const stream of [false, true]) {
    const how = `${name}${stream ? ', streamed' : ''}`
    test.serial(`200 with values masked for the provider and restored for the caller: ${how}`, async t => {
      const { live } = await accountOf(masking)
      const text = await ask(live, prompt, stream)
      t.true(text.includes(prompt), text)
      const bodies = sent().map(({ body }) => JSON.stringify(body))
      t.true(bodies.length > 0)
      for (const body of bodies) {
        t.true(body.includes(masked), body)
        t.false(body.includes(address) || body.includes(card), body)
      }
    })

    test.serial(`400 without a call or a charge for what is blocked: ${how}`, async t => {
      const account = await accountOf(rules({ detectors: detect('block') }))
      const error: Any = await t.throwsAsync(() => ask(account.live, prompt, stream))
      t.is(error.status, 400)
      t.true(error.message.includes('an email address'), error.message)
      t.false(error.message.includes(address))
      t.is(sent().length, 0)
      t.is(await chargedNano(world, account), 0)
    })

    test.serial(`200 with the texts that a webhook replaced: ${how}`, async t => {
      const { live } = await accountOf(asking())
      guard.always = (request, response) => {
        const { texts } = questionsOf(guard).at(-1)!
        const changed = texts.map(({ id, text }) => ({
          id,
          text: text.replace('Hello', 'Goodbye').replace('Echo', 'Reply'),
        }))
        verdict({ action: 'replace', texts: changed })(request, response)
      }
      t.true((await ask(live, 'Hello there', stream)).startsWith('Reply: Goodbye there'))
      t.true(JSON.stringify(sent().at(-1)!.body).includes('Goodbye there'))
      const questions = questionsOf(guard)
      t.deepEqual(
        questions.map(({ type }) => type),
        ['guardrail.input', 'guardrail.output'],
      )
      t.deepEqual(
        questions[0]!.texts.map(({ role, text }) => [role, text]),
        [['user', 'Hello there']],
      )
      t.true(questions[1]!.texts[0]!.text.includes('Echo: Goodbye there'))
    })

    test.serial(`error of an answer that a webhook blocks, which is charged: ${how}`, async t => {
      const account = await accountOf(asking({ on: 'output' }))
      guard.always = verdict({ action: 'block', reason: 'off topic' })
      const error: Any = await t.throwsAsync(() => ask(account.live, 'Hello there', stream))
      t.true(error.message.includes('off topic'), error.message)
      t.is(error.status, 400)
      t.true((await chargedNano(world, account)) > 0)
      const row = await world.gateway.services.db.generation.findFirstOrThrow({
        where: { organisationId: account.organisationId },
      })
      t.is(row.errorCode, 'guardrail_blocked')
      t.is(row.status, 400)
      t.deepEqual((row.routing as Any).guardrails, { output: { webhook: 'blocked' } })
    })
  }

test.serial('200 with the header, the row of the log and the metric of what was done', async t => {
  const { live } = await accountOf(masking)
  const answer = await chat(live, saying(gpt, `${prompt}, ${address}`))
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-guardrails'), 'input;masked=3')
  const row = await generationOf(world, answer.headers.get('x-generation-id')!)
  t.deepEqual((row.routing as Any).guardrails, { input: { masked: 3 } })
})

test.serial('200 with the bytes of a request in which nothing was found', async t => {
  const { live } = await accountOf(masking)
  const raw = `{ "model":"${claude}", "max_tokens": 5e1, "messages":[{"content":"Hi \\u00e9","role":"user"}] }`
  const response = await fetch(`${world.gateway.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': live, 'content-type': 'application/json' },
    body: raw,
  })
  t.is(response.status, 200)
  t.true(world.anthropic.requests[0]!.raw.toString().includes('"content":"Hi \\u00e9","role":"user"'), 'as it was sent')
})

test.serial('200 with texts of every role masked: tools, their calls and results', async t => {
  const { live } = await accountOf(masking)
  const call = (id: string, args: object) => ({
    id,
    type: 'function',
    function: { name: 'find', arguments: JSON.stringify(args) },
  })
  const messages = [
    { role: 'system', content: `You serve ${address}.` },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Hi' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
      ],
    },
    { role: 'assistant', content: null, tool_calls: [call('call_1', { query: `a\n${address}` })] },
    { role: 'tool', tool_call_id: 'call_1', content: `Found ${card}` },
  ]
  const tools = [
    {
      type: 'function',
      function: { name: 'find', description: `Ask ${address}`, parameters: { type: 'object', properties: {} } },
    },
  ]
  const answer = await chat(live, { model: gpt, messages, tools })
  t.is(answer.status, 200, answer.text)
  const { body } = sent()[0]!
  t.false(JSON.stringify(body).includes(address) || JSON.stringify(body).includes(card))
  t.is(body.messages[0].content, 'You serve [EMAIL_1].')
  t.deepEqual(JSON.parse(body.messages[2].tool_calls[0].function.arguments), { query: 'a\n[EMAIL_1]' })
  t.is(body.messages[3].content, 'Found [CARD_1]')
  t.is(body.tools[0].function.description, 'Ask [EMAIL_1]')

  const anthropic = {
    model: claude,
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'toolu_1', name: 'find', input: { url: `mailto:${address}` } }],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: card }] }],
      },
    ],
    tools: [{ name: 'find', input_schema: { type: 'object' } }],
  }
  const told = await post(live, '/v1/messages', anthropic)
  t.is(told.status, 200, told.text)
  const [, use, result] = world.anthropic.requests[0]!.body.messages
  t.deepEqual(use.content[0].input, { url: 'mailto:[EMAIL_1]' })
  t.is(result.content[0].content[0].text, '[CARD_1]')
})

/** A stream of chat chunks, of texts as they are. */
const streamed = (deltas: object[]): Reply =>
  events([
    ...deltas.map(delta => `data: ${JSON.stringify(chatChunk(delta))}\n\n`),
    `data: ${JSON.stringify(chatChunk({}, 'stop'))}\n\n`,
    `data: ${JSON.stringify(chatChunk({}, null, { choices: [], usage: { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 } }))}\n\n`,
    'data: [DONE]\n\n',
  ])

const contentOf = (text: string) =>
  dataOf(text)
    .map(chunk => chunk.choices?.[0]?.delta?.content ?? '')
    .join('')

test.serial(
  '200 with placeholders that a stream splits between chunks, and those in the arguments of calls',
  async t => {
    const { live } = await accountOf(masking)
    const parts = ['To [', 'EMAIL', '_', '1', '] and [EMA', 'IL_2] and ', '[CARD_1', ']', ' [EMAIL_']
    const call = (args: string, more = {}) => ({ tool_calls: [{ index: 0, ...more, function: { arguments: args } }] })
    const calls = ['{"to":"a\\n[EM', 'AIL_1', ']"', '}'].map(args => call(args))
    world.openai.next(
      streamed([
        ...parts.map(content => ({ content })),
        call('', { id: 'call_a1', type: 'function', function: { name: 'send', arguments: '' } }),
        ...calls,
      ]),
    )
    const answer = await chat(live, { ...saying(gpt, prompt), stream: true })
    t.is(answer.status, 200, answer.text)
    t.is(contentOf(answer.text), `To ${address} and [EMAIL_2] and ${card} [EMAIL_`)
    const args = dataOf(answer.text)
      .flatMap(chunk => chunk.choices?.[0]?.delta?.tool_calls ?? [])
      .map(call => call.function.arguments)
    t.deepEqual(JSON.parse(args.join('')), { to: `a\n${address}` })
    t.is(answer.text.trim().split('\n').at(-1), 'data: [DONE]')
  },
)

test.serial('200 with 4 MiB of values in place of placeholders at most, streamed or not', async t => {
  const { live } = await accountOf(rules({ detectors: [{ type: 'secret', action: 'mask', on: 'input' }] }))
  const token = `eyJ${'a'.repeat(500)}.eyJ${'b'.repeat(2_000)}.${'c'.repeat(1_000)}`
  const content = '[SECRET_1] '.repeat(10_000)
  const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
  const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }]
  const answers: string[] = []
  world.openai.next(json(200, { id: 'x', object: 'chat.completion', created: 1, model: gpt, choices, usage }))
  answers.push((await chat(live, saying(gpt, `It is ${token}`))).json().choices[0].message.content)
  world.openai.next(streamed([{ content }]))
  answers.push(contentOf((await chat(live, { ...saying(gpt, `It is ${token}`), stream: true })).text))
  for (const answer of answers) {
    t.true(answer.startsWith(`${token} ${token} `))
    t.true(answer.length < 5 * 1024 * 1024, `${answer.length}`)
    t.true(answer.endsWith('[SECRET_1] '))
  }
})

test.serial('200 with what a model reveals masked, streamed or not, but for what its caller said', async t => {
  const { live } = await accountOf(rules({ detectors: detect('mask', 'both') }))
  const reveal = ['Call bob@ex', 'ample.com or ', '[EMAIL_1], not 5555 5555', ' 5555 4444 today']
  world.openai.next(streamed(reveal.map(content => ({ content }))))
  const answer = await chat(live, { ...saying(gpt, `I am ${address}`), stream: true })
  t.is(contentOf(answer.text), `Call [EMAIL_2] or ${address}, not [CARD_1] today`)
  const usage = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 }
  const message = { role: 'assistant', content: reveal.join('') }
  world.openai.next(
    json(200, {
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: gpt,
      usage,
      choices: [{ index: 0, message, finish_reason: 'stop' }],
    }),
  )
  const whole = await chat(live, saying(gpt, `I am ${address}`))
  t.is(whole.json().choices[0].message.content, `Call [EMAIL_2] or ${address}, not [CARD_1] today`)
  t.is(whole.headers.get('x-gateway-guardrails'), 'input;masked=1, output;masked=2')
  for (const { headers } of [answer, whole]) {
    const row = await generationOf(world, headers.get('x-generation-id')!)
    t.deepEqual((row.routing as Any).guardrails, { input: { masked: 1 }, output: { masked: 2 } })
  }
})

test.serial('error of an answer that a detector blocks, of which nothing was sent', async t => {
  const account = await accountOf(rules({ detectors: [{ type: 'card', action: 'block', on: 'output' }] }))
  for (const stream of [false, true]) {
    const answer = await chat(account.live, { ...saying(gpt, `It is ${card}.`), stream })
    t.is(answer.status, 400, answer.text)
    const { error } = answer.json()
    t.is(error.code, 'guardrail_blocked')
    t.deepEqual(error.metadata.guardrail, { side: 'output', guard: 'card' })
    t.regex(error.message, /charged 0\.0\d+ USD/)
    t.false(answer.text.includes(card))
    t.truthy(answer.headers.get('x-generation-id'))
    t.true(Number(answer.headers.get('x-gateway-cost-usd')) > 0)
  }
  t.is(world.openai.requests.length, 2)
})

test.serial('the guard gets a signed request, and placeholders instead of values', async t => {
  const account = await accountOf({ ...asking(), detectors: detect('mask') })
  const answer = await chat(account.live, { ...saying(gpt, prompt), stream: true })
  t.is(answer.status, 200, answer.text)
  t.is(contentOf(answer.text), `Echo: ${prompt}`)
  const { db, sealer } = world.gateway.services
  const { secret } = await getWebhookSecrets({ db, sealer }, account.organisationId, Date.now())
  for (const { body, headers } of guard.received) {
    new Webhook(secret).verify(body, headers)
    t.false(body.includes(address) || body.includes(card))
    t.true(body.includes(masked))
  }
  t.is(guard.received.length, 2)
})

const failures: [name: string, answer: Parameters<typeof guard.once>[0]][] = [
  ['hangs', hang],
  ['answers 500', status(500)],
  ['redirects', status(302, { location: 'http://127.0.0.1:1/' })],
  ['answers no JSON', status(200, {}, 'allowed')],
  ['answers another shape', verdict({ allowed: true })],
  ['replaces an unknown text', verdict({ action: 'replace', texts: [{ id: 'nope', text: 'x' }] })],
  ['answers 5 MB', verdict({ action: 'block', reason: 'x'.repeat(5_000_000) })],
]
for (const [name, answer] of failures)
  test.serial(`503 or 200, as the policy says, when the guard ${name}`, async t => {
    const closed = await accountOf(asking({ timeout_ms: 300, on: 'input' }))
    guard.always = answer
    const refused = await chat(closed.live, saying(gpt))
    t.is(refused.status, 503, refused.text)
    t.is(refused.json().error.code, 'guardrail_unavailable')
    t.is(sent().length, 0)
    t.is(await chargedNano(world, closed), 0)
    const open = await accountOf(asking({ timeout_ms: 300, on_failure: 'fail_open' }))
    const passed = await chat(open.live, saying(gpt))
    t.is(passed.status, 200, passed.text)
    t.is(passed.headers.get('x-gateway-guardrails'), 'input;webhook=failed_open, output;webhook=failed_open')
  })

test.serial('503 without a call once a guard has failed repeatedly', async t => {
  const { live } = await accountOf(asking({ on: 'input' }))
  guard.always = status(500)
  for (let i = 0; i < 5; i++) t.is((await chat(live, saying(gpt))).status, 503)
  const calls = guard.received.length
  const refused = await chat(live, saying(gpt))
  t.is(refused.status, 503)
  t.true(refused.json().error.message.includes('failed repeatedly'))
  t.is(guard.received.length, calls)
})

test.serial(
  '400 for a request that is too large for its guard, which other requests and keys go on to be asked about',
  async t => {
    const { organisationId, live } = await accountOf(asking({ on: 'input', on_failure: 'fail_open' }))
    const other = await world.gateway.key(organisationId, 'live', { guardrails: asking({ on: 'input' }) as Any })
    for (let i = 0; i < 6; i++) {
      const refused = await chat(live, saying(gpt, 'word '.repeat(900_000)))
      t.is(refused.status, 400, refused.text)
      t.is(refused.json().error.code, 'guardrail_blocked')
    }
    t.is(sent().length, 0)
    guard.always = verdict({ action: 'block' })
    for (const key of [live, other]) t.is((await chat(key, saying(gpt))).status, 400)
    t.is(guard.received.length, 2)
  },
)

test.serial(
  'a guard that fails within the time limit of one key is asked for the others of the organisation',
  async t => {
    const { organisationId, live } = await accountOf(asking({ on: 'input' }))
    const hasty = asking({ on: 'input', timeout_ms: 50 })
    const other = await world.gateway.key(organisationId, 'live', { guardrails: hasty as Any })
    guard.always = hang
    for (let i = 0; i < 5; i++) t.is((await chat(other, saying(gpt))).status, 503)
    guard.always = allow
    t.true((await chat(other, saying(gpt))).json().error.message.includes('failed repeatedly'))
    t.is((await chat(live, saying(gpt))).status, 200)
  },
)

test.serial('503 beyond the calls that a key may have under way, also where it fails open', async t => {
  const { organisationId, live } = await accountOf(asking({ on: 'input', timeout_ms: 10_000, on_failure: 'fail_open' }))
  const other = await world.gateway.key(organisationId, 'live', { guardrails: asking({ on: 'input' }) as Any })
  const waiting: (() => void)[] = []
  guard.always = (request, response) => {
    waiting.push(() => verdict({ action: 'block' })(request, response))
  }
  const asked = Array.from({ length: 128 }, () => chat(live, saying(gpt)))
  await eventually(() => waiting.length === 128, 'the guard is asked')
  const refused = await chat(live, saying(gpt))
  t.is(refused.status, 503, refused.text)
  t.is(refused.json().error.code, 'guardrail_unavailable')
  t.is(sent().length, 0)
  guard.always = allow
  t.is((await chat(other, saying(gpt))).status, 200, 'another key is asked for')
  for (const end of waiting) end()
  for (const { status } of await Promise.all(asked)) t.is(status, 400)
  t.is((await chat(live, saying(gpt))).status, 200)
})

test.serial(
  '429 when the answers of guards take too much memory of the process, and none is held afterwards',
  async t => {
    const { live } = await accountOf(asking({ on: 'input', timeout_ms: 10_000, on_failure: 'fail_open' }))
    const memory = world.gateway.services.budgets.guardAnswers
    const waiting: (() => void)[] = []
    guard.always = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write(' '.repeat(4_000_000))
      waiting.push(() => response.end('{"action":"allow"}'))
    }
    const asked = Array.from({ length: 12 }, () => chat(live, saying(gpt)))
    const refused = Promise.race(asked)
    t.is((await refused).status, 429, (await refused).text)
    t.true(memory.bytes <= 32 * 1024 * 1024, `${memory.bytes}`)
    guard.always = allow
    const another = await world.gateway.account({ guardrails: asking({ on: 'input' }) as Any })
    t.is((await chat(another.live, saying(gpt))).status, 200, 'another organisation is asked for')
    for (const end of waiting) end()
    const statuses = (await Promise.all(asked)).map(({ status }) => status)
    t.true(statuses.includes(200))
    t.true(statuses.every(status => status === 200 || status === 429))
    t.is(memory.bytes, 0)
  },
)

test.serial('400 for a guard at a private address', async t => {
  const closed = await startWorld({ ENCRYPTION_KEY: 'a-secret-of-enough-characters-0123456789' })
  t.teardown(() => closed.close())
  const error: Any = await t.throwsAsync(() => closed.gateway.account({ guardrails: asking() as Any }))
  t.is(error.code, 'url_not_allowed')
  t.is(error.param, 'guardrails.webhook.url')
})

test.serial('a guard is not waited for by a client that left', async t => {
  const { live } = await accountOf(asking({ timeout_ms: 10_000 }))
  guard.always = hang
  const controller = new AbortController()
  const asked = fetch(`${world.gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${live}`, 'content-type': 'application/json' },
    body: JSON.stringify(saying(gpt)),
    signal: controller.signal,
  }).catch(() => null)
  await eventually(() => guard.received.length === 1, 'the guard is asked')
  controller.abort()
  await asked
  t.is(sent().length, 0)
})

test.serial('200 from the cache for another caller with other values, each with its own', async t => {
  const account = await accountOf(masking, { cache: { ttl_s: 600 } })
  const ask = async (who: string) => {
    const answer = await chat(account.live, saying(gpt, `Write to ${who}`))
    t.is(answer.status, 200, answer.text)
    t.is(answer.json().choices[0].message.content, `Echo: Write to ${who}`)
    return answer.headers.get('x-gateway-cache')
  }
  t.is(await ask('jane@example.com'), 'miss')
  const { redis } = world.gateway.services
  await eventually(async () => (await redis.zcard(`cache:lru:${account.organisationId}`)) === 1, 'it is stored')
  t.is(await ask('john@example.org'), 'hit')
  t.is(sent().length, 1)
})

test.serial('200 under the guardrails that a key has now, whatever a process remembers', async t => {
  const { live, organisationId } = await accountOf(null)
  t.is((await chat(live, saying(gpt, prompt))).status, 200)
  const { keys, db } = world.gateway.services
  const { hash } = await db.apiKey.findFirstOrThrow({ where: { organisationId, environment: 'live' } })
  const actor = operatorActor
  await keys.patch(organisationId, hash, { guardrails: rules({ detectors: detect('block') }) as Any }, actor)
  t.is((await chat(live, saying(gpt, prompt))).status, 400)
  await keys.patch(organisationId, hash, { guardrails: null }, actor)
  t.is((await chat(live, saying(gpt, prompt))).status, 200)
})

test.serial('400 for kinds and prompts that are not covered, unless the key allows them', async t => {
  const { live } = await accountOf(masking)
  const image = { model: 'gpt-image-1', prompt: 'A cat' }
  for (const [path, body] of [
    ['/v1/images/generations', image],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: [1, 2, 3] }],
    ['/v1/completions', { model: gpt, prompt: [[1, 2, 3]], max_tokens: 5 }],
  ] as const) {
    const answer = await post(live, path, body)
    t.is(answer.status, 400, answer.text)
    t.is(answer.json().error.code, 'guardrail_blocked', path)
  }
  const allowed = await accountOf({ ...masking, other_kinds: 'allow' })
  const tokens = await post(allowed.live, '/v1/embeddings', { model: 'text-embedding-3-small', input: [1, 2, 3] })
  t.is(tokens.status, 200, tokens.text)
})

test.serial('200 with the input of embeddings masked', async t => {
  const { live } = await accountOf(masking)
  const answer = await post(live, '/v1/embeddings', { model: 'text-embedding-3-small', input: [prompt, 'Hi'] })
  t.is(answer.status, 200, answer.text)
  t.deepEqual(sent()[0]!.body.input, [masked, 'Hi'])
})

test.serial('200 with a JSON array of a Gemini stream', async t => {
  const { live } = await accountOf(masking)
  for (const model of [gemini, gpt]) {
    const body = { contents: [{ role: 'user', parts: [{ text: prompt }] }] }
    const answer = await post(live, `/v1beta/models/${model}:streamGenerateContent`, body)
    t.is(answer.status, 200, answer.text)
    t.true(answer.headers.get('content-type')!.startsWith('application/json'))
    const parts = answer.json().flatMap((item: Any) => item.candidates?.[0]?.content?.parts ?? [])
    t.true(
      parts
        .map((part: Any) => part.text)
        .join('')
        .includes(prompt),
      answer.text,
    )
  }
})

test.serial('a stored response has the values of its caller, and its next turn none for the provider', async t => {
  const { live } = await keepingAccount(world, { guardrails: masking })
  const sdk = world.sdk(live)
  const first = await sdk.responses.create({ model: gpt, input: prompt, store: true })
  t.is(first.output_text, `Echo: ${prompt}`)
  const stored = await sdk.responses.retrieve(first.id)
  t.true(JSON.stringify(stored.output).includes(address))
  const next = await sdk.responses.create({ model: gpt, input: `And ${card}?`, previous_response_id: first.id })
  t.true(next.output_text.includes(card))
  const bodies = JSON.stringify(sent().map(({ body }) => body))
  t.false(bodies.includes(address) || bodies.includes(card), bodies)
})

test.serial('the log of input and output has placeholders', async t => {
  const account = await accountOf(
    rules({
      detectors: [
        { type: 'email', action: 'mask', on: 'input' },
        { type: 'card', action: 'block', on: 'input' },
      ],
    }),
  )
  const { keys, db, contents, contentLog } = world.gateway.services
  const { hash } = await db.apiKey.findFirstOrThrow({
    where: { organisationId: account.organisationId, environment: 'live' },
  })
  const setting = { contentMode: 'all', contentPercent: null, contentUntil: new Date(Date.now() + 3_600_000) }
  await keys.setContentLogging(account.organisationId, hash, setting, operatorActor)
  const answer = await chat(account.live, { ...saying(gpt, `Write to ${address}`), stream: true })
  t.is(contentOf(answer.text), `Echo: Write to ${address}`)
  const refused = await chat(account.live, saying(gpt, `Pay with ${card}`))
  t.is(refused.status, 400)
  await eventually(
    async () => (await db.requestContent.count({ where: { organisationId: account.organisationId } })) === 2,
    'both are logged',
  )
  await contentLog.flush()
  const rows = await db.requestContent.findMany({ where: { organisationId: account.organisationId } })
  const texts = await Promise.all(rows.map(row => contents.read(row)))
  const all = JSON.stringify(texts)
  t.true(all.includes('Write to [EMAIL_1]') && all.includes('Pay with [CARD_1]'), all)
  t.false(all.includes(address) || all.includes(card), all)
})

test.serial('names of members, text documents and texts that begin as a file are masked as well', async t => {
  const { live } = await accountOf(masking)
  const source = { type: 'text', media_type: 'text/plain', data: `Mail ${address}` }
  const told = await post(live, '/v1/messages', {
    model: claude,
    max_tokens: 100,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'document', source },
          { type: 'text', text: `data:text/plain,${address}` },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'toolu_1', name: 'find', input: { [address]: 1, plain: [{ [card]: true }] } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Done' }] },
    ],
    tools: [{ name: 'find', input_schema: { type: 'object' } }],
  })
  t.is(told.status, 200, told.text)
  const [first, use] = world.anthropic.requests[0]!.body.messages
  t.is(first.content[0].source.data, 'Mail [EMAIL_1]')
  t.is(first.content[1].text, 'data:text/plain,[EMAIL_1]')
  t.deepEqual(use.content[0].input, { '[EMAIL_1]': 1, plain: [{ '[CARD_1]': true }] })

  const contents = [
    { role: 'user', parts: [{ text: 'Hi' }] },
    { role: 'model', parts: [{ functionCall: { name: 'find', args: { q: 'x' } } }] },
    { role: 'user', parts: [{ functionResponse: { name: 'find', response: { [address]: { age: 7 } } } }] },
  ]
  const tools = [{ functionDeclarations: [{ name: 'find', description: 'Finds', parameters: { type: 'OBJECT' } }] }]
  const asked = await post(live, `/v1beta/models/${gemini}:generateContent`, { contents, tools })
  t.is(asked.status, 200, asked.text)
  t.deepEqual(world.gemini.requests[0]!.body.contents[2].parts[0].functionResponse.response, {
    '[EMAIL_1]': { age: 7 },
  })
})

test.serial('400 for a value in the name of a member, which the message does not repeat', async t => {
  const { live } = await accountOf(rules({ detectors: detect('block') }))
  const input = { [address]: 'x' }
  const refused = await post(live, '/v1/messages', {
    model: claude,
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'find', input }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Done' }] },
    ],
    tools: [{ name: 'find', input_schema: { type: 'object' } }],
  })
  t.is(refused.status, 400, refused.text)
  t.regex(refused.text, /it has an email address/)
  t.false(refused.text.includes(address))
  t.is(sent().length, 0)
})
