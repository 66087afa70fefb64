import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { anthropicModelList } from '../../api/schemas/anthropic.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { answersError } from '../support/api/edge.ts'
import { test } from '../support/test.ts'
import { use, useFolder, useGateway } from '../support/use.ts'

const folder = useFolder(test)
const version = { 'anthropic-version': '2023-06-01' }

/** An operator's model whose id has a slash, under a name that Claude Code shows. */
const { aliases: _, ...gpt } = loadCatalog().models.get('gpt-4o')!
const own = { ...gpt, id: 'acme/fast', aliases: ['claude-via-acme'], name: 'Acme Fast', expires_on: '2027-01-31' }

const file = join(folder, 'catalog.json')
test.before(async () => {
  await writeFile(file, JSON.stringify({ models: [own] }))
})
const gateway = useGateway(test, { MODEL_CATALOG: file })
const account = use(test, () => gateway.account({ usd: '0' }))

function clientOf(key = account.test): Anthropic {
  return new Anthropic({ apiKey: key, authToken: null, baseURL: gateway.url, maxRetries: 0 })
}

/** The ids of the chat models, which are the ones that Anthropic's list has, in their order. */
async function chatIds(): Promise<string[]> {
  const response = await gateway.fetch('/v1/models?type=chat', { key: account.test })
  const { data } = (await response.json()) as { data: { id: string; endpoint: string }[] }
  return data.filter(({ endpoint }) => endpoint === '/v1/chat/completions').map(({ id }) => id)
}

function list(query: string, key = account.test): Promise<Response> {
  return gateway.fetch(`/v1/models${query}`, { key, headers: version })
}

async function idsOf(query: string, key?: string): Promise<{ ids: string[]; hasMore: boolean }> {
  const { data, has_more, first_id, last_id } = anthropicModelList.parse(await (await list(query, key)).json())
  const ids = data.map(({ id }) => id)
  if (first_id !== (ids[0] ?? null) || last_id !== (ids.at(-1) ?? null)) throw new Error(`${first_id} ${last_id}`)
  return { ids, hasMore: has_more }
}

test('200 with every chat model on one page, without a limit', async t => {
  const ids = await chatIds()
  t.true(ids.length > 30)
  t.true(ids.includes('auto') && ids.includes('claude-opus-5') && ids.includes('acme/fast'))
  for (const query of ['', '?limit=1000', '?beta=true&limit=1000', '?type=chat'])
    t.deepEqual(await idsOf(query), { ids, hasMore: false }, query)
  t.deepEqual(await idsOf('?type=image'), { ids: [], hasMore: false })
})

test('200 with the same models page by page, forwards and backwards, in Anthropic’s client', async t => {
  const ids = await chatIds()
  for (const params of [undefined, { limit: 7 }, { limit: ids.length }]) {
    const found: string[] = []
    for await (const { id } of clientOf().models.list(params)) found.push(id)
    t.deepEqual(found, ids)
  }
  const before: string[] = []
  let page = await clientOf().models.list({ limit: 7, before_id: ids.at(-1)! })
  for (;;) {
    before.unshift(...page.data.map(({ id }) => id))
    if (!page.hasNextPage()) break
    page = await page.getNextPage()
  }
  t.deepEqual(before, ids.slice(0, -1))
  t.deepEqual(await idsOf(`?limit=2&after_id=${ids[3]}`), { ids: ids.slice(4, 6), hasMore: true })
  t.deepEqual(await idsOf(`?limit=2&before_id=${ids[3]}`), { ids: ids.slice(1, 3), hasMore: true })
  t.deepEqual(await idsOf(`?after_id=${ids.at(-1)}`), { ids: [], hasMore: false })
  t.deepEqual(await idsOf(`?before_id=${ids[0]}`), { ids: [], hasMore: false })
})

test('200 with one model by every name that it has, in Anthropic’s client', async t => {
  const { models } = clientOf()
  const sonnet = loadCatalog().models.get('claude-sonnet-4-5')!
  for (const name of ['claude-sonnet-4-5', 'claude-sonnet-4-5-20250929', 'anthropic/claude-sonnet-4.5'])
    t.deepEqual(
      await models.retrieve(name),
      {
        type: 'model',
        id: 'claude-sonnet-4-5',
        display_name: sonnet.name,
        description: sonnet.description,
        created_at: new Date(sonnet.created * 1_000).toISOString(),
        max_input_tokens: sonnet.context_length,
        max_tokens: sonnet.max_output_tokens,
        capabilities: null,
        line: null,
        lifecycle: sonnet.expires_on ? 'deprecated' : 'active',
        deprecated_at: null,
        retires_at: sonnet.expires_on && `${sonnet.expires_on}T00:00:00.000Z`,
      } as Anthropic.ModelInfo,
      name,
    )
  for (const name of ['acme/fast', 'claude-via-acme'])
    t.like(await models.retrieve(name), {
      id: 'acme/fast',
      display_name: 'Acme Fast',
      lifecycle: 'deprecated',
      retires_at: '2027-01-31T00:00:00.000Z',
    })
  const plain = await list('/acme/fast')
  t.is(((await plain.json()) as { id: string }).id, 'acme/fast', 'without an escaped slash')
  const error = await t.throwsAsync(models.retrieve('nope'), { instanceOf: Anthropic.NotFoundError })
  t.is(error.status, 404)
})

test('200 with the models of the allowlist only; 404 for others and for models that do not chat', async t => {
  const allowlist = { model_allowlist: ['claude-sonnet-4-5-20250929', 'claude-via-acme', 'text-embedding-3-small'] }
  const narrow = await gateway.key(account.organisationId, 'test', allowlist)
  t.deepEqual((await idsOf('', narrow)).ids.sort(), ['acme/fast', 'auto', 'claude-sonnet-4-5'])
  t.is((await clientOf(narrow).models.retrieve('claude-sonnet-4-5')).id, 'claude-sonnet-4-5')
  for (const [key, id] of [
    [narrow, 'claude-opus-5'],
    [narrow, 'text-embedding-3-small'],
    [account.test, 'gpt-image-1'],
    [account.live, 'claude-opus-5'],
  ] as const)
    await answersError(t, await list(`/${id}`, key), 'model_not_found', 'model', id)
})

test('400 naming the parameter of a page; other clients may send anything there', async t => {
  const ids = await chatIds()
  for (const [query, param] of [
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['limit=ten', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['after_id=nope', 'after_id'],
    ['before_id=nope', 'before_id'],
    ['before_id=', 'before_id'],
    [`after_id=${ids[0]}&before_id=${ids[5]}`, 'before_id'],
    ['type=x', 'type'],
  ] as const) {
    await answersError(t, await list(`?${query}`), 'invalid_request', param, query)
    if (param !== 'type') t.is((await gateway.fetch(`/v1/models?${query}`, { key: account.test })).status, 200, query)
  }
})

test('401 in Anthropic’s client without a valid key; the key may be in either header', async t => {
  await t.throwsAsync(clientOf('sk-ant-other').models.list(), { instanceOf: Anthropic.AuthenticationError })
  const bearer = new Anthropic({ apiKey: null, authToken: account.test, baseURL: gateway.url, maxRetries: 0 })
  t.true((await bearer.models.list()).data.length > 30)
})
