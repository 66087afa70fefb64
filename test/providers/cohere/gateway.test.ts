import { CohereClientV2, CohereError } from 'cohere-ai'
import OpenAI from 'openai'
import { VoyageAIClient } from 'voyageai'
import { startCohere, startVoyage } from '../../emulators/embedders.ts'
import { json } from '../../emulators/emulator.ts'
import { chargedNano } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const cohere = use(test, startCohere)
const voyage = use(test, startVoyage)
const gateway = useGateway(test, () => ({
  COHERE_API_KEY: 'co-secret',
  COHERE_BASE_URL: cohere.url,
  VOYAGE_API_KEY: 'vo-secret',
  VOYAGE_BASE_URL: `${voyage.url}/v1`,
}))
test.beforeEach(() => {
  cohere.reset()
  voyage.reset()
})

const sdkOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
const input = ['Open at nine.', 'Cats sleep on.']

test.serial('the emulators take, give and refuse what the providers’ own clients do', async t => {
  const client = new CohereClientV2({ token: 'token', environment: cohere.url })
  const embed = {
    model: 'embed-v4.0',
    texts: input,
    inputType: 'search_query' as const,
    embeddingTypes: ['float' as const],
  }
  const { embeddings, meta } = await client.embed(embed)
  t.is(embeddings.float?.length, 2)
  t.is(meta?.billedUnits?.inputTokens, 8)
  await t.throwsAsync(client.embed({ ...embed, texts: Array(97).fill('a') }), { instanceOf: CohereError })
  const refused = new CohereClientV2({ token: 'invalid', environment: cohere.url })
  await t.throwsAsync(refused.embed(embed), { instanceOf: CohereError })
  const voyageClient = new VoyageAIClient({ apiKey: 'key', environment: `${voyage.url}/v1` })
  const voyaged = await voyageClient.embed({ model: 'voyage-4', input, inputType: 'document', outputDimension: 256 })
  t.is(voyaged.data?.[0]?.embedding?.length, 256)
  t.is(voyaged.usage?.totalTokens, 8)
  const plain = new OpenAI({ apiKey: 'key', baseURL: `${voyage.url}/v1`, maxRetries: 0 })
  await t.throwsAsync(plain.embeddings.create({ model: 'voyage-4', input, dimensions: 256 }))
  await t.throwsAsync(plain.embeddings.create({ model: 'voyage-4', input, encoding_format: 'float' }))
})

test.serial('200 for embeddings of Cohere, with the type and length that are asked for', async t => {
  const account = await gateway.account()
  const sdk = sdkOf(account.live)
  const first = await sdk.embeddings.create({ model: 'embed-v4.0', input, dimensions: 4 })
  t.deepEqual(
    first.data.map(({ embedding }) => embedding.length),
    [4, 4],
  )
  t.is(first.usage.total_tokens, 8)
  t.deepEqual(cohere.requests[0]!.body, {
    model: 'embed-v4.0',
    texts: input,
    input_type: 'search_document',
    embedding_types: ['float'],
    output_dimension: 4,
  })
  const query = { model: 'embed-english-v3.0', input: 'When?', input_type: 'search_query', truncate: 'NONE', user: 'u' }
  const second = await gateway.fetch('/v1/embeddings', { key: account.live, body: query })
  t.is(second.status, 200)
  t.is(second.headers.get('x-gateway-dropped'), 'user')
  t.like(cohere.requests[1]!.body, { input_type: 'search_query', truncate: 'NONE' })
  t.is(await chargedNano({ gateway }, account), Math.round((8 * 120 + 2 * 100) * 1.025))
})

test.serial('200 for embeddings of Voyage, in its own fields, for clients of both encodings', async t => {
  const account = await gateway.account()
  const sdk = sdkOf(account.live)
  // OpenAI's client asks for base64 by itself.
  const { data } = await sdk.embeddings.create({ model: 'voyage-4', input, dimensions: 256 })
  t.is(data[0]!.embedding.length, 256)
  const float = await sdk.embeddings.create({ model: 'voyage-3.5', input, encoding_format: 'float' })
  t.true(Array.isArray(float.data[0]!.embedding))
  t.deepEqual(
    voyage.requests.map(({ body }) => body),
    [
      { model: 'voyage-4', input, output_dimension: 256 },
      { model: 'voyage-3.5', input },
    ],
  )
  const own = { model: 'voyage-code-3', input, input_type: 'query', truncation: false, output_dtype: 'int8' }
  const response = await gateway.fetch('/v1/embeddings', { key: account.live, body: own })
  t.is(response.status, 200)
  t.is(response.headers.get('x-gateway-dropped'), null)
  t.deepEqual(voyage.requests[2]!.body, own)
  t.is(await chargedNano({ gateway }, account), Math.round((8 * 60 + 8 * 60 + 8 * 180) * 1.025))
})

test.serial('400 for token ids; nothing is sent', async t => {
  const { live } = await gateway.account()
  for (const body of [
    { model: 'embed-v4.0', input: [1, 2, 3] },
    { model: 'voyage-4', input: [[1, 2]] },
  ]) {
    const response = await gateway.fetch('/v1/embeddings', { key: live, body })
    t.is(response.status, 400)
    const { error } = (await response.json()) as { error: { param: string } }
    t.is(error.param, 'input')
  }
  t.is(cohere.requests.length + voyage.requests.length, 0)
})

// LangChain sends 1,000 texts at a time by default, OpenAI takes 2,048.
test.serial(
  '200 for more texts than Cohere takes at a time: the vectors in order, the tokens of all, one charge',
  async t => {
    const account = await gateway.account()
    const texts = Array.from({ length: 250 }, (_, index) => `Text ${String.fromCharCode(32 + (index % 90))} ${index}`)
    const { data, usage } = await sdkOf(account.live).embeddings.create({
      model: 'embed-v4.0',
      input: texts,
      dimensions: 4,
    })
    const sent = cohere.requests.map(({ body }) => body.texts as string[])
    t.deepEqual(sent.map(({ length }) => length).sort(), [58, 96, 96])
    t.deepEqual(new Set(sent.flat()), new Set(texts))
    t.deepEqual(
      data.map(({ index }) => index),
      texts.map((_, index) => index),
    )
    for (const at of [0, 95, 96, 200, 249]) {
      const alone = await sdkOf(account.live).embeddings.create({
        model: 'embed-v4.0',
        input: texts[at]!,
        dimensions: 4,
      })
      t.deepEqual(data[at]!.embedding, alone.data[0]!.embedding, String(at))
    }
    const tokens = texts.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0)
    t.is(usage.prompt_tokens, tokens)
  },
)

test.serial('502 when one of the calls fails: nothing is charged', async t => {
  const account = await gateway.account()
  cohere.next(...Array.from({ length: 20 }, () => json(500, { message: 'internal server error' })))
  const body = { model: 'embed-v4.0', input: Array(150).fill('a') }
  const response = await gateway.fetch('/v1/embeddings', { key: account.live, body })
  t.is(response.status, 502)
  t.is(await chargedNano({ gateway }, account), 0)
})

test.serial('200 with the type of a text by the name of either provider', async t => {
  const { live } = await gateway.account()
  for (const [given, ofCohere, ofVoyage] of [
    ['query', 'search_query', 'query'],
    ['search_query', 'search_query', 'query'],
    ['document', 'search_document', 'document'],
    ['search_document', 'search_document', 'document'],
    ['clustering', 'clustering', null],
  ]) {
    const body = { input: 'When?', input_type: given }
    const first = await gateway.fetch('/v1/embeddings', { key: live, body: { model: 'embed-v4.0', ...body } })
    t.is(first.status, 200, given!)
    t.is(cohere.requests.at(-1)!.body.input_type, ofCohere)
    const second = await gateway.fetch('/v1/embeddings', { key: live, body: { model: 'voyage-4', ...body } })
    t.is(second.status, ofVoyage ? 200 : 400, given!)
    if (ofVoyage) t.is(voyage.requests.at(-1)!.body.input_type, ofVoyage)
  }
})

const messages = [{ role: 'user' as const, content: 'Hello' }]

test.serial('200 for chat with Cohere, streamed and whole, without the fields that it refuses', async t => {
  const account = await gateway.account()
  const sdk = sdkOf(account.live)
  const chat = {
    model: 'command-a-03-2025',
    messages,
    max_completion_tokens: 64,
    user: 'u',
    parallel_tool_calls: false,
  }
  const whole = await sdk.chat.completions.create(chat)
  t.truthy(whole.choices[0]!.message.content)
  const stream = await sdk.chat.completions.create({ ...chat, stream: true })
  let text = ''
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
  t.is(text, whole.choices[0]!.message.content!)
  t.deepEqual(
    cohere.requests.map(({ path }) => path),
    ['/compatibility/v1/chat/completions', '/compatibility/v1/chat/completions'],
  )
  t.is(cohere.requests[0]!.body.model, 'command-a-03-2025')
  const { usage } = whole
  t.is(
    await chargedNano({ gateway }, account),
    Math.round(2 * (usage!.prompt_tokens * 2_500 + usage!.completion_tokens * 10_000) * 1.05),
  )
})

test.serial(
  '200 for an answer by a JSON schema, in the form that Cohere has for it; beside tools by the prompt',
  async t => {
    const { live } = await gateway.account()
    const schema = { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] }
    const response_format = { type: 'json_schema' as const, json_schema: { name: 'book', schema } }
    const body = { model: 'command-a-03-2025', messages, response_format }
    t.is((await gateway.fetch('/v1/chat/completions', { key: live, body })).status, 200)
    t.deepEqual(cohere.requests[0]!.body.response_format, { type: 'json_object', schema })
    const tools = [{ type: 'function', function: { name: 'look_up', parameters: { type: 'object', properties: {} } } }]
    const both = await gateway.fetch('/v1/chat/completions', { key: live, body: { ...body, tools } })
    t.is(both.status, 200)
    t.is(both.headers.get('x-gateway-structured-output'), 'prompt, validated')
    t.is(cohere.requests[1]!.body.response_format, undefined)
  },
)
