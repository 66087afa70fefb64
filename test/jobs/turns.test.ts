import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { delayed, path, startDelayedWorld } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { sql } from '../support/io/store-faults.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** More than the gateway has connections. */
const submissions = 12

const world = use(test, () => startDelayedWorld())

test.serial(
  '200 for other organisations while all jobs of one wait for the lock under which they are inserted',
  async t => {
    const { gateway, stores } = world
    const [one, other] = [await gateway.account(), await gateway.account()]
    const operator = new pg.Client({ connectionString: stores.databaseUrl })
    await operator.connect()
    t.teardown(() => operator.end())
    await operator.query('BEGIN')
    const lock = `jobs ${one.organisationId} live true`
    await operator.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [lock])
    let answered = 0
    const statuses = Array.from({ length: submissions }, async () => {
      const { status } = await gateway.fetch(path, { key: one.live, body: delayed() })
      answered++
      return status
    })
    const isWaiting = "wait_event = 'advisory' AND datname = current_database()"
    const waiters = async () =>
      (await sql(stores.databaseUrl, `SELECT 1 FROM pg_stat_activity WHERE ${isWaiting}`)).length
    await eventually(async () => (await waiters()) > 0, 'a job waits for the lock')
    await sleep(500) // Time for the others.
    t.is((await gateway.fetch('/v1/files', { key: other.live })).status, 200)
    t.is(answered, 0)
    await operator.query('COMMIT')
    t.deepEqual([...new Set(await Promise.all(statuses))], [202])
  },
)
