import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedMs, type MonotonicClock } from '../../../shared/base/time.ts'
import type { Connection, Database } from '../../../shared/io/db.ts'

const name = 'apply_lease'
const leaseSeconds = 30
const renewMs = 5_000
const pollMs = 250

/** The lease that lets one process apply a file at a time. It ends by itself when its process is killed. */
export type Lease = {
  /** Confirms the lease in the transaction of a step, so that a process that was suspended changes nothing. Throws an Error. */
  confirm(tx: Connection): Promise<void>
  end(): Promise<void>
}

/** Waits until no other process applies a file. Throws an Error when that takes longer than `maxWaitMs`. */
export async function takeLease(
  { db, monotonic }: { db: Database; monotonic: MonotonicClock },
  maxWaitMs: number,
): Promise<Lease> {
  const holder = randomUUID()
  const beganMs = monotonic.now()
  while (!(await take(db, holder))) {
    if (elapsedMs(beganMs, monotonic.now()) >= maxWaitMs)
      throw new Error('Another process is applying a file. Try again when it has ended.')
    await sleep(pollMs)
  }
  const timer = setInterval(() => void renew(db, holder).catch(() => {}), renewMs)
  return {
    async confirm(tx) {
      if ((await renew(tx, holder)) === 0)
        throw new Error('This process was away for too long, and another one applies a file now.')
    },
    async end() {
      clearInterval(timer)
      await db.$executeRaw`DELETE FROM settings WHERE name = ${name} AND value::jsonb->>'holder' = ${holder}`
    },
  }
}

async function take(db: Connection, holder: string): Promise<boolean> {
  const taken = await db.$executeRaw`INSERT INTO settings (name, value)
    VALUES (${name}, jsonb_build_object('holder', ${holder}::text, 'until', extract(epoch FROM now()) + ${leaseSeconds})::text)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
      WHERE (settings.value::jsonb->>'until')::float8 < extract(epoch FROM now())`
  return taken === 1
}

function renew(db: Connection, holder: string): Promise<number> {
  return db.$executeRaw`UPDATE settings
    SET value = jsonb_build_object('holder', ${holder}::text, 'until', extract(epoch FROM now()) + ${leaseSeconds})::text
    WHERE name = ${name} AND value::jsonb->>'holder' = ${holder}`
}
