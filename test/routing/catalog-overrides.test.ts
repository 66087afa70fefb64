import fc from 'fast-check'
import type { AuditAnswer } from '../../api/dashboard/wire/audit.ts'
import type { OperatorModels, OperatorServers, ServerTest } from '../../api/dashboard/wire/operator-catalog.ts'
import { commands } from '../../api/operator/commands.ts'
import { parseCommand } from '../../api/operator/parse.ts'
import type { Emulator } from '../emulators/emulator.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { errorCode, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { eventually, freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'

const model = 'gpt-4o-mini'
const base = '/dashboard/api/operator'
const serverKey = 'sk-key-of-the-server-9876'

let openai: Emulator
let stores: Stores
let first: Gateway
let second: Gateway
let operator: SignedUp

test.before(async () => {
  openai = await startOpenAiEmulator()
  stores = await freshStores()
  const env = {
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    ENCRYPTION_KEY: 'an encryption key of 32 characters',
    SERVICE_MARGIN_PERCENT: '0',
  }
  ;[first, second] = await Promise.all([startGateway(stores, env), startGateway(stores, env)])
  operator = await signUp(first, { name: 'Op' })
  await run('user', 'promote', '--email', operator.visitor.email)
})
test.after.always(async () => {
  await first?.close()
  await second?.close()
  await stores?.drop()
  await openai?.close()
})

/** A command of the operator's command line, in this process. */
async function run(...argv: string[]): Promise<{ data: unknown; text: string }> {
  const { command, flags } = parseCommand(argv, commands)
  return command.run(first.services, flags)
}

const fetch = (path: string, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', body?: unknown) =>
  operator.visitor.fetch(base + path, { method, ...(body !== undefined && { body }) })
const patch = (body: unknown, id = model) => fetch(`/models/${encodeURIComponent(id)}`, 'PATCH', body)
const chat = (gateway: Gateway, key: string, name = model) =>
  gateway.fetch('/v1/chat/completions', {
    key,
    body: { model: name, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 },
  })
const priceOf = (input: string, output: string) => ({ unit: 'token', input, output })
const listed = async (gateway: Gateway, key: string) => {
  const answer = await gateway.fetch('/v1/models', { key })
  return ((await answer.json()) as { data: { id: string; aliases: string[] }[] }).data
}

test.serial(
  'a model is disabled and enabled in both processes, and what removes the change returns to the files',
  async t => {
    const { live } = await first.account()
    t.is((await chat(second, live)).status, 200)
    const disabled = await patch({ disabled: true })
    t.like(await disabled.json(), { id: model, disabled: true, state_changed: true })
    t.is(await errorCode(await chat(first, live)), 'model_not_found')
    await eventually(
      async () => !(await listed(second, live)).some(({ id }) => id === model),
      'the other process knows',
    )
    t.is(await errorCode(await chat(second, live)), 'model_not_found')
    t.like(
      await (await patch({ disabled: false })).json(),
      { disabled: false, state_changed: false },
      'as in the files',
    )
    t.like(await (await patch({ disabled: null })).json(), { disabled: false, state_changed: false })
    await eventually(async () => (await listed(second, live)).some(({ id }) => id === model), 'the other process knows')
    t.is((await chat(second, live)).status, 200)
    t.is(await first.services.db.catalogOverride.count(), 0)
  },
)

test.serial('a price is changed, shown, charged and reset; 400 for one that does not fit', async t => {
  const { live, organisationId } = await first.account()
  const costOf = async () => Number((await chat(first, live)).headers.get('x-gateway-cost-usd'))
  const before = await costOf()
  const file = first.services.catalog.models.get(model)!.providers.find(({ provider }) => provider === 'openai')!.price
  t.is((await patch({ prices: { openai: priceOf('1000', '1000') } })).status, 200)
  t.true((await costOf()) > before * 100)
  const { data } = await operator.visitor.json<OperatorModels>(`${base}/models`)
  t.like(
    data.find(({ id }) => id === model)?.offers.find(({ provider }) => provider === 'openai'),
    { file_price: file },
  )
  for (const [prices, param] of [
    [{ openai: { unit: 'image', usd: '1' } }, 'prices.openai.unit'],
    [{ nobody: priceOf('1', '1') }, 'prices.nobody'],
    [{ openai: { unit: 'token', input: '-1', output: '1' } }, 'prices.openai.input'],
  ] as const) {
    const refused = await patch({ prices })
    t.is(refused.status, 400)
    t.is(((await refused.json()) as { error: { param: string } }).error.param, param)
  }
  t.is((await patch({ disabled: true }, 'no-such-model')).status, 404)
  t.is((await patch({ prices: { openai: null } })).status, 200)
  t.is(await costOf(), before)
  t.deepEqual(await first.settled(), [])
  t.true(organisationId.length > 0)
})

test.serial('an alias works in /v1/models, /v1/route, chat, allowlists and batches; 400 for a taken name', async t => {
  const { live, organisationId } = await first.account()
  const added = await fetch('/aliases', 'POST', { alias: 'house-model', model })
  t.like(await added.json(), { id: model, aliases: ['house-model'] })
  t.true((await listed(first, live)).find(({ id }) => id === model)?.aliases.includes('house-model'))
  const answered = await chat(first, live, 'House-Model')
  t.is(((await answered.json()) as { model: string }).model, model)
  const body = { model: 'house-model', messages: [{ role: 'user', content: 'Hello' }] }
  t.is((await first.fetch('/v1/route', { key: live, body })).status, 200)
  const key = await first.key(organisationId, 'live', { model_allowlist: ['house-model'] })
  t.is((await chat(first, key)).status, 200)
  const batch = await first.fetch('/v1/batches', {
    key: live,
    body: {
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      requests: [{ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body }],
    },
  })
  t.is(batch.status, 200, await batch.clone().text())
  await eventually(async () => (await chat(second, live, 'house-model')).ok, 'the other process knows')
  const arms = [
    { model: 'openai/gpt-4o', percent: 12.5 },
    { model, percent: 87.5 },
  ]
  const split = await fetch('/aliases', 'POST', { alias: 'Split', arms })
  const known = [{ name: 'split', arms: [{ model: 'gpt-4o', percent: 12.5 }, arms[1]] }]
  t.like(await split.json(), { id: 'gpt-4o', aliases: [], shared_aliases: known })
  const { data } = await operator.visitor.json<OperatorModels>(`${base}/models`)
  t.deepEqual(data.find(({ id }) => id === model)?.shared_aliases, known as never)
  t.is((await chat(first, live, 'split')).status, 200)
  for (const wrong of [{}, { model, arms }, { arms: arms.slice(1) }, { arms: [arms[0], arms[0]] }])
    t.is((await fetch('/aliases', 'POST', { alias: 'wrong', ...wrong })).status, 400)
  t.is((await fetch('/aliases/split', 'DELETE')).status, 200)
  for (const alias of [model, `openai/${model}`, 'auto', 'gpt-4o'])
    t.is((await fetch('/aliases', 'POST', { alias, model: 'gpt-4o' })).status, 400, alias)
  t.is((await fetch('/aliases', 'POST', { alias: 'x', model: 'house-model' })).status, 200, 'it names the model behind')
  t.is((await fetch('/aliases', 'POST', { alias: 'y', model: 'no-such-model' })).status, 404)
  await run('model', 'alias', '--alias', 'x', '--remove')
  t.is((await fetch('/aliases/house-model', 'DELETE')).status, 200)
  t.is((await fetch('/aliases/house-model', 'DELETE')).status, 404)
  t.is(await errorCode(await chat(first, live, 'house-model')), 'model_not_found')
})

test.serial('a server is tested, added with a sealed key, used by both processes, changed and removed', async t => {
  const { live } = await first.account()
  const base_url = `${openai.url}/v1`
  const tested = await fetch('/server-tests', 'POST', { base_url, api_key: serverKey })
  t.true(((await tested.json()) as ServerTest).models.length > 0)
  const away = await fetch('/server-tests', 'POST', { base_url: 'http://127.0.0.1:9/v1', api_key: serverKey })
  t.is(away.status, 400)
  t.false((await away.text()).includes(serverKey))
  const models = [{ id: 'lab-chat', upstream_model: model, price: priceOf('1', '2') }]
  const server = { base_url, models, api_key: serverKey }
  t.is((await fetch('/servers/lab', 'POST', server)).status, 200)
  openai.reset()
  t.is((await chat(first, live, 'lab-chat')).status, 200)
  t.is(openai.requests.at(-1)?.headers.authorization, `Bearer ${serverKey}`)
  await eventually(async () => (await chat(second, live, 'lab-chat')).ok, 'the other process knows')
  const shown = await fetch('/servers', 'GET')
  const text = await shown.text()
  t.false(text.includes(serverKey))
  t.like((JSON.parse(text) as OperatorServers).data[0], { name: 'lab', api_key_last4: '9876', fault: null })
  const { secret } = await first.services.db.catalogOverride.findFirstOrThrow({ where: { kind: 'server' } })
  t.regex(secret!, /^sealed:/)
  for (const [name, body, param] of [
    ['openai', server, 'name'],
    ['Lab!', server, 'name'],
    ['lab2', { ...server, base_url: 'ftp://x' }, 'base_url'],
    ['lab2', { ...server, models: [{ ...models[0], id: 'GPT-4o' }] }, 'models.0.id'],
    ['lab2', server, 'models.0.id'],
  ] as const) {
    const refused = await fetch(`/servers/${encodeURIComponent(name)}`, 'POST', body)
    t.deepEqual([refused.status, ((await refused.json()) as { error: { param: string } }).error.param], [400, param])
  }
  await run('model', 'alias', '--alias', 'lab', '--model', 'lab-chat')
  t.is((await fetch('/servers/lab', 'DELETE')).status, 400, 'an alias names its model')
  await run('model', 'alias', '--alias', 'lab', '--remove')
  // The key stays when the form does not send one.
  t.is((await fetch('/servers/lab', 'POST', { base_url, models: [{ ...models[0], id: 'lab-two' }] })).status, 200)
  t.is((await chat(first, live, 'lab-two')).status, 200)
  t.is(openai.requests.at(-1)?.headers.authorization, `Bearer ${serverKey}`)
  t.is(await errorCode(await chat(first, live, 'lab-chat')), 'model_not_found')
  await run('server', 'remove', '--name', 'lab')
  t.is(await errorCode(await chat(first, live, 'lab-two')), 'model_not_found')
  t.deepEqual(await first.settled(), [])
})

test.serial('what is stated of a server is what requests can ask for, and not known without', async t => {
  const { live } = await first.account()
  const row = { id: 'attic-chat', upstream_model: model, price: priceOf('1', '2'), quantization: 'fp8' }
  const ask = (provider: object) =>
    first.fetch('/v1/chat/completions', {
      key: live,
      body: { model: 'attic-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20, provider },
    })
  const add = (...more: string[]) =>
    run(
      'server',
      'add',
      '--name',
      'attic',
      '--base-url',
      `${openai.url}/v1`,
      '--models',
      JSON.stringify([row]),
      ...more,
    )
  const terms = async () => {
    const { data } = (await (await first.fetch('/v1/models', { key: live })).json()) as { data: unknown[] }
    return (data as { id: string; provider_terms: object[] }[]).find(({ id }) => id === 'attic-chat')!.provider_terms
  }
  // The key stays when a command does not give one.
  const server = { base_url: `${openai.url}/v1`, models: [row], api_key: serverKey }
  t.is((await fetch('/servers/attic', 'POST', server)).status, 200)
  await add()
  t.deepEqual(await terms(), [{ provider: 'attic', data_collection: null, zdr: null, quantization: 'fp8' }])
  t.is((await ask({ quantizations: ['fp8'] })).status, 200)
  t.not((await ask({ zdr: true })).status, 200)
  t.not((await ask({ data_collection: 'deny' })).status, 200)
  const { data } = await add('--data-collection', 'deny', '--zdr')
  t.like(data, { data: { data_collection: false, zdr: true } })
  t.deepEqual(await terms(), [{ provider: 'attic', data_collection: false, zdr: true, quantization: 'fp8' }])
  t.is((await ask({ zdr: true, data_collection: 'deny', quantizations: ['fp8'] })).status, 200)
  t.not((await ask({ quantizations: ['bf16'] })).status, 200)
  const path = `${operator.base}/models`
  const shown = (await (await operator.visitor.fetch(path)).json()) as { data: { id: string; providers: object[] }[] }
  t.like(shown.data.find(({ id }) => id === 'attic-chat')!.providers[0], {
    name: 'attic',
    data_collection: false,
    zdr: true,
    quantization: 'fp8',
  })
  await run('server', 'remove', '--name', 'attic')
})

test.serial('each request is charged the price it was admitted with, however often prices change', async t => {
  const prices = [1, 10, 100]
  // The other process may not know the first change yet.
  const known = [[0.15, 0.6], ...prices.map(price => [price, price])] as [input: number, output: number][]
  const property = fc.asyncProperty(
    fc.array(fc.constantFrom(...prices), { minLength: 1, maxLength: 4 }),
    async changes => {
      const { live, organisationId } = await first.account({ usd: '20' })
      await patch({ prices: { openai: priceOf('1', '1') } })
      const requests = Array.from({ length: 6 }, (_, i) => chat(i % 2 ? first : second, live))
      for (const price of changes) await patch({ prices: { openai: priceOf(String(price), String(price)) } })
      const answers = await Promise.all(requests)
      for (const answer of answers) {
        const { usage } = (await answer.json()) as {
          usage: { cost: number; prompt_tokens: number; completion_tokens: number }
        }
        const costs = known.map(([input, output]) => usage.prompt_tokens * input + usage.completion_tokens * output)
        t.true(
          costs.some(cost => Math.abs(usage.cost - cost / 1e6) < 1e-9),
          JSON.stringify(usage),
        )
      }
      t.deepEqual(await first.settled(), [])
      const charged = await first.services.db.generation.aggregate({
        where: { organisationId },
        _sum: { costNano: true },
      })
      const { balanceNano } = await first.services.wallets.view(organisationId)
      t.is(20_000_000_000n - balanceNano, charged._sum.costNano ?? 0n)
    },
  )
  await fc.assert(property, { numRuns: 5 })
  await patch({ prices: { openai: null } })
})

test.serial(
  'reported by name: changes that another version stored in a form of its own; the others are in force',
  async t => {
    const { db } = first.services
    const row = { name: 'gpt-4o', updatedBy: 'another version' }
    const rows = [
      { ...row, kind: 'model', value: { prices: { openai: 'cheap' } } },
      { ...row, kind: 'discount', value: { percent: 5 } },
    ]
    await db.catalogOverride.createMany({ data: rows })
    await run('model', 'disable', '--model', model)
    const { data, faults } = await operator.visitor.json<OperatorModels>(`${base}/models`)
    t.deepEqual(
      faults.filter(({ name }) => name === 'gpt-4o').map(({ kind, field }) => [kind, field]),
      [
        ['discount', 'value'],
        ['model', 'value'],
      ],
    )
    t.is(data.find(({ id }) => id === model)?.disabled, true)
    await db.catalogOverride.deleteMany({ where: { name: 'gpt-4o' } })
    await run('model', 'reset', '--model', model)
  },
)

test.serial('changes are audited without secrets, and by command', async t => {
  await run('model', 'disable', '--model', model)
  await run(
    'model',
    'price',
    '--model',
    model,
    '--provider',
    'openai',
    '--price',
    '{"unit":"token","input":"3","output":"4"}',
  )
  t.is((await run('model', 'reset', '--model', model)).text, `${model} is as the catalog file has it`)
  const { db } = first.services
  const events = await db.auditEvent.findMany({ where: { organisationId: null, action: { startsWith: 'catalog_' } } })
  const actions = new Set(events.map(({ action }) => action))
  for (const action of [
    'catalog_model.added',
    'catalog_model.removed',
    'catalog_alias.added',
    'catalog_server.changed',
  ])
    t.true(actions.has(action), action)
  t.false(JSON.stringify(events.map(({ changes }) => changes)).includes(serverKey))
  t.true(events.every(({ actorKind }) => actorKind === 'operator'))
  const { data, last_id } = await operator.visitor.json<AuditAnswer>(`${base}/audit?limit=2&action=catalog_model`)
  t.is(data[0]?.action, 'catalog_model.removed')
  t.is(data[0]?.organisation, null)
  const next = await operator.visitor.json<AuditAnswer>(`${base}/audit?limit=2&action=catalog_model&after=${last_id}`)
  t.false(next.data.some(({ id }) => data.some(event => event.id === id)))
})
