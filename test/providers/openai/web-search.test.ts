import fc from 'fast-check'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { ResponsesRequest } from '../../../shared/kinds/responses.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { chargeNano, maxCostOf, promptTokensBound } from '../../../shared/routing/pricing.ts'
import { responsesFeatures } from '../../../shared/routing/responses-features.ts'
import { type ResponsesReplyOptions, responsesReply } from '../../emulators/openai-responses.ts'
import { createBatch, ended, jsonLines, uploadInput } from '../../support/batches/gateway.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { over, submit } from '../../support/jobs/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { startWorkers } from '../../support/workers.ts'

const world = use(test, startWorld)
test.beforeEach(() => world.openai.reset())

const model = 'gpt-4o-mini'
const only = { provider: { only: ['openai'] } }
const hi = { model, input: 'What is new?', max_output_tokens: 50, ...only }
const tools = [{ type: 'web_search', external_web_access: true }]
/** One search with margin. */
const searchNano = 10_500_000

const did = (action: object | null, id: string) => ({ type: 'web_search_call', id, status: 'completed', action })
const said = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Found it.', annotations: [], logprobs: [] }],
}
/** Two searches, of several queries, and a page that was opened. */
const output = [
  did({ type: 'search', query: 'a', queries: ['a', 'b', 'c'] }, 'ws_1'),
  did({ type: 'open_page', url: 'https://example.com' }, 'ws_2'),
  did({ type: 'search', query: 'd' }, 'ws_3'),
  said,
]
const usage = { input_tokens: 4_000, output_tokens: 50, total_tokens: 4_050 }
const tokensNano = expectedNano(model, { prompt_tokens: 4_000, completion_tokens: 50, total_tokens: 4_050 })

function reply(options: ResponsesReplyOptions = {}): void {
  world.openai.next(responsesReply({ output, details: usage, ...options }))
}

async function post(key: string, body: object) {
  const response = await world.gateway.fetch('/v1/responses', { key, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

const sent = () => world.openai.requests.at(-1)!.body

test.serial(
  'each search is charged and logged: as many as the provider counts, else the calls that searched',
  async t => {
    for (const stream of [false, true])
      for (const [toolUsage, searches] of [
        [{ web_search: { num_requests: 1 } }, 1],
        [undefined, 2],
      ] as const) {
        const account = await world.gateway.account()
        reply({ ...(toolUsage && { toolUsage }) })
        const { status, headers, text } = await post(account.live, { ...hi, tools, stream })
        t.is(status, 200, text)
        t.is(await chargedNano(world, account), tokensNano + searches * searchNano)
        const id = headers.get('x-generation-id')!
        t.like(await generationOf(world, id), { webSearches: searches, kind: 'responses' })
        const shown = await world.gateway.fetch(`/v1/generation?id=${id}`, { key: account.live })
        t.is(((await shown.json()) as { usage: { web_searches: number } }).usage.web_searches, searches)
      }
  },
)

test.serial('a request that lists the tool and does not use it costs its tokens', async t => {
  const account = await world.gateway.account()
  reply({ output: [said], toolUsage: { web_search: { num_requests: 0 } } })
  await post(account.live, { ...hi, tools })
  t.is(await chargedNano(world, account), tokensNano)
})

test.serial(
  'the number of searches has a bound in the request: `max_tool_calls`, else 5, and 20 at the most',
  async t => {
    const { live: key } = await world.gateway.account()
    for (const [given, limit] of [
      [{ tools }, 5],
      [{ tools: [{ type: 'web_search_2025_08_26' }], max_tool_calls: null }, 5],
      [{ tools, max_tool_calls: 3 }, 3],
      [{ tools, max_tool_calls: 21 }, 20],
      [{ max_tool_calls: 21 }, 21],
      [{ tools: [{ type: 'web_search_preview' }] }, undefined],
    ] as const) {
      const { status, text } = await post(key, { ...hi, ...given })
      t.is(status, 200, text)
      t.is(sent().max_tool_calls, limit)
    }
    const { status } = await post(key, { ...hi, tools, tool_choice: { type: 'web_search' } })
    t.is(status, 200)
    t.deepEqual(sent().tools, tools)
    t.deepEqual(sent().tool_choice, { type: 'web_search' })
  },
)

test.serial('402 where the wallet cannot pay the searches; fewer of them fit', async t => {
  const { live: key } = await world.gateway.account({ usd: '0.03' })
  t.is((await post(key, { ...hi, tools })).status, 429)
  t.is((await post(key, { ...hi, tools, max_tool_calls: 1 })).status, 200)
})

test.serial('targets without a price for it: left out, named, and not reserved', async t => {
  const poor = await world.gateway.account({ usd: '0.03' })
  const provider = { only: ['openrouter'] }
  for (const body of [
    { ...hi, model: 'claude-haiku-4-5', provider: { only: ['anthropic'] } },
    { ...hi, model: 'gpt-5-nano', provider },
  ]) {
    const { status, headers, text } = await post(poor.live, { ...body, tools })
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-dropped'), 'tools.web_search')
  }
  t.is(world.openrouter.requests.at(-1)!.body.max_tool_calls, undefined)
  const refused = await post(poor.live, { ...hi, model: 'gpt-5-nano', provider, tools, tool_choice: tools[0] })
  t.is(refused.status, 400)
})

test.serial('what the results cost beyond the reservation never overdraws the wallet', async t => {
  const details = { input_tokens: 700_000, output_tokens: 5, total_tokens: 700_005 }
  const owed = expectedNano(model, { prompt_tokens: 700_000, completion_tokens: 5, total_tokens: 0 }) + 2 * searchNano
  for (const stream of [false, true])
    for (const [usd, isPaid] of [
      ['10', true],
      ['0.1', false],
    ] as const) {
      const account = await world.gateway.account({ usd })
      reply({ details })
      const { status, text } = await post(account.live, { ...hi, tools, stream })
      t.is(status, 200, text)
      const charged = await chargedNano(world, account)
      t.is(charged === owed, isPaid)
      t.true(charged > 0 && charged <= owed)
      const { balanceNano } = await world.gateway.services.wallets.view(account.organisationId)
      t.true(balanceNano >= 0n)
    }
})

test.serial('a stream that breaks in its text is charged with the searches before it', async t => {
  const account = await world.gateway.account()
  // Two events of the response, two of each call, and four of the message.
  reply({ cutAfter: 12 })
  const { headers } = await post(account.live, { ...hi, tools, stream: true })
  const { webSearches, costNano } = await generationOf(world, headers.get('x-generation-id')!)
  t.is(webSearches, 2)
  t.true(Number(costNano) >= 2 * searchNano)
  t.is(await chargedNano(world, account), Number(costNano))
})

test.serial('in batches and delayed jobs a search has their discount', async t => {
  const workers = startWorkers(world.gateway.services)
  t.teardown(() => workers.stop())
  const account = await world.gateway.account()
  const body = { ...hi, tools, max_tool_calls: 2 }
  reply()
  const request = { endpoint: '/v1/responses', body, completion_window: '1h' }
  const { id } = await submit(world.gateway, '/v1/jobs', account.live, request)
  const job = await over(world.gateway, account.live, '/v1/jobs', id)
  t.is(job.status, 'completed')
  const jobNano = await chargedNano(world, account)
  t.is(jobNano, Math.round((tokensNano + 2 * searchNano) * 0.75))
  reply()
  const door = { url: world.gateway.url, key: account.live }
  const lines = [{ custom_id: 'a', method: 'POST', url: '/v1/responses', body }]
  const batch = await createBatch(door, await uploadInput(door, jsonLines(lines)), { endpoint: '/v1/responses' })
  t.is((await ended(door, batch.id)).status, 'completed')
  await eventually(async () => (await chargedNano(world, account)) > jobNano, 'the line is booked')
  t.is((await chargedNano(world, account)) - jobNano, Math.round((tokensNano + 2 * searchNano) * 0.5))
})

const catalog = loadCatalog()

function targetOf(id: string, provider: string): Target {
  const row = catalog.find(id)!
  return {
    model: row,
    deployment: row.providers.find(one => one.provider === provider)!,
    provider: catalog.providers.get(provider)!,
  }
}

test('reserved is never less than what the permitted searches, with their usual results, cost', t => {
  const targets = [targetOf('gpt-4o-mini', 'openai'), targetOf('gpt-5', 'openai'), targetOf('gpt-6.1-sol', 'openai')]
  const arbitrary = fc.record({
    target: fc.constantFrom(...targets),
    max: fc.option(fc.integer({ min: 1, max: 100 })),
    used: fc.integer({ min: 0, max: 100 }),
    input: fc.string({ minLength: 1, maxLength: 2_000 }),
    results: fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 100, maxLength: 100 }),
    marginPpm: fc.bigInt({ min: -500_000n, max: 500_000n }),
  })
  fc.assert(
    fc.property(arbitrary, ({ target, max, used, input, results, marginPpm }) => {
      const body: ResponsesRequest = {
        model: target.model.id,
        input,
        max_output_tokens: 100,
        tools,
        max_tool_calls: max,
      }
      const features = responsesFeatures(body, Buffer.byteLength(JSON.stringify(body)))
      const searches = Math.min(used, max ?? 5, 20)
      // After the n-th search the provider reads the prompt and n results.
      const ownTokens = Math.ceil(input.length / 4)
      const read = Array.from({ length: searches + 1 }, (_, n) => ownTokens + sum(results.slice(0, n)))
      const prompt_tokens = Math.min(sum(read), promptTokensBound(features, target))
      const cost = chargeNano(
        target,
        { prompt_tokens, completion_tokens: 100, total_tokens: prompt_tokens + 100, web_searches: searches },
        marginPpm,
      )
      const { fixedNano, picoPerOutputToken } = maxCostOf([target], features, marginPpm)
      t.is(prompt_tokens, sum(read))
      t.true(fixedNano + Math.ceil((100 * picoPerOutputToken) / 1_000) >= cost)
    }),
  )
})

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
