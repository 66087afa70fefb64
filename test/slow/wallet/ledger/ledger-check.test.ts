import type { Batch } from '../../../../shared/batches/batches.ts'
import { holdMember, type JobHold } from '../../../../shared/wallet/holds.ts'
import { startOpenAiEmulator } from '../../../emulators/openai.ts'
import { ledgerCheck, shoot } from '../../../support/chaos.ts'
import { freshStores, type Gateway, type Stores, startGateway } from '../../../support/gateway.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { moneyEnvironment, operator } from '../../../support/wallet/money.ts'
import { snapshot } from '../../../support/wallet/snapshot.ts'

const upstream = startOpenAiEmulator()
test.after.always(async () => (await upstream).close())

const names = {
  balances: 'the sum of ledger entries is the balance',
  spends: 'a key’s spend equals its charges',
  caps: 'spend stays within the monthly cap',
  waivers: 'no request uses tokens for nothing without a stated reason',
  cancelledCalls: 'a cancelled job pays for the call it had begun',
  excesses: 'whatever exceeded its reservation was handled',
  overdrafts: 'a balance is below zero only by what exceeded its reservation or was taken back',
  charges: 'every charge has its request, and every charged request its charge',
  months: 'every charge counts in the month of its request, or is marked as late',
  jobs: 'every job costs what was charged for it, and nothing when it failed',
  topUps: 'a top-up’s entries are what was paid and did not go back',
  once: 'every request is logged once',
  ledgerDays: 'the days of the ledger add up to its entries',
  days: 'the days of usage add up to the request log',
  hours: 'the hours of usage add up to the request log',
  dayDetails: 'the days of usage in detail add up to the request log',
  peaks: 'no request exceeds the peaks of its hour',
  batchLines: 'a batch counts each of its lines once',
  batchCosts: 'a batch costs what its lines were charged',
  storage: 'what organisations store is counted',
  redis: 'Redis’ wallets and spends agree with the stream, the open reservations and Postgres',
  reservations: 'every reservation belongs to a process the sweeper checks',
  holds: 'what jobs in flight hold is reserved',
  dead: 'no usage event was refused by Postgres',
}
type Scene = { gateway: Gateway; organisationId: string; keyId: string; month: string }

let stores: Stores
let scene: Scene
/** Brings both stores back to where one request was answered and booked. */
let restore: () => Promise<unknown>

test.before(async t => {
  stores = await freshStores()
  const gateway = await startGateway(stores, await moneyEnvironment((await upstream).url))
  const { live, organisationId } = await gateway.account({ monthly_spend_cap_usd: 5 })
  t.is((await shoot(gateway.url, live, true)).status, 200)
  t.deepEqual(await gateway.settled(), [])
  const { keyId, month } = await gateway.services.db.keySpend.findFirstOrThrow({ where: { key: { organisationId } } })
  scene = { gateway, organisationId, keyId, month }
  restore = await snapshot(gateway.services, tampered)
})
test.beforeEach(() => restore())
test.after.always(async () => {
  await scene?.gateway.close()
  await stores?.drop()
})

/** The invariants that `operator ledger check` finds broken; its exit code must agree. */
async function broken(t: ExecutionContext, gateway: Gateway): Promise<string[]> {
  const { data, text, exitCode } = await operator(gateway.services, 'ledger', 'check')
  const { ok, invariants } = data as { ok: boolean; invariants: { name: string; breaches: string[] }[] }
  const found = invariants.filter(({ breaches }) => breaches.length > 0).map(({ name }) => name)
  t.is(exitCode ?? 0, found.length > 0 ? 1 : 0)
  t.is(ok, found.length === 0)
  for (const { name } of invariants) t.true(text.includes(name))
  return found
}

/** A batch that its rows say this of. */
function batch({ gateway, organisationId, keyId, month }: Scene, of: Partial<Batch>): Promise<unknown> {
  const input = { inputFileId: 'file-x', inputKey: 'batches/x', inputBytes: 1n, endpoint: '/v1/chat/completions' }
  const about = { id: 'batch_x', organisationId, keyId, month, requestId: 'req_x', environment: 'live' as const }
  const { errors: _errors, operation: _operation, price: _price, metadata: _metadata, ...rest } = of
  const data = { ...about, ...input, status: 'in_progress' as const, deadlineAt: new Date(), ...rest }
  return gateway.services.db.batch.create({ data })
}

/** A delayed job that waits, holds 7 nano-dollars, and of which Redis knows nothing. */
function jobInFlight({ gateway, organisationId, keyId, month }: Scene): Promise<JobHold> {
  const about = { id: 'ajob_x', organisationId, keyId, month, requestId: 'req_x', environment: 'live' as const }
  const work = { kind: 'async', model: 'coin', input: {}, stage: 'waiting' as const, holdNano: 7n }
  return gateway.services.db.job.create({ data: { ...about, ...work, deadlineAt: new Date() } })
}

/** The tables that the tests below change. */
const tampered = [
  'batches',
  'generations',
  'jobs',
  'key_spend',
  'ledger_days',
  'ledger_entries',
  'storage_usage',
  'top_ups',
  'usage_day_details',
  'usage_days',
  'usage_hours',
  'usage_peaks',
  'wallets',
]

const tamperings: [what: string, tamper: (scene: Scene) => Promise<unknown>, breached: (keyof typeof names)[]][] = [
  [
    'a balance is not the sum of its entries',
    ({ gateway, organisationId }) =>
      gateway.services.db
        .$executeRaw`UPDATE wallets SET balance_nano = balance_nano + 1 WHERE organisation_id = ${organisationId}`,
    ['balances', 'redis'],
  ],
  [
    'a key’s spend is not the sum of its charges',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE key_spend SET spent_nano = spent_nano - 1 WHERE key_id = ${keyId}`,
    ['spends', 'redis'],
  ],
  [
    'a key’s spend is counted in another month than its charges',
    ({ gateway, keyId }) => gateway.services.db.$executeRaw`
      WITH moved AS (UPDATE key_spend SET spent_nano = spent_nano - 1 WHERE key_id = ${keyId})
      INSERT INTO key_spend (key_id, month, spent_nano) VALUES (${keyId}, '2020-02', 1)`,
    ['spends', 'redis'],
  ],
  [
    'a charge counts in another month than its request and its date',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE ledger_entries SET month = '2020-02' WHERE key_id = ${keyId}`,
    ['spends', 'months'],
  ],
  [
    'a charge is dated after its month and not marked as late',
    ({ gateway, keyId }) => gateway.services.db.$executeRaw`
      UPDATE ledger_entries SET created_at = created_at + interval '1 month' WHERE key_id = ${keyId}`,
    ['months', 'ledgerDays'],
  ],
  [
    'a key spent more than its cap',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE key_spend SET cap_nano = spent_nano - 1 WHERE key_id = ${keyId}`,
    ['caps'],
  ],
  [
    'a request used tokens and was not charged',
    ({ gateway, keyId }) => gateway.services.db.$executeRaw`
      INSERT INTO generations SELECT (jsonb_populate_record(g, jsonb_build_object('id', 'chatcmpl-x', 'cost_nano', 0))).*
      FROM generations g WHERE key_id = ${keyId}`,
    ['waivers'],
  ],
  [
    'a job was cancelled during its call and cost nothing',
    ({ gateway, organisationId, keyId, month }) =>
      gateway.services.db.job.create({
        data: {
          id: 'ajob_x',
          organisationId,
          keyId,
          month,
          requestId: 'req_x',
          environment: 'live',
          kind: 'async',
          status: 'cancelled',
          stage: 'over',
          model: 'coin',
          input: {},
          holdNano: 9n,
          costNano: 0n,
          operation: { failures: 0, call: { model: 'coin', provider: 'openai', atMs: 1 } },
          deadlineAt: new Date(),
        },
      }),
    ['cancelledCalls'],
  ],
  [
    'more than a reservation was charged and is not handled, and a wallet is overdrawn otherwise',
    async ({ gateway, organisationId, keyId }) => {
      const { db } = gateway.services
      await db.$executeRaw`
        INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at)
        VALUES (${organisationId}, 'excess', -1, 'excess:chatcmpl-x', ${keyId}, now() - interval '3 minutes')`
      await db.$executeRaw`UPDATE excesses SET booked_at = created_at WHERE key_id = ${keyId}`
      await db.$executeRaw`UPDATE wallets SET balance_nano = -1000 WHERE organisation_id = ${organisationId}`
    },
    ['balances', 'spends', 'excesses', 'overdrafts', 'charges', 'redis'],
  ],
  [
    'a charge has no request',
    ({ gateway, keyId }) => gateway.services.db.$executeRaw`DELETE FROM generations WHERE key_id = ${keyId}`,
    ['charges', 'days', 'hours', 'dayDetails'],
  ],
  [
    'a request is logged with another cost than it was charged',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE generations SET cost_nano = cost_nano + 1 WHERE key_id = ${keyId}`,
    ['charges'],
  ],
  [
    'a day has other costs than its requests',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE usage_days SET cost_nano = cost_nano + 1 WHERE key_id = ${keyId}`,
    ['days'],
  ],
  [
    'an hour has other requests than the log',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE usage_hours SET requests = requests + 1 WHERE key_id = ${keyId}`,
    ['hours'],
  ],
  [
    'a day has other durations than the log',
    ({ gateway, keyId }) =>
      gateway.services.db
        .$executeRaw`UPDATE usage_day_details SET latency_sketch = '{7,99,693}' WHERE key_id = ${keyId}`,
    ['dayDetails'],
  ],
  [
    'a request took longer than any of its hour',
    ({ gateway, organisationId }) =>
      gateway.services.db
        .$executeRaw`UPDATE usage_peaks SET duration_ms = -1 WHERE organisation_id = ${organisationId}`,
    ['peaks'],
  ],
  [
    'a charge is gone',
    ({ gateway, keyId }) => gateway.services.db.$executeRaw`DELETE FROM ledger_entries WHERE key_id = ${keyId}`,
    ['balances', 'spends', 'charges', 'ledgerDays'],
  ],
  [
    'a day of the ledger has another sum than its entries',
    ({ gateway, keyId }) =>
      gateway.services.db.$executeRaw`UPDATE ledger_days SET amount_nano = amount_nano + 1 WHERE key_id = ${keyId}`,
    ['ledgerDays'],
  ],
  [
    'a paid top-up was never credited',
    ({ gateway, organisationId }) =>
      gateway.services.db.topUp.create({ data: { id: 'top_x', organisationId, amountNano: 1n, status: 'paid' } }),
    ['topUps'],
  ],
  [
    'Redis keeps back what no deposit holds',
    ({ gateway, organisationId }) => gateway.services.redis.hset(`wallet:${organisationId}`, 'holds', `${9e12}:1`),
    ['redis'],
  ],
  [
    'a request is logged twice',
    ({ gateway }) => gateway.services.db.$executeRaw`
      INSERT INTO generations SELECT (jsonb_populate_record(g, jsonb_build_object('created_at', g.created_at + interval '1 s'))).*
      FROM generations g`,
    ['once'],
  ],
  ['a running batch counts a line that is not in its journal', scene => batch(scene, { completed: 1 }), ['batchLines']],
  [
    'a batch ended without all of its lines',
    scene => batch(scene, { status: 'completed', total: 2, completed: 1 }),
    ['batchLines'],
  ],
  ['a batch costs more than its lines', scene => batch(scene, { costNano: 1n }), ['batchCosts']],
  [
    'Redis counts an unposted charge that no event stands for',
    ({ gateway, organisationId }) => gateway.services.redis.hincrby(`wallet:${organisationId}`, 'unposted', 1),
    ['redis'],
  ],
  [
    'Redis counts a reservation that is not open',
    ({ gateway, keyId, month }) => gateway.services.redis.hincrby(`spend:${keyId}:${month}`, 'reserved', 1),
    ['redis'],
  ],
  [
    'Redis has another balance than Postgres',
    ({ gateway, organisationId }) => gateway.services.redis.hincrby(`wallet:${organisationId}`, 'posted', 1),
    ['redis'],
  ],
  [
    'Redis is ahead of Postgres',
    ({ gateway, keyId, month }) => gateway.services.redis.hincrby(`spend:${keyId}:${month}`, 'version', 1),
    ['redis'],
  ],
  [
    'Redis has lost a wallet under an open reservation',
    async ({ gateway, organisationId, keyId, month }) => {
      const { redis, admission } = gateway.services
      await redis.zadd(`reservations:${admission.instance}`, 9e15, `chatcmpl-x|${organisationId}|${keyId}|${month}|7`)
      await redis.hincrby(`spend:${keyId}:${month}`, 'reserved', 7)
      await redis.del(`wallet:${organisationId}`)
    },
    ['redis'],
  ],
  [
    'a reservation has no owner',
    async ({ gateway, organisationId, keyId, month }) => {
      const { redis } = gateway.services
      await redis.zadd('reservations:ghost', 9e15, `chatcmpl-x|${organisationId}|${keyId}|${month}|7`)
      await redis.hincrby(`wallet:${organisationId}`, 'reserved', 7)
      await redis.hincrby(`spend:${keyId}:${month}`, 'reserved', 7)
    },
    ['reservations'],
  ],
  [
    'money is held for a job that is not there',
    async ({ gateway, organisationId, keyId, month }) => {
      const { redis } = gateway.services
      await redis.zadd('reservations:jobs', 0, `job_x|${organisationId}|${keyId}|${month}|7`)
      await redis.hincrby(`wallet:${organisationId}`, 'reserved', 7)
      await redis.hincrby(`spend:${keyId}:${month}`, 'reserved', 7)
    },
    ['holds'],
  ],
  ['nothing is held for a job in flight', scene => jobInFlight(scene), ['holds']],
  [
    'what an organisation stores was miscounted',
    ({ gateway, organisationId }) =>
      gateway.services.db.storageUsage.create({ data: { organisationId, environment: 'test', files: 1n, bytes: 7n } }),
    ['storage'],
  ],
  [
    'an event was refused by Postgres',
    ({ gateway }) => gateway.services.redis.xadd('usage:dead', '*', 'e', '{}', 'reason', 'a test'),
    ['dead'],
  ],
]

for (const [what, tamper, breached] of tamperings) {
  test.serial(`exit code 1 when ${what}`, async t => {
    await tamper(scene)
    t.deepEqual(
      await broken(t, scene.gateway),
      breached.map(name => names[name]),
    )
  })
}

test.serial(
  'exit code 0 while the process that admitted a job has not yet made its reservation the hold of the job',
  async t => {
    const { gateway, organisationId, keyId, month } = scene
    const { redis } = gateway.services
    const member = holdMember(await jobInFlight(scene))
    const [instance] = await redis.zrange('instances', '0', '0')
    await redis.zadd(`reservations:${instance}`, Date.now(), member)
    await redis.hincrby(`wallet:${organisationId}`, 'reserved', 7)
    await redis.hincrby(`spend:${keyId}:${month}`, 'reserved', 7)
    t.deepEqual(await broken(t, gateway), [])
  },
)

test.serial('exit code 0 when all is well, 1 when not, from the command line', async t => {
  const { gateway, organisationId } = scene
  const good = await ledgerCheck(stores)
  t.is(good.exitCode, 0)
  t.true(good.report.ok)
  t.deepEqual(
    good.report.invariants.map(({ name }) => name),
    Object.values(names),
  )
  await gateway.services.db.$executeRaw`UPDATE wallets SET balance_nano = 1 WHERE organisation_id = ${organisationId}`
  const bad = await ledgerCheck(stores)
  t.is(bad.exitCode, 1)
  t.false(bad.report.ok)
  t.regex(bad.report.invariants[0]!.breaches[0]!, new RegExp(`${organisationId}: is 1, should be 24999`))
})
