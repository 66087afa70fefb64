import { stepBatch } from '../../shared/batches/step.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { storeUnavailable } from '../../shared/io/outage.ts'
import type { Services } from '../../shared/open-services.ts'
import { startOpenAiBatches } from '../emulators/openai-batches.ts'
import {
  batchOf,
  cancelBatch,
  chatLine,
  costNano,
  createBatch,
  type Door,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../support/batches/gateway.ts'
import { broken } from '../support/batches/world.ts'
import { chargedNano, startWorld } from '../support/chat/gateway.ts'
import type { Account } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

// Only the test runs steps of these batches.

const openai = use(test, () => startOpenAiBatches({ polls: 1 }))
const world = use(test, () => startWorld({ OPENAI_BASE_URL: `${openai.url}/v1` }))
test.beforeEach(() => {
  Object.assign(openai.script, { polls: 1, answers: Number.POSITIVE_INFINITY, refusals: [], lost: 0 })
  openai.emulator.reset()
})

const lines = Array.from({ length: 5 }, (_, i) =>
  chatLine(`line-${i}`, 'gpt-4o-mini', `Hello ${i}`, { max_tokens: 50 }),
)
const doorOf = ({ live }: Account): Door => ({ url: world.gateway.url, key: live })
const visit = (id: string, services: Services = world.gateway.services) =>
  stepBatch(services, id, new AbortController().signal)
const directCalls = () => openai.emulator.requests.filter(({ path }) => path.endsWith('/chat/completions')).length
const lost = () => new Error('the connection broke')
const outage = storeUnavailable(lost())

async function created(door: Door): Promise<string> {
  return (await createBatch(door, await uploadInput(door, jsonLines(lines)))).id
}

test.serial('cancelled while its state at the provider is unknown: it is searched and cancelled there', async t => {
  const account = await world.gateway.account()
  const door = doorOf(account)
  Object.assign(openai.script, { lost: 1, polls: 1_000 })
  const id = await created(door)
  t.true((await visit(id))! > 0)
  t.is(openai.batches.size, 1)
  await cancelBatch(door, id)
  t.true((await visit(id))! > 0)
  t.is([...openai.batches.values()].at(-1)!.status, 'stopping')
  t.is(await visit(id), null)
  t.is((await batchOf(door, id)).status, 'cancelled')
  t.is(directCalls(), 0)
  t.is(await chargedNano(world, account), 0)
})

test.serial('cancelled in the moment of the hand-over: the provider never hears of it, nothing stays held', async t => {
  const account = await world.gateway.account()
  const door = doorOf(account)
  const before = openai.batches.size
  const id = await created(door)
  const { services } = world.gateway
  const { batches } = services
  const change: typeof batches.change = async (batch, from, data) => {
    if (data.provider === 'openai') await cancelBatch(door, id)
    return batches.change(batch, from, data)
  }
  t.is(await visit(id, { ...services, batches: broken(batches, 'change', change) }), null)
  const batch = await batchOf(door, id)
  t.is(batch.status, 'cancelled')
  t.is(openai.batches.size, before)
  t.deepEqual(
    lineFaults(
      lines.map(line => line.custom_id),
      await resultsOf(door, batch),
    ),
    [],
  )
  t.is((await services.wallets.view(account.organisationId)).reservedNano, 0n)
  t.is(await chargedNano(world, account), 0)
})

test.serial('without a hold once Redis did not answer when the hold was made', async t => {
  const account = await world.gateway.account()
  const door = doorOf(account)
  const id = await created(door)
  const { services } = world.gateway
  const { admission } = services
  const transferToJob = () => Promise.reject(lost())
  await t.throwsAsync(visit(id, { ...services, admission: broken(admission, 'transferToJob', transferToJob) }))
  t.is(await visit(id), null)
  const batch = await batchOf(door, id)
  t.deepEqual(batch.request_counts, { total: 5, completed: 5, failed: 0 })
  t.is(await chargedNano(world, account), costNano(await resultsOf(door, batch)))
})

for (const batch_routing of ['auto', 'provider'] as const)
  test.serial(
    `in_progress while Redis is away, then handed to the provider: batch_routing ${batch_routing}`,
    async t => {
      const door = doorOf(await world.gateway.account())
      const before = openai.batches.size
      const { id } = await createBatch(door, await uploadInput(door, jsonLines(lines)), { batch_routing })
      const { services } = world.gateway
      const away = { ...services, admission: broken(services.admission, 'admit', async () => Promise.reject(outage)) }
      await t.throwsAsync(visit(id, away), { is: outage })
      t.is((await batchOf(door, id)).status, 'in_progress')
      t.is(await visit(id), null)
      t.is(openai.batches.size, before + 1)
      t.like(await batchOf(door, id), { status: 'completed', provider: 'openai' })
      t.is(directCalls(), 0)
    },
  )

test.serial('given back at once when the provider forgets the batch before its first look', async t => {
  const account = await world.gateway.account()
  const door = doorOf(account)
  const id = await created(door)
  const { services } = world.gateway
  const { batches } = services
  const change: typeof batches.change = async (batch, from, data) => {
    const changed = await batches.change(batch, from, data)
    if (changed.operation !== null) (openai.batches as Map<string, unknown>).clear()
    return changed
  }
  t.is(await visit(id, { ...services, batches: broken(batches, 'change', change) }), null)
  const batch = await batchOf(door, id)
  t.deepEqual(batch.request_counts, { total: 5, completed: 5, failed: 0 })
  t.is(await chargedNano(world, account), costNano(await resultsOf(door, batch)))
})

test.serial(
  'completed under the cap it was reserved under, though that is lowered and the key revoked meanwhile',
  async t => {
    const account = await world.gateway.account({ monthly_spend_cap_usd: 5 })
    const door = doorOf(account)
    openai.script.polls = 2
    const id = await created(door)
    t.true((await visit(id))! > 0)
    const { services } = world.gateway
    const { keyId } = (await services.batches.read(id))!
    const { hash } = await services.db.apiKey.findUniqueOrThrow({ where: { id: keyId } })
    await services.keys.patch(account.organisationId, hash, { monthly_spend_cap_usd: 0.000001 }, operatorActor)
    await services.keys.revoke(account.organisationId, hash, operatorActor)
    t.is(await visit(id), null)
    const watching = { ...door, key: await world.gateway.key(account.organisationId, 'live') }
    const batch = await batchOf(watching, id)
    t.deepEqual(batch.request_counts, { total: 5, completed: 5, failed: 0 })
    t.true(batch.cost_usd! > 0.000001)
    t.is(await chargedNano(world, account), costNano(await resultsOf(watching, batch)))
  },
)
