import { CohereClient, CohereClientV2 } from 'cohere-ai'
import OpenAI from 'openai'
import { json } from '../emulators/emulator.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { rerankForms, startRankings } from '../emulators/rankings.ts'
import { chargedNano } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const cohere = use(test, () => startRankings(rerankForms.cohere))
const voyage = use(test, () => startRankings(rerankForms.voyage))
const openai = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({
  COHERE_API_KEY: 'co-secret',
  COHERE_BASE_URL: cohere.url,
  VOYAGE_API_KEY: 'vo-secret',
  VOYAGE_BASE_URL: `${voyage.url}/v1`,
  OPENAI_API_KEY: 'sk-secret',
  OPENAI_BASE_URL: `${openai.url}/v1`,
}))
test.beforeEach(() => {
  for (const emulator of [cohere, voyage, openai]) emulator.reset()
})

const query = 'When does the library open?'
const documents = ['Cats sleep.', 'The library does open at nine.', 'When?']

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Ranked = { status: number; headers: Headers; json: any }

async function rank(key: string, body: object, path = '/v1/rerank'): Promise<Ranked> {
  const response = await gateway.fetch(path, { key, body: { query, documents, ...body } })
  return { status: response.status, headers: response.headers, json: await response.json() }
}

test.serial('200 for Cohere’s clients of both versions, billed by the search units that Cohere states', async t => {
  const account = await gateway.account()
  const v2 = new CohereClientV2({ token: account.live, environment: gateway.url })
  const second = await v2.rerank({ model: 'rerank-v3.5', query, documents, topN: 2 })
  t.deepEqual(
    second.results.map(({ index }) => index),
    [1, 2],
  )
  t.is(second.meta?.billedUnits?.searchUnits, 1)
  const v1 = new CohereClient({ token: account.live, environment: gateway.url })
  const objects = documents.map(text => ({ text }))
  const first = await v1.rerank({ model: 'rerank-v3.5', query, documents: objects, returnDocuments: true })
  t.is(first.results[0]!.document?.text, documents[1])
  t.deepEqual(cohere.requests[1]!.body, { model: 'rerank-v3.5', query, documents })
  t.is(await chargedNano({ gateway }, account), 4_200_000)
})

test.serial('200 from Voyage, billed by the tokens that it states; its own names are taken', async t => {
  const account = await gateway.account()
  const { status, headers, json: body } = await rank(account.live, { model: 'rerank-2.5', top_k: 1, truncation: true })
  t.is(status, 200, JSON.stringify(body))
  t.is(headers.get('x-gateway-provider'), 'voyage')
  t.deepEqual(voyage.requests[0]!.body, { model: 'rerank-2.5', query, documents, top_k: 1, truncation: true })
  t.is(body.results.length, 1)
  const tokens = body.usage.total_tokens
  t.true(tokens > 0)
  t.is(await chargedNano({ gateway }, account), Math.round(tokens * 0.05 * 1_000 * 1.05 * 1e6) / 1e6)
})

test.serial('200 with `data` and `usage` as Voyage’s and Together’s clients read them, whatever the model', async t => {
  const { live } = await gateway.account()
  // voyageai of PyPI always sends `truncation`, that of npm sends what it is given.
  for (const [model, body] of [
    ['rerank-2.5', { top_k: null, truncation: true }],
    ['rerank-2.5', {}],
    ['rerank-v3.5', { truncation: true }],
  ] as const) {
    const { status, json: answer } = await rank(live, { model, ...body })
    t.is(status, 200, JSON.stringify(answer))
    t.is(answer.object, 'list')
    t.deepEqual(answer.data, answer.results)
    t.true(answer.usage.total_tokens > 0, model)
    // @ai-sdk/togetherai demands all three figures of Together's answers.
    t.like(answer.usage, { prompt_tokens: answer.usage.total_tokens, completion_tokens: 0 }, model)
  }
  const objects = documents.map(text => ({ text }))
  const { json: shown } = await rank(live, { model: 'rerank-2.5', documents: objects, return_documents: true })
  t.deepEqual(shown.results[0].document, objects[1])
  t.is(shown.data[0].document, documents[1])
})

test.serial('200 by the fields of documents that are named, as lines of YAML', async t => {
  const { live } = await gateway.account()
  const books = [{ title: 'Cats', year: 1999, text: 'Sleep' }]
  const body = { model: 'rerank-v3.5', documents: books, rank_fields: ['title', 'year'], return_documents: true }
  const { status, json: answer } = await rank(live, body)
  t.is(status, 200, JSON.stringify(answer))
  t.deepEqual(cohere.requests[0]!.body.documents, ['title: Cats\nyear: 1999'])
  t.deepEqual(answer.results[0].document, books[0])
  const rank_fields = Array.from({ length: 100 }, () => 'text')
  const long = [{ text: 'a'.repeat(60_000) }]
  const { status: ofLong } = await rank(live, { model: 'rerank-v3.5', documents: long, rank_fields })
  t.is(ofLong, 200, 'a field that is named many times is ranked once')
  t.is(cohere.requests[1]!.body.documents[0].length, 'text: '.length + 60_000)
})

test.serial('200 with unknown fields named, and counts of a provider that cannot be replaced', async t => {
  const account = await gateway.account()
  cohere.next(json(200, { results: [{ index: 0, relevance_score: 1 }], meta: { billed_units: { search_units: 1e6 } } }))
  const { status, headers } = await rank(account.live, { model: 'rerank-v3.5', priority: 3, max_chunks_per_doc: 2 })
  t.is(status, 200)
  t.is(headers.get('x-gateway-dropped'), 'priority,max_chunks_per_doc')
  t.is(await chargedNano({ gateway }, account), 2_100_000)
})

test.serial('400 naming the field for what cannot be ranked, and nothing is sent', async t => {
  const { live } = await gateway.account()
  const cases: [body: object, param: string][] = [
    [{ documents: [] }, 'documents'],
    [{ documents: [7] }, 'documents.0'],
    [{ documents: [{ title: 'no text' }] }, 'documents.0'],
    [{ query: '' }, 'query'],
    [{ top_n: 0 }, 'top_n'],
    [{ model: 'rerank-2.5', documents: Array(1_001).fill('a') }, 'documents'],
  ]
  for (const [body, param] of cases) {
    const { status, json: answer } = await rank(live, { model: 'rerank-v3.5', ...body })
    t.is(status, 400, JSON.stringify(body).slice(0, 80))
    t.is(answer.error.param, param)
  }
  t.is((await rank(live, { model: 'gpt-4.1' })).status, 404)
  t.is(cohere.requests.length + voyage.requests.length, 0)
})

test.serial('502 for an answer that ranks what was not sent, and it is free', async t => {
  const account = await gateway.account()
  cohere.next(json(200, { results: [{ index: 9, relevance_score: 1 }] }))
  const { status, json: answer } = await rank(account.live, { model: 'rerank-english-v3.0' })
  t.is(status, 502, JSON.stringify(answer))
  t.is(await chargedNano({ gateway }, account), 0)
})

test.serial('200 with a test key: ranked and moderated by the sandbox, nothing sent or charged', async t => {
  const account = await gateway.account()
  const { status, json: answer } = await rank(account.test, { model: 'rerank-2.5' })
  t.is(status, 200)
  t.deepEqual(
    answer.results.map(({ index }: { index: number }) => index),
    [1, 2, 0],
  )
  const sdk = new OpenAI({ apiKey: account.test, baseURL: `${gateway.url}/v1` })
  const { results } = await sdk.moderations.create({ input: ['Hello', 'I like violence'] })
  t.deepEqual(
    results.map(({ flagged }) => flagged),
    [false, true],
  )
  t.is(voyage.requests.length + openai.requests.length, 0)
  t.is(await chargedNano({ gateway }, account), 0)
})

test.serial('200 for OpenAI’s client: texts and images are moderated for free, and logged', async t => {
  const account = await gateway.account()
  const sdk = new OpenAI({ apiKey: account.live, baseURL: `${gateway.url}/v1` })
  const image = { type: 'image_url' as const, image_url: { url: 'https://files.example/a.png' } }
  const { model, results } = await sdk.moderations.create({
    model: 'omni-moderation-latest',
    input: [{ type: 'text', text: 'I will kill them' }, image],
  })
  t.is(model, 'omni-moderation-latest')
  t.true(results[0]!.flagged)
  t.true(results[0]!.categories.violence)
  const older = await sdk.moderations.create({ model: 'text-moderation-latest', input: 'Hello' })
  t.false(older.results[0]!.flagged)
  t.is(openai.requests.length, 2)
  t.is(await chargedNano({ gateway }, account), 0)
  t.is(await gateway.services.db.generation.count({ where: { organisationId: account.organisationId } }), 2)
})

test.serial('200 for a test key: a moderation has every category that OpenAI’s clients read', async t => {
  const { test: key } = await gateway.account()
  const sdk = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })
  const { results } = await sdk.moderations.create({
    model: 'omni-moderation-latest',
    input: 'Some harassment/threatening.',
  })
  const [{ categories, category_scores, category_applied_input_types: types }] = results as [OpenAI.Moderation]
  const flags: Record<keyof OpenAI.Moderation.Categories, boolean> = {
    harassment: true,
    'harassment/threatening': true,
    hate: false,
    'hate/threatening': false,
    illicit: false,
    'illicit/violent': false,
    'self-harm': false,
    'self-harm/instructions': false,
    'self-harm/intent': false,
    sexual: false,
    'sexual/minors': false,
    violence: false,
    'violence/graphic': false,
  }
  t.deepEqual(categories, flags)
  t.deepEqual([Object.keys(category_scores), Object.keys(types)], [Object.keys(flags), Object.keys(flags)])
})
