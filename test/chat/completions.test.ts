import type { Reply } from '../emulators/emulator.ts'
import { startOpenAiEmulator, tokensIn } from '../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const local = use(test, startOpenAiEmulator)
// The emulator wants a key; a local server behind a proxy may, too.
const world = use(test, () => startWorld({ OLLAMA_BASE_URL: `${local.url}/v1`, OLLAMA_API_KEY: 'local' }))

/** The one model of the catalog that only completes. */
const native = 'qwen2.5-coder-7b-base-local'
const overChat = ['gpt-4.1', 'claude-haiku-4-5', 'gemini-3.5-flash']

test.serial('200 from a completion model: plain, echo, several prompts, logprobs, streamed', async t => {
  const account = await world.gateway.account()
  const sdk = world.sdk(account.live)
  const plain = await sdk.completions.create({ model: native, prompt: 'def add(' })
  t.is(plain.object, 'text_completion')
  t.is(plain.choices[0]!.text, 'Echo: def add(')
  t.like(plain, { provider: 'ollama', usage: { prompt_tokens: 2, completion_tokens: 4, total_tokens: 6 } })
  const echoed = await sdk.completions.create({ model: native, prompt: 'abc', echo: true, logprobs: 2 })
  t.is(echoed.choices[0]!.text, 'abcEcho: abc')
  t.is(local.requests.at(-1)!.body.logprobs, 2)
  const rated = await sdk.completions.create({ model: native, prompt: 'abc', echo: true, logprobs: 1, max_tokens: 0 })
  t.is(rated.choices[0]!.text, 'abc')
  t.is(local.requests.at(-1)!.body.max_tokens, 0)
  const several = await sdk.completions.create({ model: native, prompt: ['a', 'b'], max_tokens: 100 })
  t.deepEqual(
    several.choices.map(({ index, text }) => [index, text]),
    [
      [0, 'Echo: a'],
      [1, 'Echo: b'],
    ],
  )
  const texts = ['', '']
  for await (const { choices } of await sdk.completions.create({ model: native, prompt: ['a', 'b'], stream: true })) {
    t.is(choices.length, 1)
    texts[choices[0]!.index] += choices[0]!.text
  }
  t.deepEqual(texts, ['Echo: a', 'Echo: b'])
  t.is(await chargedNano(world, account), 0, 'the local model is free')
})

for (const model of overChat) {
  test.serial(`200 from the chat model ${model}: whole, streamed and echoed, billed as the chat`, async t => {
    const account = await world.gateway.account()
    const sdk = world.sdk(account.live)
    const prompt = 'Once upon a time'
    const { data, response } = await sdk.completions.create({ model, prompt, max_tokens: 100 }).withResponse()
    t.is(data.choices[0]!.text, `Echo: ${prompt}`)
    t.is(data.choices[0]!.finish_reason, 'stop')
    t.is(data.object, 'text_completion')
    t.regex(data.id, /^cmpl/)
    const nano = expectedNano(model, data.usage!)
    t.is(data.usage!.completion_tokens, tokensIn(`Echo: ${prompt}`))
    t.is(Number(response.headers.get('x-gateway-cost-usd')), nano / 1e9)
    t.is(await chargedNano(world, account), nano)
    t.like(await generationOf(world, response.headers.get('x-generation-id')!), { kind: 'completion', model })

    const body = { model, prompt, max_tokens: 100, stream: true, echo: true }
    for (const include_usage of [false, true]) {
      const asked = { ...body, stream_options: { include_usage } }
      const streamed = await world.gateway.fetch('/v1/completions', { key: account.live, body: asked })
      const pieces = dataOf(await streamed.text())
      t.is(pieces.pop(), '[DONE]')
      t.is(
        pieces.flatMap(({ choices }) => choices.map((one: { text: string }) => one.text)).join(''),
        `${prompt}Echo: ${prompt}`,
      )
      t.true(pieces.every(({ object, id }) => object === 'text_completion' && id.startsWith('cmpl')))
      t.is(pieces.at(-1).usage.cost, nano / 1e9)
      t.is(pieces.at(-1).choices.length, include_usage ? 0 : 1)
    }
  })
}

// More than are sent at the same time.
const prompts = [...'abcdefghij'].map(letter => `Prompt ${letter}`)

for (const model of overChat) {
  test.serial(`200 from the chat model ${model}: several prompts, numbered through, billed together`, async t => {
    const account = await world.gateway.account()
    const sdk = world.sdk(account.live)
    const n = model === 'gpt-4.1' ? 2 : 1
    const whole = await sdk.completions.create({ model, prompt: prompts, max_tokens: 100, ...(n > 1 && { n }) })
    const expected = prompts.flatMap(prompt => Array<string>(n).fill(`Echo: ${prompt}`))
    t.deepEqual(
      whole.choices.map(({ index, text, finish_reason }) => [index, text, finish_reason]),
      expected.map((text, index) => [index, text, 'stop']),
    )
    const { usage } = whole
    t.is(
      usage!.prompt_tokens,
      prompts.reduce((sum, prompt) => sum + tokensIn(prompt), 0),
    )
    t.is(
      usage!.completion_tokens,
      expected.reduce((sum, text) => sum + tokensIn(text), 0),
    )
    t.is(usage!.total_tokens, usage!.prompt_tokens + usage!.completion_tokens)
    const nano = expectedNano(model, usage!)
    t.is((usage as unknown as { cost: number }).cost, nano / 1e9)
    t.false('parts' in usage!)
    const stream = await sdk.completions.create({
      model,
      prompt: prompts,
      max_tokens: 100,
      ...(n > 1 && { n }),
      echo: true,
      stream: true,
      stream_options: { include_usage: true },
    })
    const texts = expected.map(() => '')
    const finishes = expected.map(() => 0)
    let last: { usage?: unknown } = {}
    for await (const piece of stream) {
      last = piece
      for (const { index, text, finish_reason } of piece.choices) {
        texts[index] += text
        if (finish_reason) finishes[index]!++
      }
    }
    t.deepEqual(
      texts,
      expected.map((text, index) => prompts[Math.floor(index / n)]! + text),
    )
    t.deepEqual(
      finishes,
      expected.map(() => 1),
    )
    t.like(last, { usage: { prompt_tokens: usage!.prompt_tokens, completion_tokens: usage!.completion_tokens } })
    t.is(await chargedNano(world, account), 2 * nano)
  })
}

test.serial('one prompt that fails among several fails the request, and nothing is charged', async t => {
  const account = await world.gateway.account()
  const refuse: Reply = (_request, response) => {
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { message: 'Not this one.', type: 'invalid_request_error' } }))
  }
  for (const stream of [false, true]) {
    world.openai.next(refuse)
    const body = { model: 'gpt-4.1', prompt: prompts, stream }
    const response = await world.gateway.fetch('/v1/completions', { key: account.live, body })
    t.is(response.status, 400)
    t.like(await response.json(), { error: { code: 'invalid_request', message: 'Not this one.' } })
  }
  t.is(await chargedNano(world, account), 0)
})

test.serial(
  'several prompts, of which one breaks off: what came is charged, and an error event ends the stream',
  async t => {
    const account = await world.gateway.account()
    let broken = false
    const cut: Reply = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'up' }
      const choices = [{ index: 0, delta: { content: 'begun' }, finish_reason: null }]
      response.end(`data: ${JSON.stringify({ ...head, choices })}\n\n`)
      broken = true
    }
    world.openai.next(cut)
    const body = { model: 'gpt-4.1', prompt: ['a', 'b'], stream: true }
    const response = await world.gateway.fetch('/v1/completions', { key: account.live, body })
    const pieces = dataOf(await response.text())
    t.true(broken)
    t.like(pieces.at(-1), { object: 'text_completion', error: { code: 'upstream_error' } })
    t.false(pieces.includes('[DONE]'))
    t.true((await chargedNano(world, account)) > 0)
  },
)

test.serial('200 with at most 16 tokens by default, as at OpenAI', async t => {
  const { live } = await world.gateway.account()
  const prompt = 'long '.repeat(100)
  const completion = await world.sdk(live).completions.create({ model: 'claude-haiku-4-5', prompt })
  t.is(completion.choices[0]!.finish_reason, 'length')
  t.is(completion.choices[0]!.text.length, 64)
})

/** What a provider was told of the limit. */
const limitIn = ({ max_tokens, max_completion_tokens, generationConfig }: Record<string, unknown>) =>
  max_completion_tokens ?? max_tokens ?? (generationConfig as { maxOutputTokens: number }).maxOutputTokens

for (const model of [native, ...overChat]) {
  test.serial(`200 from ${model} without the members of chat alone: nothing is reserved for them`, async t => {
    const { live } = await world.gateway.account()
    const emulator = { gpt: world.openai, cla: world.anthropic, gem: world.gemini }[model.slice(0, 3)] ?? local
    const ofChat = {
      max_completion_tokens: 100_000,
      modalities: ['text', 'audio'],
      audio: { voice: 'alloy', format: 'wav' },
      prediction: { type: 'content', content: 'long '.repeat(100) },
      tools: [{ type: 'function', function: { name: 'search' } }],
      response_format: { type: 'json_object' },
    }
    const body = { model, prompt: 'Hi', ...ofChat }
    const answer = await world.gateway.fetch('/v1/completions', { key: live, body })
    t.is(answer.status, 200, await answer.text())
    const sent = emulator.requests.at(-1)!.body
    t.is(limitIn(sent), 16)
    for (const name of ['modalities', 'audio', 'prediction', 'tools', 'response_format', 'system'])
      t.is(sent[name], undefined, name)
    const named = Object.keys(ofChat).filter(name => model !== native || name !== 'max_completion_tokens')
    t.deepEqual(answer.headers.get('x-gateway-dropped')?.split(',').sort(), named.sort())
  })
}

test.serial('200, then one error event of a completion’s shape, when a stream breaks', async t => {
  const account = await world.gateway.account()
  local.next((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const choices = [{ index: 0, text: 'begun', logprobs: null, finish_reason: null }]
    response.end(
      `data: ${JSON.stringify({ id: 'cmpl-1', object: 'text_completion', created: 1, model: 'm', choices })}\n\n`,
    )
  })
  const body = { model: native, prompt: 'x', stream: true }
  const response = await world.gateway.fetch('/v1/completions', { key: account.live, body })
  const text = await response.text()
  const [first, last, ...more] = dataOf(text)
  t.is(first.choices[0].text, 'begun')
  t.like(last, { object: 'text_completion', error: { code: 'upstream_error' } })
  t.regex(text, /\n\ndata: {"error":{/)
  t.deepEqual(last.choices, [{ index: 0, text: '', logprobs: null, finish_reason: 'error' }])
  t.deepEqual(more, [])
})

const wrong: [what: object, status: number, code: string, param: string | null][] = [
  [{ prompt: undefined }, 400, 'missing_field', 'prompt'],
  [{ prompt: 7 }, 400, 'invalid_request', 'prompt'],
  [{ prompt: [] }, 400, 'invalid_request', 'prompt'],
  [{ prompt: ['a', 1] }, 400, 'invalid_request', 'prompt.1'],
  [{ prompt: { text: 'x' } }, 400, 'invalid_request', 'prompt'],
  [{ max_tokens: 0 }, 400, 'unsupported_capability', 'max_tokens'],
  [{ max_tokens: -1 }, 400, 'invalid_request', 'max_tokens'],
  [{ max_tokens: 1.5 }, 400, 'invalid_request', 'max_tokens'],
  [{ max_tokens: '10' }, 400, 'invalid_request', 'max_tokens'],
  [{ n: 129 }, 400, 'invalid_request', 'n'],
  [{ temperature: 3 }, 400, 'invalid_request', 'temperature'],
  [{ stop: ['1', '2', '3', '4', '5'] }, 400, 'invalid_request', 'stop'],
  [{ logprobs: 6 }, 400, 'invalid_request', 'logprobs'],
  [{ stream: 'yes' }, 400, 'invalid_request', 'stream'],
  [{ mode: 'best' }, 400, 'invalid_request', 'mode'],
  [{ provider: { nope: 1 } }, 400, 'unknown_field', 'provider.nope'],
  [{ prompt: Array(129).fill('a') }, 400, 'unsupported_capability', 'prompt'],
  [{ prompt: [[1, 2, 3], [4]] }, 400, 'unsupported_capability', 'prompt'],
  [{ prompt: [1, 2, 3] }, 400, 'unsupported_capability', 'prompt'],
  [{ model: native, prompt: [1, 2, 3] }, 400, 'unsupported_capability', 'prompt'],
  [{ logprobs: 1 }, 400, 'unsupported_capability', 'logprobs'],
  [{ best_of: 2 }, 400, 'unsupported_capability', 'best_of'],
  [{ suffix: 'end' }, 400, 'unsupported_capability', 'suffix'],
  [{ model: undefined }, 400, 'missing_field', 'model'],
  [{ model: 'nope' }, 404, 'model_not_found', 'model'],
  [{ model: 'text-embedding-3-small' }, 404, 'model_not_found', 'model'],
  [{ model: 'auto' }, 404, 'model_not_found', 'model'],
]
const absent = (_field: string, value: unknown) => value ?? 'absent'
for (const [what, status, code, param] of wrong) {
  test.serial(
    `${status} ${code} for ${JSON.stringify(what, absent)} of a chat model; nothing is reserved or charged`,
    async t => {
      const account = await world.gateway.account()
      for (const key of [account.live, account.test]) {
        const body = { model: 'gpt-4.1', prompt: 'x', ...what }
        const response = await world.gateway.fetch('/v1/completions', { key, body })
        t.is(response.status, status)
        t.like(await response.json(), { error: { code, param } })
      }
      t.is(await chargedNano(world, account), 0)
    },
  )
}

test.serial('404 on chat for a model that only completes', async t => {
  const { live } = await world.gateway.account()
  const body = { model: native, messages: [{ role: 'user', content: 'x' }] }
  const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body })
  t.is(response.status, 404)
})
