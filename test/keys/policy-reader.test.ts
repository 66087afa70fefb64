import { systemClock } from '../../shared/base/time.ts'
import { openPool } from '../../shared/io/postgres.ts'
import { policyRow } from '../../shared/keys/policy.ts'
import { PolicyReader } from '../../shared/keys/policy-reader.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

const stores = useStores(test)
const gateway = useGateway(test, {}, { stores })
const pool = use(
  test,
  () => openPool(stores.databaseUrl, { connections: 2, statementTimeoutMs: 10_000 }),
  it => it.end(),
)

/** Everything that can be set of a key and of its organisation. */
const everything = {
  rpmLimit: 7,
  tpmLimit: 70_000,
  monthlySpendCapNano: 9_007_199_254_740_993n,
  modelAllowlist: ['gpt-5.4', 'auto'],
  scopes: ['chat'],
  learning: false,
  deniedTiers: ['priority'],
  provider: { only: ['openai'] },
  ownKeys: 'own_then_shared',
  cacheTtlS: 60,
  guardrails: { detectors: [], webhook: null, other_kinds: 'refuse' },
  expiresAt: new Date('2030-01-01T00:00:00.123Z'),
  revokedAt: new Date('2029-01-01T00:00:00.456Z'),
  disabled: true,
  blockedReason: 'excess',
  contentMode: 'sample',
  contentPercent: 5,
  contentUntil: new Date('2028-01-01T00:00:00.789Z'),
}

/** What every key has from its creation or its use. */
const neverSet = new Set([
  ...[
    'id',
    'organisationId',
    'hash',
    'prefix',
    'last4',
    'name',
    'environment',
    'createdAt',
    'updatedAt',
    'createdById',
  ],
  ...['mode', 'version', 'excessCountsFrom', 'lastUsedAt'],
])

test('a row read by the raw statement is the row that Prisma reads, whatever its columns hold', async t => {
  const { db } = gateway.services
  const reader = new PolicyReader(pool, systemClock)
  const account = await gateway.account()
  const { organisationId } = account
  const [plain, full] = await db.apiKey.findMany({ where: { organisationId } })
  await db.apiKey.update({ where: { id: full!.id }, data: everything })
  const unset = await db.apiKey.findUniqueOrThrow({ where: { id: plain!.id } })
  const settable = Object.keys(unset).filter(name => !neverSet.has(name))
  t.deepEqual(settable.toSorted(), Object.keys(everything).toSorted(), 'a new column has a value here')
  await db.organisation.update({ where: { id: organisationId }, data: { suspendedAt: new Date(), contentMode: 'all' } })
  for (const { hash } of [plain!, full!]) {
    const expected = await db.apiKey.findUnique({ where: { hash }, ...policyRow })
    t.deepEqual((await reader.read(hash))!.row, expected as never)
  }
  t.is(await reader.read('unknown'), null)
})

test('rows that are asked for in one turn are read by one statement', async t => {
  const { organisationId } = await gateway.account()
  const keys = await gateway.services.db.apiKey.findMany({ where: { organisationId } })
  let statements = 0
  const counted = {
    query(...given: [string]) {
      statements++
      return pool.query(...given)
    },
  }
  const reader = new PolicyReader(counted as unknown as typeof pool, systemClock)
  const reads = await Promise.all(keys.map(({ hash }) => reader.read(hash)))
  t.deepEqual(
    reads.map(read => read?.row.id),
    keys.map(({ id }) => id),
  )
  t.is(statements, 1)
})
