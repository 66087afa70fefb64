import type { z } from 'zod'
import { operatorActor } from '../../shared/io/audit.ts'
import { keyPatch } from '../../shared/keys/key-requests.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { openQueue } from '../../shared/queues/queues.ts'
import { startAnthropicBatches } from '../emulators/anthropic-batches.ts'
import type { BatchEmulator } from '../emulators/batches.ts'
import { json } from '../emulators/emulator.ts'
import { contextLength, serverError } from '../emulators/openai.ts'
import { startOpenAiBatches } from '../emulators/openai-batches.ts'
import {
  cancelBatch,
  chatLine,
  costNano,
  createBatch,
  type Door,
  ended,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../support/batches/gateway.ts'
import { chargedNano, expectedNano, startWorld } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const openai = use(test, () => startOpenAiBatches({ polls: 1 }))
const anthropic = use(test, () => startAnthropicBatches({ polls: 1 }))
const world = use(test, () => startWorld({ OPENAI_BASE_URL: `${openai.url}/v1`, ANTHROPIC_BASE_URL: anthropic.url }))
use(test, () => startWorkers(world.gateway.services))
test.beforeEach(() => {
  for (const { script, emulator } of [openai, anthropic]) {
    const usual = { polls: 1, answers: Number.POSITIVE_INFINITY, instead: () => null, refusals: [], lost: 0 }
    Object.assign(script, { ...usual, lines: (lines: string[]) => lines })
    emulator.reset()
  }
})

const gpt = 'gpt-4o-mini'
const claude = 'claude-sonnet-5'
const hello = (model: string, count = 25) =>
  Array.from({ length: count }, (_, i) => chatLine(`line-${i}`, model, `Hello number ${i}`, { max_tokens: 50 }))
const doorOf = ({ live }: Pick<Account, 'live'>): Door => ({ url: world.gateway.url, key: live })
const direct = ({ emulator }: BatchEmulator) =>
  emulator.requests.filter(({ path }) => /\/(chat\/completions|messages)$/.test(path)).length

async function created(door: Door, lines: object[], more: object = {}): Promise<string> {
  return createdOf(door, jsonLines(lines), more)
}

async function createdOf(door: Door, file: string, more: object = {}): Promise<string> {
  return (await createBatch(door, await uploadInput(door, file), more)).id
}

/** A file of results with lines that a provider should not write. */
function damaged(provider: 'OpenAI' | 'Anthropic', texts: string[]): string[] {
  const isOpenAi = provider === 'OpenAI'
  const bodyName = isOpenAi ? 'body' : 'message'
  const written = new Map(texts.map(text => [JSON.parse(text).custom_id as string, JSON.parse(text)]))
  const placeOf = (id: string) => (isOpenAi ? written.get(id).response : written.get(id).result)
  delete placeOf('l1')[bodyName]
  placeOf('l2')[bodyName] = null
  placeOf('l3')[bodyName] = 'An answer.'
  delete placeOf('l5')[bodyName].usage
  const copies = ['l6', 'l13', 'l0', 'l999', 'l99999999999999999999', 'line-1', '', null, 7].map(id => ({
    ...structuredClone(written.get('l6')),
    custom_id: id,
  }))
  written.delete('l7')
  if (isOpenAi) Object.assign(written.get('l8'), { response: { status_code: 500 } })
  else written.get('l8').result = { type: 'errored' }
  if (isOpenAi) Object.assign(written.get('l9'), { response: null, error: null })
  else written.get('l9').result = null
  return [...written.values(), ...copies].map(line => `${JSON.stringify(line)}\n`).concat('null\n', 'no JSON\n', '\n')
}

/** The end of a batch, with its next look brought forward whenever it waits for one. */
async function hurried(door: Door, id: string) {
  const hurrying = setInterval(() => void world.gateway.services.batchWakes.promote(id).catch(() => {}), 100)
  const batch = await ended(door, id).finally(() => clearInterval(hurrying))
  return { batch: batch as typeof batch & { provider: string | null }, results: await resultsOf(door, batch) }
}

const idsOf = (lines: { custom_id: string }[]) => lines.map(line => line.custom_id)

for (const [name, model, emulator] of [
  ['OpenAI', gpt, () => openai],
  ['Anthropic', claude, () => anthropic],
] as const) {
  test.serial(`handed to ${name}: its answers are mapped back, at the batch price`, async t => {
    const account = await world.gateway.account()
    const lines = hello(model)
    emulator().script.polls = 3
    const { batch, results } = await hurried(doorOf(account), await created(doorOf(account), lines))
    t.is(batch.status, 'completed')
    t.is(batch.provider, name.toLowerCase())
    t.deepEqual(batch.request_counts, { total: 25, completed: 25, failed: 0 })
    t.deepEqual(lineFaults(idsOf(lines), results), [])
    t.is(direct(emulator()), 0)
    const { body } = results.output[0]!.response!
    t.is(body.object, 'chat.completion')
    t.is(body.model === model || body.model.startsWith('gpt'), true)
    t.is(Math.round(body.usage.cost * 1e9), expectedNano(model, body.usage, { percent: -47.5 }))
    t.is(await chargedNano(world, account), costNano(results))
  })

  test.serial(`handed to ${name}: without what costs extra, at the batch price`, async t => {
    const account = await world.gateway.account()
    const lines = hello(model, 2).map(line => ({
      ...line,
      body: { ...line.body, service_tier: 'priority', store: true, speed: 'fast', invented_tomorrow: 1 },
    }))
    const { batch, results } = await hurried(doorOf(account), await created(doorOf(account), lines))
    t.is(batch.provider, name.toLowerCase())
    const sent = emulator().emulator.requests.map(({ raw }) => raw.toString())
    t.true(sent.some(text => text.includes('Hello number 1')))
    for (const text of sent) t.notRegex(text, /priority|"store":true|speed|invented_tomorrow/)
    const { body } = results.output[0]!.response!
    t.is(Math.round(body.usage.cost * 1e9), expectedNano(model, body.usage, { percent: -47.5 }))
  })

  test.serial(
    `handed to ${name}: what it refuses is in the error file, what it did not come to the gateway runs`,
    async t => {
      const account = await world.gateway.account()
      const lines = hello(model)
      const refusal =
        name === 'OpenAI'
          ? contextLength
          : json(400, { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long' } })
      emulator().script.instead = ({ body }) => (JSON.stringify(body).includes('Hello number 3"') ? refusal : null)
      emulator().script.answers = 10
      const { batch, results } = await hurried(doorOf(account), await created(doorOf(account), lines))
      t.is(batch.status, 'completed')
      t.deepEqual(batch.request_counts.total, 25)
      t.deepEqual(lineFaults(idsOf(lines), results), [])
      t.true(direct(emulator()) >= 15, String(direct(emulator())))
      t.true(results.errors.every(({ response }) => response!.status_code === 400))
      t.is(await chargedNano(world, account), costNano(results))
    },
  )

  test.serial(`handed to ${name}: damaged, repeated, missing and foreign results leave each line with one`, async t => {
    const account = await world.gateway.account()
    const lines = hello(model, 12)
    const file = `${jsonLines(lines)}
` // A thirteenth line, which is blank.
    emulator().script.lines = texts => damaged(name, texts)
    const { batch, results } = await hurried(doorOf(account), await createdOf(doorOf(account), file))
    t.like(batch, { status: 'completed', provider: name.toLowerCase() })
    t.deepEqual(lineFaults(idsOf(lines), results), [])
    t.is(results.output.length + results.errors.length, 12)
    t.true(
      results.output.find(({ custom_id }) => custom_id === 'line-4')!.response!.body.usage.estimated,
      'it was not told',
    )
    t.is(await chargedNano(world, account), costNano(results))
    t.deepEqual(await world.gateway.settled(), [])
  })

  test.serial(`cancelled at ${name}: what it had finished is kept and billed`, async t => {
    const account = await world.gateway.account()
    const lines = hello(model)
    emulator().script.polls = 1_000
    const id = await created(doorOf(account), lines)
    await eventually(
      () => [...emulator().batches.values()].some(({ status }) => status === 'running'),
      'it is handed over',
    )
    emulator().script.answers = 7
    await cancelBatch(doorOf(account), id)
    const { batch, results } = await hurried(doorOf(account), id)
    t.is(batch.status, 'cancelled')
    t.deepEqual(batch.request_counts, { total: 25, completed: 7, failed: 18 })
    t.deepEqual(lineFaults(idsOf(lines), results), [])
    t.is(results.errors[0]!.error!.code, 'batch_cancelled')
    t.is(direct(emulator()), 0)
    t.is(await chargedNano(world, account), costNano(results))
  })

  test.serial(`run by the gateway when ${name} does not take the batch`, async t => {
    const account = await world.gateway.account()
    emulator().script.refusals.push(
      json(429, { error: { message: 'Too many batches.', type: 'rate_limit_error' } }, { 'retry-after': '3600' }),
    )
    const { batch, results } = await hurried(doorOf(account), await created(doorOf(account), hello(model)))
    t.deepEqual(batch.request_counts, { total: 25, completed: 25, failed: 0 })
    t.is(batch.provider, null)
    t.is(direct(emulator()), 25)
    t.is(await chargedNano(world, account), costNano(results))
  })
}

test.serial('found again when its start was never answered: nothing is run twice', async t => {
  const account = await world.gateway.account()
  openai.script.lost = 1
  const before = openai.batches.size
  const { batch } = await hurried(doorOf(account), await created(doorOf(account), hello(gpt)))
  t.is(batch.provider, 'openai')
  t.deepEqual(batch.request_counts, { total: 25, completed: 25, failed: 0 })
  t.is(openai.batches.size - before, 1)
  t.is(direct(openai), 0)
})

test.serial(
  'run by the gateway where a provider cannot: several models, limits of the key, too little money for all',
  async t => {
    const rich = await world.gateway.account()
    const mixed = await hurried(
      doorOf(rich),
      await created(doorOf(rich), [...hello(gpt, 3), chatLine('other', 'gpt-4o', 'x')]),
    )
    t.is(mixed.batch.provider, null)
    t.is(mixed.batch.request_counts.completed, 4)
    const limited = await world.gateway.account({ rpm_limit: 1_000 })
    const slow = await hurried(doorOf(limited), await created(doorOf(limited), hello(gpt, 3)))
    t.is(slow.batch.provider, null)
    const poor = await world.gateway.account({ usd: '0.0005' })
    const lean = await hurried(doorOf(poor), await created(doorOf(poor), hello(gpt, 60)))
    t.is(lean.batch.provider, null)
    t.true(lean.batch.request_counts.completed > 0)
    await chargedNano(world, poor)
  },
)

test.serial('handed over later when only a provider is to run it and it is too busy at first', async t => {
  const busy = json(429, { error: { message: 'Too many batches.', type: 'rate_limit_error' } }, { 'retry-after': '60' })
  for (const [model, emulator] of [
    [gpt, openai],
    [claude, anthropic],
  ] as const) {
    const account = await world.gateway.account()
    emulator.script.refusals.push(busy, busy)
    const id = await created(doorOf(account), hello(model), { batch_routing: 'provider' })
    await eventually(() => emulator.script.refusals.length === 1, 'it is refused')
    const { wallets, batches } = world.gateway.services
    await eventually(
      async () => (await wallets.view(account.organisationId)).reservedNano === 0n,
      'its hold is released',
    )
    t.like(await batches.read(id), { status: 'in_progress', provider: null, holdNano: 0n })
    const { batch, results } = await hurried(doorOf(account), id)
    t.like(batch, { status: 'completed', request_counts: { total: 25, completed: 25, failed: 0 } })
    t.is(direct(emulator), 0)
    t.is(await chargedNano(world, account), costNano(results))
  }
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('handed over when the only provider that is to run it is resumed', async t => {
  const account = await world.gateway.account()
  const { providerPauses } = world.gateway.services
  const beside = async () => {}
  await providerPauses.pause('openai', { reason: null, by: 'operator@example.com' }, beside)
  const id = await created(doorOf(account), hello(gpt), { batch_routing: 'provider' })
  const queue = openQueue('batches', world.gateway.services.redis)
  t.teardown(() => queue.close())
  await eventually(async () => (await queue.getDelayedCount()) === 1, 'it waits')
  await providerPauses.resume('openai', beside)
  const { batch } = await hurried(doorOf(account), id)
  t.like(batch, { status: 'completed', provider: 'openai' })
})

test.serial('cancelled while only a provider is to run it and it is too busy', async t => {
  const account = await world.gateway.account()
  const busy = json(429, { error: { message: 'Too many batches.', type: 'rate_limit_error' } }, { 'retry-after': '60' })
  openai.script.refusals.push(busy)
  const id = await created(doorOf(account), hello(gpt), { batch_routing: 'provider' })
  await eventually(() => openai.script.refusals.length === 0, 'it is refused')
  await cancelBatch(doorOf(account), id)
  const { batch, results } = await hurried(doorOf(account), id)
  t.like(batch, { status: 'cancelled', request_counts: { total: 25, completed: 0, failed: 25 } })
  t.is(results.errors[0]!.error!.code, 'batch_cancelled')
  t.is(await chargedNano(world, account), 0)
})

test.serial('failed when only a provider is to run it and it refuses', async t => {
  const account = await world.gateway.account()
  openai.script.refusals.push(json(401, { error: { message: 'Incorrect API key provided.' } }))
  const id = await created(doorOf(account), hello(gpt), { batch_routing: 'provider' })
  const { batch } = await hurried(doorOf(account), id)
  t.is(batch.status, 'failed')
  t.like(batch.errors!.data[0], { code: 'upstream_error', param: 'batch_routing' })
  t.is(await chargedNano(world, account), 0)
})

test.serial('failed when only a provider is to run it and none can', async t => {
  const account = await world.gateway.account()
  const lines = [...hello(gpt, 3), chatLine('other', 'gpt-4o', 'x')]
  const id = await created(doorOf(account), lines, { batch_routing: 'provider' })
  const { batch } = await hurried(doorOf(account), id)
  t.is(batch.status, 'failed')
  t.deepEqual([batch.errors!.data[0]!.code, batch.errors!.data[0]!.param], ['invalid_request', 'batch_routing'])
  t.is(await chargedNano(world, account), 0)
})

test.serial('run by the gateway: functions that the model takes beside reasoning in Responses only', async t => {
  const account = await world.gateway.account()
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
  const lines = Array.from({ length: 3 }, (_, i) => chatLine(`line-${i}`, 'gpt-5.6-luna', 'Hello', { tools }))
  const { batch, results } = await hurried(doorOf(account), await created(doorOf(account), lines))
  t.like(batch, { status: 'completed', provider: null, request_counts: { total: 3, completed: 3, failed: 0 } })
  t.true(results.output.every(({ response }) => response!.body.choices[0].message.content === 'Echo: Hello'))
  t.is(openai.emulator.requests.filter(({ path }) => path === '/v1/responses').length, 3)
  t.is(await chargedNano(world, account), costNano(results))
  openai.emulator.reset()
  const id = await created(doorOf(account), lines, { batch_routing: 'provider' })
  const refused = await hurried(doorOf(account), id)
  t.is(refused.batch.status, 'failed')
  t.like(refused.batch.errors!.data[0], { code: 'unsupported_capability', param: 'batch_routing' })
  // With the effort at which chat takes them, it is handed over.
  const handed = lines.map(line => ({ ...line, body: { ...line.body, reasoning_effort: 'none' } }))
  t.is((await hurried(doorOf(account), await created(doorOf(account), handed))).batch.provider, 'openai')
})

test.serial('charged at the price of its hold, whatever the catalog says by then', async t => {
  const account = await world.gateway.account({ monthly_spend_cap_usd: 1 })
  const { batches, catalogOverrides } = world.gateway.services
  const setPrices = (prices: object | null) =>
    catalogOverrides.change({ kind: 'model', name: gpt, update: () => prices && { prices } }, operatorActor)
  openai.script.polls = 1_000
  const id = await created(doorOf(account), hello(gpt))
  await eventually(async () => (await batches.read(id))!.operation !== null, 'it is handed over')
  const { holdNano } = (await batches.read(id))!
  await setPrices({ openai: { unit: 'token', input: '1000', output: '5000' } })
  try {
    openai.script.answers = 20
    await cancelBatch(doorOf(account), id)
    const { batch, results } = await hurried(doorOf(account), id)
    t.is(batch.request_counts.completed, 20)
    const charged = await chargedNano(world, account)
    t.is(charged, costNano(results))
    t.true(charged > 0 && charged <= Number(holdNano), `${charged} of ${holdNano}`)
  } finally {
    await setPrices(null)
  }
})

test.serial('held as one sum while a provider has it, and given back', async t => {
  const account = await world.gateway.account()
  openai.script.polls = 1_000
  const id = await created(doorOf(account), hello(gpt))
  const { batches, wallets } = world.gateway.services
  await eventually(async () => (await batches.read(id))!.operation !== null, 'it is handed over')
  const { holdNano } = (await batches.read(id))!
  t.true(holdNano > 0n)
  t.is((await wallets.view(account.organisationId)).reservedNano, holdNano)
  t.deepEqual(await world.gateway.settled(), [])
  openai.script.instead = () => serverError
  await cancelBatch(doorOf(account), id)
  await hurried(doorOf(account), id)
  t.is(await chargedNano(world, account), 0)
})

const sinceWritten: [what: string, patch: z.input<typeof keyPatch>, end: object][] = [
  ['gets limits', { rpm_limit: 1_000 }, { status: 'completed', request_counts: { total: 3, completed: 3, failed: 0 } }],
  [
    'is to use own provider keys',
    { own_keys: 'own' },
    { status: 'completed', request_counts: { total: 3, completed: 0, failed: 3 } },
  ],
  ['is disabled', { disabled: true }, { status: 'completed', request_counts: { total: 3, completed: 0, failed: 3 } }],
]
for (const [what, patch, end] of sinceWritten)
  test.serial(`run by the gateway when its key ${what} while the requests are written for a provider`, async t => {
    const account = await world.gateway.account()
    const { db, keys } = world.gateway.services
    const { organisationId, live } = account
    const input = await uploadInput(doorOf(account), jsonLines(hello(gpt, 3)))
    const [locked, changed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const storing = db.$transaction(
      async tx => {
        await tx.$executeRaw`SELECT 1 FROM storage_usage WHERE organisation_id = ${organisationId} FOR UPDATE`
        locked.resolve()
        await changed.promise
      },
      { timeout: 60_000 },
    )
    await locked.promise
    const { id } = await createBatch(doorOf(account), input)
    const findWaiting = () => db.$queryRaw<object[]>`
      SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%files%'`
    await eventually(async () => (await findWaiting()).length > 0, 'the file for the provider is written')
    await keys.patch(null, hashSecret(live), keyPatch.parse(patch), operatorActor)
    changed.resolve()
    await storing
    await eventually(
      async () => (await db.batch.findUniqueOrThrow({ where: { id } })).completedAt !== null,
      'it is over',
    )
    const row = await db.batch.findUniqueOrThrow({ where: { id } })
    t.is(row.provider, null)
    await keys.patch(null, hashSecret(live), keyPatch.parse({ disabled: false }), operatorActor)
    t.like((await hurried(doorOf(account), id)).batch, end)
  })

test.serial('run by the gateway when a line asks for JSON that has to be checked', async t => {
  const account = await world.gateway.account()
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const asked = {
    response_format: { type: 'json_schema', json_schema: { name: 'city', schema } },
    plugins: [{ id: 'response-healing' }],
  }
  const lines = hello(gpt, 2).map(line => ({ ...line, body: { ...line.body, ...asked } }))
  const { batch, results } = await hurried(doorOf(account), await created(doorOf(account), lines))
  t.is(batch.provider, null)
  t.deepEqual(lineFaults(idsOf(lines), results), [])
  t.is(direct(openai), 2)
  t.is(await chargedNano(world, account), costNano(results))
})
