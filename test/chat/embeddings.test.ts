import { json } from '../emulators/emulator.ts'
import { failure, serverError, vectorOf } from '../emulators/openai.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

// What is refused before it is sent needs no provider.
const world = use(test, () => startWorld({ MISTRAL_API_KEY: 'unused', OLLAMA_BASE_URL: 'http://127.0.0.1:9/v1' }))
test.beforeEach(() => {
  world.openai.reset()
  world.gemini.reset()
})

const model = 'text-embedding-3-small'

async function embed(key: string, body: object) {
  const response = await world.gateway.fetch('/v1/embeddings', { key, body: { model, ...body } })
  // biome-ignore lint/suspicious/noExplicitAny: answers and errors alike
  return { status: response.status, headers: response.headers, body: (await response.json()) as any }
}

test.serial('200 with vectors in the order of the input, charged with the embeddings’ own surcharge', async t => {
  const account = await world.gateway.account()
  const input = Array.from({ length: 300 }, (_, i) => `text ${i}`)
  const { status, headers, body } = await embed(account.live, { input })
  t.is(status, 200)
  t.deepEqual(
    body.data.map(({ index, embedding }: { index: number; embedding: number[] }) => [index, embedding]),
    input.map((text, i) => [i, vectorOf(text, 8)]),
  )
  const nano = expectedNano(model, { ...body.usage, completion_tokens: 0 }, { percent: 2.5 })
  t.true(nano > 0)
  t.is(body.usage.cost, nano / 1e9)
  t.is(Number(headers.get('x-gateway-cost-usd')), nano / 1e9)
  t.is(await chargedNano(world, account), nano)
  const id = headers.get('x-generation-id')!
  t.is(body.id, id)
  t.like(await generationOf(world, id), { kind: 'embedding', costNano: BigInt(nano), model, provider: 'openai' })
})

test.serial('200 for token arrays, one or many', async t => {
  const { live } = await world.gateway.account()
  t.is((await embed(live, { input: [1, 2, 3] })).body.data.length, 1)
  t.is((await embed(live, { input: [[1, 2], [3]] })).body.data.length, 2)
})

test.serial('200 base64 whether or not the provider obeys encoding_format', async t => {
  const { live } = await world.gateway.account()
  const data = [{ object: 'embedding', index: 0, embedding: [1, 0.5] }]
  world.openai.next(json(200, { object: 'list', data, model, usage: { prompt_tokens: 1, total_tokens: 1 } }))
  const { body } = await embed(live, { input: 'x', encoding_format: 'base64' })
  t.is(body.data[0].embedding, Buffer.from(Float32Array.of(1, 0.5).buffer).toString('base64'))
})

test.serial('200 from Gemini, counted by the tokenizer because Gemini counts nothing', async t => {
  const account = await world.gateway.account()
  const { status, body } = await embed(account.live, {
    model: 'gemini-embedding-001',
    input: ['one two', 'three'],
    dimensions: 64,
  })
  t.is(status, 200, JSON.stringify(body))
  t.deepEqual(
    body.data.map(({ embedding }: { embedding: number[] }) => embedding.length),
    [64, 64],
  )
  t.true(body.usage.estimated)
  t.is(body.usage.prompt_tokens, 3)
  const nano = expectedNano('gemini-embedding-001', { ...body.usage, completion_tokens: 0 }, { percent: 2.5 })
  t.is(await chargedNano(world, account), nano)
})

test.serial('200 and charged for the input where the provider states none', async t => {
  const account = await world.gateway.account()
  const data = [{ object: 'embedding', index: 0, embedding: [0.5, 0.5] }]
  world.openai.next(json(200, { object: 'list', data, model: 'up', usage: { prompt_tokens: 0, total_tokens: 0 } }))
  const body = { model: 'text-embedding-3-small', input: 'A heron stands in the shallow water.' }
  const response = await world.gateway.fetch('/v1/embeddings', { key: account.live, body })
  const { usage } = (await response.json()) as { usage: { prompt_tokens: number; estimated: boolean } }
  t.true(usage.prompt_tokens > 3 && usage.estimated)
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('502 and nothing charged when the provider fails or gives too few vectors', async t => {
  const account = await world.gateway.account()
  world.openai.next(serverError, serverError, serverError)
  const failed = await embed(account.live, { input: 'x' })
  t.is(failed.status, 502)
  t.is(failed.body.error.code, 'upstream_error')
  const short = json(200, { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [1] }], model })
  world.openai.next(short, short, short)
  // Its circuit is not open.
  const strange = await embed(account.live, { input: ['x', 'y'], model: 'text-embedding-3-large' })
  t.is(strange.status, 502)
  t.is(strange.body.error.code, 'upstream_invalid_response')
  t.is(await chargedNano(world, account), 0)
})

test.serial('400 of the provider is passed on', async t => {
  const { live } = await world.gateway.account()
  world.openai.next(failure(400, 'dimensions must be smaller.', 'invalid_request_error', null))
  const { status, body } = await embed(live, { input: 'x', dimensions: 60_000 })
  t.is(status, 400)
  t.regex(body.error.message, /dimensions must be smaller/)
})

const wrong: [what: object, status: number, code: string, param: string][] = [
  [{}, 400, 'missing_field', 'input'],
  [{ input: '' }, 400, 'invalid_request', 'input'],
  [{ input: [] }, 400, 'invalid_request', 'input'],
  [{ input: ['a', ''] }, 400, 'invalid_request', 'input.1'],
  [{ input: [1, 'a'] }, 400, 'invalid_request', 'input.0'],
  [{ input: [-1] }, 400, 'invalid_request', 'input.0'],
  [{ input: 'x', dimensions: 0 }, 400, 'invalid_request', 'dimensions'],
  [{ input: 'x', encoding_format: 'hex' }, 400, 'invalid_request', 'encoding_format'],
  [{ input: 'x', model: 'gpt-4.1' }, 404, 'model_not_found', 'model'],
  [{ input: 'x'.repeat(60_000) }, 400, 'context_length_exceeded', 'input'],
  [{ input: [1, 2], model: 'gemini-embedding-001' }, 400, 'unsupported_capability', 'input'],
  [{ input: [1, 2], model: 'mistral-embed' }, 400, 'unsupported_capability', 'input'],
  [{ input: [[1, 2], [3]], model: 'codestral-embed' }, 400, 'unsupported_capability', 'input'],
  [{ input: [[1], [2]], model: 'nomic-embed-text-local' }, 400, 'unsupported_capability', 'input'],
]
for (const [what, status, code, param] of wrong) {
  test.serial(`${status} ${code} for ${JSON.stringify(what).slice(0, 60)}; nothing is reserved or charged`, async t => {
    const account = await world.gateway.account()
    for (const key of [account.live, account.test]) {
      const answer = await embed(key, what)
      t.is(answer.status, status)
      t.like(answer.body, { error: { code, param } })
    }
    t.is(await chargedNano(world, account), 0)
  })
}

test.serial('403 insufficient_scope for a key of another scope', async t => {
  const { organisationId } = await world.gateway.account()
  const chatOnly = await world.gateway.key(organisationId, 'live', { scopes: 'chat' })
  t.is((await embed(chatOnly, { input: 'x' })).status, 403)
})

test.serial('200 for many inputs that are together longer than the model takes of one', async t => {
  const account = await world.gateway.account()
  const input = Array.from({ length: 120 }, (_, i) => `${i} ${'word '.repeat(80)}`)
  const body = { model: 'text-embedding-3-small', input }
  const { data, usage } = await world.sdk(account.live).embeddings.create(body)
  t.is(data.length, input.length)
  t.true(usage.prompt_tokens > 8_191)
  t.is(await chargedNano(world, account), Math.round((usage as unknown as { cost: number }).cost * 1e9))
})
