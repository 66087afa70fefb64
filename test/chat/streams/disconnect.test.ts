import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageEvents, sse } from '../../emulators/anthropic.ts'
import { type Emulator, events, hang, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { chargedNano, expectedNano, generationOf, saying, startWorld } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const readOnMs = 400
const world = use(test, () => startWorld({ UPSTREAM_READ_ON_MS: String(readOnMs) }))

const words = 'the quick brown fox jumps over the lazy dog '.repeat(40)
const whole = { prompt_tokens: 200, completion_tokens: 1000, total_tokens: 1200 }

function openaiEvents(): string[] {
  const chunk = (delta: object) =>
    `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
  return [chunk({ role: 'assistant', content: '' }), chunk({ content: words })]
}

function anthropicEvents(): string[] {
  const usage = { input_tokens: 10, output_tokens: 1000 }
  const content = [{ type: 'text', text: words }]
  const message = { id: 'm1', type: 'message', role: 'assistant', model: 'm', stop_details: null } as const
  const all = messageEvents({ ...message, content, stop_reason: 'end_turn', stop_sequence: null, usage }, text => [
    text,
  ])
  return all.filter(({ type }) => /message_start|block_start|block_delta/.test(type)).map(sse)
}

function geminiEvents(): string[] {
  const candidates = [{ content: { role: 'model', parts: [{ text: words }] }, index: 0 }]
  return [`data: ${JSON.stringify({ candidates, modelVersion: 'm', responseId: 'r1' })}\r\n\r\n`]
}

const protocols = [
  { name: 'openai', model: 'gpt-5.6-luna', upstream: () => world.openai, begun: openaiEvents },
  { name: 'anthropic', model: 'claude-sonnet-5', upstream: () => world.anthropic, begun: anthropicEvents },
  { name: 'gemini', model: 'gemini-3.5-flash', upstream: () => world.gemini, begun: geminiEvents },
] as const

/** Sends a chat and gives the request, to be destroyed; its response comes with the first byte. */
function send(key: string, body: object, path = '/v1/chat/completions'): http.ClientRequest {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const request = http.request(world.gateway.url + path, { method: 'POST', headers, agent: false })
  request.on('error', () => {})
  request.end(JSON.stringify(body))
  return request
}

/** Leaves, and resolves when the gateway must have noticed: it has answered requests that came later. */
async function leave(request: http.ClientRequest): Promise<void> {
  request.destroy()
  for (let i = 0; i < 3; i++) await (await world.gateway.fetch('/healthz')).text()
}

async function received(upstream: Emulator): Promise<Recorded> {
  await eventually(() => upstream.requests.length === 1, 'the request reaches the provider')
  return upstream.requests[0]!
}

async function onlyGeneration(organisationId: string) {
  const { db } = world.gateway.services
  await eventually(async () => (await db.generation.count({ where: { organisationId } })) === 1, 'it is booked')
  return db.generation.findFirstOrThrow({ where: { organisationId } })
}

for (const { name, model, upstream, begun } of protocols) {
  test.serial(
    `499 ${name}: the client leaves in the middle: upstream aborted, what was produced is billed`,
    async t => {
      upstream().reset()
      upstream().next(events(begun(), { end: 'hang' }))
      const account = await world.gateway.account()
      const request = send(account.live, saying(model, 'Tell me', { stream: true }))
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      t.is(response.statusCode, 200)
      let seen = ''
      for await (const part of response) {
        seen += part
        if (seen.includes('lazy dog')) break
      }
      request.destroy()
      await (await received(upstream())).aborted
      const id = response.headers['x-generation-id'] as string
      const row = await generationOf(world, id)
      t.like(row, { status: 499, errorCode: 'client_closed_request', estimated: true, streamed: true })
      t.true(row.completionTokens >= 300 && row.completionTokens <= 500, String(row.completionTokens))
      const charged = await chargedNano(world, account)
      t.is(charged, Number(row.costNano))
      t.true(charged > 0 && charged < expectedNano(model, whole))
    },
  )

  for (const stream of [true, false]) {
    test.serial(
      `499 ${name}: the client leaves before the first byte (stream: ${stream}): the prompt and the time are billed`,
      async t => {
        upstream().reset()
        upstream().next(hang)
        const account = await world.gateway.account()
        const request = send(account.live, saying(model, 'Tell me', { stream }))
        const recorded = await received(upstream())
        request.destroy()
        await recorded.aborted
        const row = await onlyGeneration(account.organisationId)
        t.like(row, { status: 499, estimated: true })
        // Where the reasoning is not visible, at least 100 tokens a second of the 400 ms in which it may say so.
        const spent = Number(row.costNano)
        const { promptTokens: prompt_tokens, completionTokens: completion_tokens } = row
        t.is(spent, expectedNano(model, { prompt_tokens, completion_tokens, total_tokens: 0 }))
        t.true(prompt_tokens >= 3 && completion_tokens >= 40, JSON.stringify({ prompt_tokens, completion_tokens }))
        t.is(await chargedNano(world, account), spent)
        t.is(upstream().requests.length, 1, 'no other provider is asked')
      },
    )
  }
}

test.serial('499 after a role and comments only: the prompt and the time are billed', async t => {
  world.openai.reset()
  world.openai.next(events([openaiEvents()[0]!, ': PROCESSING\n\n'], { end: 'hang' }))
  const account = await world.gateway.account()
  const request = send(account.live, saying('gpt-5.6-luna', 'Tell me', { stream: true }))
  await received(world.openai)
  request.destroy()
  await (await received(world.openai)).aborted
  const { costNano, completionTokens } = await onlyGeneration(account.organisationId)
  t.true(completionTokens >= 40)
  t.is(await chargedNano(world, account), Number(costNano))
})

/** However long a busy machine takes, what comes after the client has left is read. */
function readOnPatiently(t: ExecutionContext): void {
  const { config } = world.gateway.services
  config.readOnMs = 60_000
  t.teardown(() => {
    config.readOnMs = readOnMs
  })
}

/** An answer that halts until its client has left: a beginning, and the rest a little later. */
function halting(before: string[], after: string[], status = 200): { reply: Reply; left(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const reply: Reply = async (request, response) => {
    response.writeHead(status, { 'content-type': request.body.stream ? 'text/event-stream' : 'application/json' })
    response.write(before.join('') || ' ')
    await promise
    response.end(after.join(''))
  }
  return { reply, left: resolve }
}

const thinking = {
  prompt_tokens: 100,
  completion_tokens: 20_010,
  total_tokens: 20_110,
  completion_tokens_details: { reasoning_tokens: 20_000 },
}
const piece = (choice: object, usage: object | null = null) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, ...choice }], usage })}\n\n`

test.serial(
  '499 the client leaves at the last visible word: hidden reasoning is billed as its provider counts it',
  async t => {
    readOnPatiently(t)
    world.openai.reset()
    const { reply, left } = halting(
      [piece({ delta: { role: 'assistant', content: 'The answer is 42.' }, finish_reason: null })],
      [piece({ delta: {}, finish_reason: 'stop' }, thinking), 'data: [DONE]\n\n'],
    )
    world.openai.next(reply)
    const account = await world.gateway.account()
    const request = send(account.live, saying('gpt-5', 'Think', { stream: true }))
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    for await (const part of response) if (String(part).includes('42')) break
    await leave(request)
    left()
    const row = await generationOf(world, response.headers['x-generation-id'] as string)
    t.like(row, { status: 499, completionTokens: 20_010, reasoningTokens: 20_000, estimated: false })
    t.is(await chargedNano(world, account), expectedNano('gpt-5', thinking))
  },
)

test.serial('499 the client leaves while a whole answer is made: it is billed as its provider counts it', async t => {
  readOnPatiently(t)
  world.openai.reset()
  const message = { role: 'assistant', content: 'Done' }
  const answer = { id: 'c1', object: 'chat.completion', created: 1, model: 'm', usage: thinking }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  const { reply, left } = halting([], [JSON.stringify({ ...answer, choices })])
  world.openai.next(reply)
  const account = await world.gateway.account()
  const request = send(account.live, saying('gpt-5', 'Think'))
  await received(world.openai)
  await leave(request)
  left()
  t.like(await onlyGeneration(account.organisationId), { status: 499, completionTokens: 20_010, estimated: false })
  t.is(await chargedNano(world, account), expectedNano('gpt-5', thinking))
})

test.serial(
  '499 the client leaves while pages are read: the call goes on to its end, and is billed exactly',
  async t => {
    world.anthropic.reset()
    const usage = { input_tokens: 900_000, output_tokens: 20 }
    const message = {
      id: 'm1',
      type: 'message',
      role: 'assistant',
      model: 'm',
      stop_reason: 'end_turn',
      stop_sequence: null,
    }
    const { reply, left } = halting(
      [],
      [JSON.stringify({ ...message, content: [{ type: 'text', text: 'Read' }], usage })],
    )
    world.anthropic.next(reply)
    const account = await world.gateway.account()
    const mcp_servers = [{ type: 'url', name: 'm', url: 'https://mcp.example.com' }]
    const asked = { ...saying('claude-haiku-4-5', 'Read'), max_tokens: 100, mcp_servers }
    const request = send(account.live, asked, '/v1/messages')
    await received(world.anthropic)
    await leave(request)
    await sleep(2 * readOnMs)
    left()
    t.like(await onlyGeneration(account.organisationId), { status: 499, promptTokens: 900_000, estimated: false })
  },
)

test.serial('499 and free: the provider fails after the client left', async t => {
  readOnPatiently(t)
  world.openai.reset()
  const { reply, left } = halting([], ['{"error":{"message":"overloaded"}}'], 503)
  world.openai.next(reply)
  const account = await world.gateway.account()
  const request = send(account.live, saying('gpt-5', 'Think'))
  await received(world.openai)
  await leave(request)
  left()
  t.like(await onlyGeneration(account.organisationId), { status: 499, costNano: 0n })
  t.is(await chargedNano(world, account), 0)
  t.is(world.openai.requests.length, 1, 'no other provider is asked')
})
