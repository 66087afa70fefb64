import { once } from 'node:events'
import http from 'node:http'
import test from 'ava'
import { messageEvents, sse } from './emulators/anthropic.ts'
import { type Emulator, events, hang, type Recorded } from './emulators/emulator.ts'
import { chargedNano, expectedNano, generationOf, saying, startWorld, type World } from './support/chat.ts'
import { eventually } from './support/gateway.ts'

let world: World
test.before(async () => {
  world = await startWorld()
})
test.after.always(() => world?.close())

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
function send(key: string, body: object): http.ClientRequest {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const request = http.request(`${world.gateway.url}/v1/chat/completions`, { method: 'POST', headers, agent: false })
  request.on('error', () => {})
  request.end(JSON.stringify(body))
  return request
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
      `499 ${name}: the client leaves before the first byte (stream: ${stream}): nothing is billed`,
      async t => {
        upstream().reset()
        upstream().next(hang)
        const account = await world.gateway.account()
        const request = send(account.live, saying(model, 'Tell me', { stream }))
        const recorded = await received(upstream())
        request.destroy()
        await recorded.aborted
        t.is(await chargedNano(world, account), 0)
        t.like(await onlyGeneration(account.organisationId), { status: 499, costNano: 0n, completionTokens: 0 })
        t.is(upstream().requests.length, 1, 'nobody else is asked')
      },
    )
  }
}

test.serial('499 after a role and comments only: nothing was produced, nothing is billed', async t => {
  world.openai.reset()
  world.openai.next(events([openaiEvents()[0]!, ': PROCESSING\n\n'], { end: 'hang' }))
  const account = await world.gateway.account()
  const request = send(account.live, saying('gpt-5.6-luna', 'Tell me', { stream: true }))
  await received(world.openai)
  request.destroy()
  await (await received(world.openai)).aborted
  t.like(await onlyGeneration(account.organisationId), { status: 499, costNano: 0n })
  t.is(await chargedNano(world, account), 0)
})
