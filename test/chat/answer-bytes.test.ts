import { messageEvents, messageReply } from '../emulators/anthropic.ts'
import type { Reply } from '../emulators/emulator.ts'
import { framed } from '../emulators/emulator.ts'
import { chargedNano, expectedNano, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** How the bytes of whole answers and of refusals arrive. */

// biome-ignore lint/suspicious/noExplicitAny: bodies of every dialect
type Any = any

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

/** The bytes one by one, each in a packet of its own. */
function slowly(status: number, text: string): Reply {
  return async (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    for (const byte of Buffer.from(text)) {
      await new Promise(resolve => response.write(Buffer.of(byte), resolve))
      await new Promise(setImmediate)
    }
    response.end()
  }
}

async function ask(path: string, body: object) {
  const { live: key } = await world.gateway.account()
  const response = await world.gateway.fetch(path, { key, body })
  const text = await response.text()
  return { status: response.status, text, body: JSON.parse(text) as Any }
}

const said = 'Grüße aus Žižkov 🙂'
const message = { role: 'assistant', content: said }
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
const chat = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message, finish_reason: 'stop' }],
  usage,
}
const output = [
  {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: said, annotations: [] }],
  },
]
const counts = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
const response = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  model: 'm',
  status: 'completed',
  output,
  usage: counts,
}
const claude = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: said }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 4 },
}
const candidates = [{ index: 0, content: { role: 'model', parts: [{ text: said }] }, finishReason: 'STOP' }]
const gemini = { candidates, usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 } }
const vectors = {
  object: 'list',
  model: 'm',
  data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.5] }],
  usage: { prompt_tokens: 3, total_tokens: 3 },
}
const user = [{ role: 'user', content: 'Hi' }]

const answers: [path: string, emulator: 'openai' | 'anthropic' | 'gemini', body: object, answer: object][] = [
  ['/v1/chat/completions', 'openai', { model: 'gpt-4.1', messages: user }, chat],
  ['/v1/responses', 'openai', { model: 'gpt-4.1', input: 'Hi' }, response],
  ['/v1/messages', 'anthropic', { model: 'claude-haiku-4-5', max_tokens: 9, messages: user }, claude],
  ['/v1/chat/completions', 'anthropic', { model: 'claude-haiku-4-5', messages: user }, claude],
  ['/v1/chat/completions', 'gemini', { model: 'gemini-2.5-flash', messages: user }, gemini],
  ['/v1/embeddings', 'openai', { model: 'text-embedding-3-small', input: 'Hi' }, vectors],
]
for (const [path, provider, body, answer] of answers) {
  test.serial(`200 on ${path} from ${provider}: an answer with a byte order mark, in packets of one byte`, async t => {
    world[provider].next(slowly(200, `\uFEFF${JSON.stringify(answer)}`))
    const { status, text } = await ask(path, body)
    t.is(status, 200, text)
    t.true(text.includes(path === '/v1/embeddings' ? '-0.5' : said), text)
  })

  test.serial(
    `400 on ${path} from ${provider}: the reason of a refusal in packets of one byte, after a mark`,
    async t => {
      const reason = 'Die Länge überschreitet 🙂 alles.'
      const error =
        provider === 'gemini'
          ? { code: 400, message: reason, status: 'INVALID_ARGUMENT' }
          : { message: reason, type: 'invalid_request_error', param: null, code: null }
      world[provider].next(slowly(400, `\uFEFF${JSON.stringify({ type: 'error', error })}`))
      const { status, text, body: refused } = await ask(path, body)
      t.is(status, 400, text)
      t.is(refused.error.message, reason)
    },
  )
}

for (const eol of ['\n', '\r\n', '\r'] as const)
  test.serial(`200 streamed on /v1/messages: events after a mark, with ${JSON.stringify(eol)} and no end`, async t => {
    const { live: key } = await world.gateway.account()
    const whole = { ...claude, stop_details: null } as Parameters<typeof messageEvents>[0]
    world.anthropic.next((_request, reply) => {
      reply.writeHead(200, { 'content-type': 'text/event-stream' })
      reply.end(framed(messageEvents(whole), { eol, mark: true, unended: true, before: [': ping'] }))
    })
    const body = { model: 'claude-haiku-4-5', max_tokens: 9, messages: user, stream: true }
    const streamed = await world.gateway.fetch('/v1/messages', { key, body })
    const text = await streamed.text()
    t.true(text.includes('"message_stop"'), text)
    t.false(text.includes('event: error'), text)
  })

test.serial(
  '200 streamed from a server of Claude’s dialect that closes after the stop reason, billed as it states',
  async t => {
    const whole = { ...claude, stop_details: null } as Parameters<typeof messageEvents>[0]
    const model = 'claude-haiku-4-5'
    for (const [path, body, end] of [
      ['/v1/chat/completions', { messages: user, stream_options: { include_usage: true } }, /"finish_reason":"stop"/],
      ['/v1/messages', { max_tokens: 9, messages: user }, /"stop_reason":"end_turn"/],
      ['/v1/responses', { input: 'Hi' }, /response\.completed/],
      [`/v1beta/models/${model}:streamGenerateContent?alt=sse`, { contents: [{ parts: [{ text: 'Hi' }] }] }, /STOP/],
    ] as const) {
      world.anthropic.next((_request, reply) => {
        reply.writeHead(200, { 'content-type': 'text/event-stream' })
        reply.end(framed(messageEvents(whole).slice(0, -1)))
      })
      const account = await world.gateway.account()
      const response = await world.gateway.fetch(path, { key: account.live, body: { model, stream: true, ...body } })
      const text = await response.text()
      t.regex(text, end)
      t.false(/"error":\s*\{/.test(text), text)
      const counts = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
      t.is(await chargedNano(world, account), expectedNano(model, counts), path)
    }
  },
)

test.serial('200 on /v1/chat/completions: nulls in an answer of Gemini are absent', async t => {
  const nulls = { safetyRatings: null, citationMetadata: null, groundingMetadata: null, logprobsResult: null }
  const parts = [{ text: said, thought: null, functionCall: null, inlineData: null, thoughtSignature: null }]
  const candidate = { ...candidates[0], content: { role: 'model', parts }, ...nulls, finishMessage: null }
  const answer = { ...gemini, candidates: [candidate], promptFeedback: null, responseId: null, modelVersion: null }
  for (const stream of [false, true]) {
    world.gemini.next((_request, reply) => {
      reply.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
      reply.end(stream ? framed([answer]) : JSON.stringify(answer))
    })
    const { live: key } = await world.gateway.account()
    const body = { model: 'gemini-2.5-flash', messages: user, stream }
    const got = await world.gateway.fetch('/v1/chat/completions', { key, body })
    const text = await got.text()
    t.is(got.status, 200, text)
    t.true(text.includes(said) && !text.includes('"error"'), text)
  }
})

test.serial('200 on generateContent: null members of an answer are absent', async t => {
  const nulls = { reasoning_content: null, reasoning_details: null, images: null, tool_calls: null, annotations: null }
  const choices = [{ index: 0, message: { ...message, ...nulls }, finish_reason: 'stop' }]
  world.openai.next(slowly(200, JSON.stringify({ ...chat, choices })))
  const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
  const { status, text, body } = await ask('/v1beta/models/gpt-4.1:generateContent', { contents })
  t.is(status, 200, text)
  t.deepEqual(body.candidates[0].content.parts, [{ text: said }])
})

test.serial('200 for an answer of Claude without any block', async t => {
  world.anthropic.next(messageReply({ content: [] }))
  const { status, body } = await ask('/v1/chat/completions', { model: 'claude-haiku-4-5', messages: user })
  t.is(status, 200)
  t.like(body.choices[0], { message: { content: null }, finish_reason: 'stop' })
})
