import { readFileSync } from 'node:fs'
import { newId } from '../../shared/base/ids.ts'
import { sumUsage } from '../../shared/wallet/usage-query.ts'
import { observe } from '../support/chaos.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
const stores = useStores(test)
const services = use(test, () => observe(stores))
test('bench', async t => {
  t.timeout(600_000)
  const { db } = services
  const old = readFileSync('prisma/migrations/20261202080000_cache_discounts/migration.sql', 'utf8')
  const neu = readFileSync('prisma/migrations/20261204010000_duration_sketches/migration.sql', 'utf8')
  const fns = (sql: string) => sql.match(/CREATE OR REPLACE FUNCTION "count_usage[^]*?END \$\$;/g)!
  const insert = async (groups: number, at: number) => {
    await db.$executeRawUnsafe(`
      INSERT INTO generations (id, created_at, organisation_id, key_id, request_id, kind, environment, model, provider, status, streamed, attempts,
        prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, estimated, cost_nano, first_byte_ms, duration_ms, margin_ppm)
      SELECT 'gen_' || i || '_${newId('x')}', to_timestamp(${at}) + i * interval '1 ms', 'org_1', 'key_' || (i % ${groups}), 'req', 'chat', 'live', 'gpt-5', 'openai', 200, i % 2 = 0, 1,
        10, 10, 0, 0, false, 1000, (100 * exp(3 * random()))::int, (200 * exp(4 * random()))::int, 50000
      FROM generate_series(1, 500) i`)
  }
  const cpu = async (groups: number, at: number, rounds: number) => {
    const from = process.hrtime.bigint()
    for (let i = 0; i < rounds; i++) await insert(groups, at)
    return Number(process.hrtime.bigint() - from) / 1e6 / rounds
  }
  const base = Math.floor(Date.now() / 1000) - 3 * 86400
  let hour = 0
  for (const groups of [1, 20, 500]) {
    const best: Record<string, number[]> = { old: [], new: [] }
    for (let round = 0; round < 4; round++)
      for (const [name, sql] of [['old', old], ['new', neu]] as const) {
        for (const fn of fns(sql)) await db.$executeRawUnsafe(name === 'old' ? fn.replaceAll("h.latency", "h.latency") : fn)
        await db.$executeRawUnsafe('TRUNCATE usage_hours, usage_day_details')
        await cpu(groups, base + hour++ * 3600, 1)
        best[name]!.push(await cpu(groups, base + hour * 3600, 20))
      }
    t.log(groups, 'groups', JSON.stringify(best))
  }
  // Reading: 30 days of 200 groups with 150 requests each.
  await db.$executeRawUnsafe('TRUNCATE usage_hours, usage_day_details')
  await db.$executeRawUnsafe(`
    INSERT INTO usage_day_details (organisation_id, day, key_id, model, provider, kind, environment, outcome, requests, cost_nano, known_cost_nano, provider_cost_nano,
      prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, latency, first_byte, latency_sketch, first_token_sketch)
    SELECT 'org_1', current_date - d, 'key_' || (g % 20), 'model_' || g / 20, 'openai', 'chat', 'live', 'ok', 150, 1,1,1,1,1,1,1,'{}','{}',
      (SELECT sketch_of(array_agg((200 * exp(4 * random()))::int + g * 0), array_agg(1)) FROM generate_series(1, 150)),
      (SELECT sketch_of(array_agg((100 * exp(3 * random()))::int + g * 0), array_agg(1)) FROM generate_series(1, 150))
    FROM generate_series(1, 30) d, generate_series(0, 199) g`)
  const [size] = await db.$queryRawUnsafe<any[]>(`SELECT count(*) AS n, avg(cardinality(latency_sketch)/3) AS e, pg_total_relation_size('usage_day_details') AS bytes FROM usage_day_details`)
  t.log(String(size.n), String(size.e), String(size.bytes))
  const to = new Date(Math.floor(Date.now() / 86400000) * 86400000)
  for (const durations of [true, false])
    for (const step of [null, 'day'] as const)
      for (const by of [[], ['key', 'model']] as const) {
        const from = Date.now()
        for (let i = 0; i < 3; i++)
          await sumUsage(db, { organisationId: 'org_1', from: new Date(to.getTime() - 30 * 86400000), to }, { step, source: 'hours', by, order: 'time', durations, limit: 200 })
        t.log(String(durations), String(step), by.join(), (Date.now() - from) / 3, 'ms')
      }
  t.pass()
})
