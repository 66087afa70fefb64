import type { Config } from '../base/config.ts'
import type { Redis } from '../io/redis.ts'
import { Sealer } from '../io/sealer.ts'

/** A sorted set of what each process reports, by the time in milliseconds of Redis' clock. */
const reportsKey = 'processes:keys'
const reportEveryMs = 5_000
/** A process that has not reported for longer has ended. */
const endedAfterMs = 20_000

/** The ids of the keys that a process holds, that of the key in use first. */
type ReportedKeys = { instance: string; encryption: string[]; signing: string[] }

/** Reports the ids of this process's keys regularly, for as long as it runs. */
export function startReportingKeys(
  services: { redis: Redis; config: Pick<Config, 'encryptionKeys' | 'signingSecrets'> },
  instance: string,
): void {
  const keys = keyIdsOf(services.config)
  const report = () => void reportKeys(services.redis, { instance, ...keys }).catch(() => {}) // The next one may succeed.
  report()
  setInterval(report, reportEveryMs).unref()
}

/** The ids of the configured keys. They do not reveal the keys. */
export function keyIdsOf({ encryptionKeys, signingSecrets }: Pick<Config, 'encryptionKeys' | 'signingSecrets'>) {
  return { encryption: new Sealer(encryptionKeys).keyIds, signing: new Sealer(signingSecrets).keyIds }
}

/** Throws what Redis throws. */
export async function reportKeys(redis: Redis, report: ReportedKeys): Promise<void> {
  const nowMs = await readTime(redis)
  await redis.zadd(reportsKey, nowMs, JSON.stringify(report))
  await redis.zremrangebyscore(reportsKey, '-inf', nowMs - endedAfterMs)
}

/** What the processes that run have reported. Throws what Redis throws. */
export async function listReportedKeys(redis: Redis): Promise<ReportedKeys[]> {
  const reports = await redis.zrangebyscore(reportsKey, (await readTime(redis)) - endedAfterMs, '+inf')
  return reports.map(report => JSON.parse(report) as ReportedKeys)
}

async function readTime(redis: Redis): Promise<number> {
  const [seconds, micros] = (await redis.time()) as [number | string, number | string]
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
}
