import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { events, json, type Reply } from '../../emulators/emulator.ts'
import { type ChatReplyOptions, chatReply, promptTokens, tokensIn } from '../../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, saying, startWorld } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, startWorld)

const question = 'Grüße, 🚀 "quoted" \\ back\u2028slash [DONE] "error": \n\n data: x'
const model = 'gpt-4.1'

async function ask(key: string, more: object = {}) {
  const body = saying(model, question, { stream: true, ...more })
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body })
  return { headers: response.headers, status: response.status, text: await response.text() }
}

function contentOf(chunks: { choices: { delta: { content?: string } }[] }[]): string {
  return chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? '')).join('')
}

/** Every event of the answer in one packet, with this status. */
const atOnce =
  (status = 200): Reply =>
  (request, response) => {
    const base = { id: 'c1', object: 'chat.completion.chunk', created: 7, model: 'up' }
    const answer = `Echo: ${question}`
    const prompt_tokens = promptTokens(request.body.messages)
    const completion_tokens = tokensIn(answer)
    const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    const deltas = (answer.match(/.{1,5}/gsu) ?? []).map(content => ({ delta: { content }, finish_reason: null }))
    const chunks = [...deltas, { delta: {}, finish_reason: 'stop' }].map(one => ({ choices: [{ index: 0, ...one }] }))
    const lines = [...chunks, { choices: [], usage }].map(one => `data: ${JSON.stringify({ ...base, ...one })}\n\n`)
    response.writeHead(status, { 'content-type': 'text/event-stream' }).end(`${lines.join('')}data: [DONE]\n\n`)
  }

const variants: [title: string, reply: Reply | ChatReplyOptions][] = [
  ['CRLF line ends', { eol: '\r\n' }],
  ['every byte a packet', { bytewise: true }],
  ['every byte a packet, CRLF, comments', { bytewise: true, eol: '\r\n', comments: true }],
  ['comments', { comments: true }],
  ['no [DONE]', { done: false }],
  ['all events in one packet', atOnce()],
  ['the status 201, as of whole answers', atOnce(201)],
]
for (const [title, reply] of variants) {
  for (const include_usage of [false, true]) {
    test.serial(`200 with the content untouched: ${title} (include_usage: ${include_usage})`, async t => {
      world.openai.next(typeof reply === 'function' ? reply : chatReply(reply))
      const account = await world.gateway.account()
      const { status, text } = await ask(account.live, { stream_options: { include_usage } })
      t.is(status, 200)
      const data = dataOf(text)
      t.is(data.pop(), '[DONE]')
      t.is(contentOf(data), `Echo: ${question}`)
      const usages = data.filter(({ usage }) => usage)
      t.is(usages.length, 1)
      t.is(usages[0], data.at(-1))
      t.is(usages[0].choices.length, include_usage ? 0 : 1)
      t.is(data.filter(({ choices }) => choices.length === 0).length, include_usage ? 1 : 0)
      t.is(data.filter(({ choices }) => choices[0]?.finish_reason === 'stop').length, 1)
      const nano = expectedNano(model, usages[0].usage)
      t.is(usages[0].usage.completion_tokens, tokensIn(`Echo: ${question}`))
      t.is(usages[0].usage.cost, nano / 1e9)
      t.is(await chargedNano(world, account), nano)
    })
  }
}

test.serial(
  '200 without usage from the provider: counted by the tokenizer, marked as estimated, charged as shown',
  async t => {
    for (const stream of [true, false]) {
      world.openai.next(chatReply({ usage: false }))
      const account = await world.gateway.account()
      const { text, headers } = await ask(account.live, { stream })
      const { usage } = stream ? dataOf(text).at(-2) : JSON.parse(text)
      t.true(usage.estimated)
      t.true(usage.prompt_tokens > 10 && usage.prompt_tokens < 60, String(usage.prompt_tokens))
      t.true(usage.completion_tokens > 10 && usage.completion_tokens < 60, String(usage.completion_tokens))
      t.is(usage.cost, expectedNano(model, usage) / 1e9)
      t.is(await chargedNano(world, account), expectedNano(model, usage))
      t.like(await generationOf(world, headers.get('x-generation-id')!), { estimated: true })
    }
  },
)

// A full answer that states none of its tokens, or none of its prompt's, as servers do that count only what they had not cached.
const untrue: [prompt_tokens: number, completion_tokens: number][] = [
  [0, 0],
  [9, 0],
  [0, 40],
]
for (const [prompt_tokens, completion_tokens] of untrue)
  for (const stream of [true, false])
    test.serial(
      `200 and charged for what was delivered, where ${prompt_tokens} and ${completion_tokens} tokens are stated; stream ${stream}`,
      async t => {
        const content = 'word '.repeat(40)
        const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
        const base = { id: 'c1', created: 7, model: 'up' }
        const choice = { index: 0, finish_reason: 'stop' }
        const chunk = { ...base, object: 'chat.completion.chunk', usage, choices: [{ ...choice, delta: { content } }] }
        const whole = { ...base, object: 'chat.completion', usage }
        world.openai.next(
          stream
            ? events([`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`])
            : json(200, { ...whole, choices: [{ ...choice, message: { role: 'assistant', content } }] }),
        )
        const account = await world.gateway.account()
        const { text } = await ask(account.live, { stream })
        const { usage: shown } = stream ? dataOf(text).at(-2) : JSON.parse(text)
        t.true(shown.estimated)
        t.true(prompt_tokens > 0 ? shown.prompt_tokens === prompt_tokens : shown.prompt_tokens > 9, text)
        t.true(shown.completion_tokens >= 40, String(shown.completion_tokens))
        t.is(await chargedNano(world, account), expectedNano(model, shown))
      },
    )

// As lab servers and some proxies state it, and as no count of ours is more certain.
for (const prompt_tokens of [1_000, 0])
  for (const stream of [true, false])
    test.serial(
      `200 and charged as stated, where one word is stated as no token; stream ${stream}, prompt ${prompt_tokens}`,
      async t => {
        const usage = {
          prompt_tokens,
          completion_tokens: 0,
          total_tokens: prompt_tokens,
          prompt_tokens_details: { cached_tokens: prompt_tokens * 0.9 },
        }
        const base = { id: 'c1', created: 7, model: 'up', usage }
        const choice = { index: 0, finish_reason: 'stop' }
        const chunk = {
          ...base,
          object: 'chat.completion.chunk',
          choices: [{ ...choice, delta: { content: 'ok' } }],
        }
        const message = { role: 'assistant', content: 'ok' }
        world.openai.next(
          stream
            ? events([`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`])
            : json(200, { ...base, object: 'chat.completion', choices: [{ ...choice, message }] }),
        )
        const account = await world.gateway.account()
        const { text } = await ask(account.live, { stream })
        const { usage: shown } = stream ? dataOf(text).at(-2) : JSON.parse(text)
        t.is(shown.completion_tokens, 0)
        t.is(shown.prompt_tokens_details.cached_tokens, prompt_tokens * 0.9)
        // No prompt is empty.
        t.true(prompt_tokens > 0 ? shown.prompt_tokens === prompt_tokens : shown.prompt_tokens > 3, text)
        t.is(await chargedNano(world, account), expectedNano(model, shown))
      },
    )

test.serial('200 with usage on the finishing chunk and fields of a vendor kept', async t => {
  const base = { id: 'c1', object: 'chat.completion.chunk', created: 7, model: 'up', vendor: { a: 1 } }
  const usage = {
    prompt_tokens: 1_000,
    completion_tokens: 10,
    total_tokens: 1_010,
    prompt_tokens_details: { cached_tokens: 400 },
  }
  const choices = (delta: object, finish_reason: string | null) => [{ index: 0, delta, finish_reason, extra: true }]
  world.openai.next(
    events([
      `data: ${JSON.stringify({ ...base, choices: choices({ role: 'assistant', content: 'One' }, null) })}\n\n`,
      `data: ${JSON.stringify({ ...base, choices: choices({ content: ' two' }, 'stop'), usage })}\n\ndata: [DONE]\n\n`,
    ]),
  )
  const account = await world.gateway.account()
  const data = dataOf((await ask(account.live)).text)
  t.is(contentOf(data.slice(0, -1)), 'One two')
  t.is(data.length, 3)
  const nano = expectedNano(model, usage)
  t.like(data[1], { vendor: { a: 1 }, usage: { ...usage, cost: nano / 1e9 } })
  t.like(data[1].choices[0], { extra: true, finish_reason: 'stop' })
  t.is(await chargedNano(world, account), nano)
})

test.serial('200 for a stream of one event: content, finish and usage together', async t => {
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
  const choices = [{ index: 0, delta: { role: 'assistant', content: 'All' }, finish_reason: 'stop' }]
  const only = { id: 'c1', object: 'chat.completion.chunk', created: 7, model: 'up', choices, usage }
  world.openai.next(events([`data: ${JSON.stringify(only)}\n\n`]))
  const { live } = await world.gateway.account()
  const { status, text, headers } = await ask(live)
  t.is(status, 200)
  t.is(headers.get('content-type'), 'text/event-stream; charset=utf-8')
  t.deepEqual(
    dataOf(text).map(one => one.choices?.[0].delta.content ?? one),
    ['All', '[DONE]'],
  )
})

test.serial('200 at the client’s own pace: a client that stops reading stops the provider, too', async t => {
  const event = `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content: 'x'.repeat(65_536) }, finish_reason: null }] })}\n\n`
  const count = 800
  let written = 0
  world.openai.next(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (; written < count && !response.destroyed; written++) {
      if (!response.write(event)) await once(response, 'drain')
    }
    response.end('data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
  })
  const { live } = await world.gateway.account()
  const headers = { authorization: `Bearer ${live}`, 'content-type': 'application/json' }
  const request = http.request(`${world.gateway.url}/v1/chat/completions`, { method: 'POST', headers, agent: false })
  request.end(JSON.stringify(saying(model, 'Go', { stream: true })))
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  // What the sockets' own buffers hold passes; then nothing moves until the client reads.
  let before = -1
  await eventually(async () => {
    const still = written === before
    before = written
    if (!still) await sleep(250)
    return still
  }, 'the provider stands still')
  t.true(written < count / 2, `${written} of ${count} events were taken from the provider`)
  let bytes = 0
  let tail = ''
  for await (const part of response) {
    bytes += part.length
    tail = (tail + part).slice(-2_000)
  }
  t.true(bytes > count * event.length)
  t.true(tail.endsWith('data: [DONE]\n\n'))
})
