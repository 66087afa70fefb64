// What one Redis core carries: admissions and settlements, batched as by a web process. `node bench/redis.ts [options]`, see
// README.md. Linux only.
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { loadConfig } from '../shared/base/config.ts'
import { newId } from '../shared/base/ids.ts'
import { nanoFromUsd } from '../shared/base/money.ts'
import { createLog } from '../shared/io/log.ts'
import { openServices, type Services } from '../shared/open-services.ts'
import type { BillingContext, MaxCost, Reservation } from '../shared/wallet/admission.ts'
import type { UsageEvent } from '../shared/wallet/usage-event.ts'
import { readOptions } from './lib/options.ts'
import { keepResults, withOwnStores } from './lib/own-stores.ts'
import { spread } from './lib/statistics.ts'

const { values: options } = readOptions({ rounds: 5, requests: 40_000, keys: 200, batches: '1,8,32,128' })

const ticksPerSecond = 100
const maxCost: MaxCost = {
  estimatedTokens: 300,
  fixedNano: 100_000,
  picoPerOutputToken: 600_000,
  outputTokens: 1_000,
  explicit: true,
  minTokens: 1,
  likelyTokens: 0,
}
const limit = 2_000_000_000

type Measured = { batch: number; microsPerRequest: number; perCoreSecond: number; callsPerRequest: number }

await withOwnStores('1', async ({ databaseUrl, redisUrl }) => {
  const config = loadConfig({ DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, LOG_LEVEL: 'silent' })
  const services = await openServices(config, createLog('silent'))
  const observer = new Redis(redisUrl)
  try {
    const contexts = await makeContexts(services)
    const results: Measured[] = []
    for (const batch of options.batches.split(',').map(Number))
      results.push(await measure(services, observer, contexts, batch))
    console.table(results)
    keepResults('redis', results)
  } finally {
    observer.disconnect()
    await services.close()
  }
})

/** Keys of as many organisations, each with every kind of limit. */
async function makeContexts({ db, wallets }: Services): Promise<BillingContext[]> {
  const contexts: BillingContext[] = []
  for (let i = 0; i < options.keys; i++) {
    const organisationId = newId('org')
    await db.organisation.create({ data: { id: organisationId, name: 'Benchmark', wallet: { create: {} } } })
    await wallets.deposit({ organisationId, amountNano: nanoFromUsd('900000'), method: 'grant' })
    const keyId = newId('key')
    const limits = { rpmLimit: limit, tpmLimit: limit, capNano: 900_000e9 }
    const key = { hash: newId('key'), version: 1, keyId, rateKey: keyId, organisationId, expiresAtMs: null }
    contexts.push({ ...key, ...limits, spendsMoney: true })
  }
  return contexts
}

/** Rounds of `requests`, each admitted and settled `batch` at a time. Time is that of the server's process, by the kernel. */
async function measure(
  services: Services,
  observer: Redis,
  contexts: readonly BillingContext[],
  batch: number,
): Promise<Measured> {
  const pid = Number(/process_id:(\d+)/.exec(await observer.info('server'))![1])
  const micros: number[] = []
  let calls = 0
  for (let round = 0; round <= options.rounds; round++) {
    await observer.del('usage')
    const [startTicks, startCalls] = [cpuTicks(pid), await scriptCalls(observer)]
    for (let done = 0; done < options.requests; done += batch) await serve(services, contexts, done, batch)
    await services.admission.flush()
    const ticks = cpuTicks(pid) - startTicks
    // The first round loads the wallets.
    if (round === 0) continue
    calls += (await scriptCalls(observer)) - startCalls
    micros.push((ticks / ticksPerSecond / options.requests) * 1e6)
  }
  const { median } = spread(micros)
  return {
    batch,
    microsPerRequest: Math.round(median * 10) / 10,
    perCoreSecond: Math.round(1e6 / median),
    callsPerRequest: Math.round((calls / options.rounds / options.requests) * 1_000) / 1_000,
  }
}

async function serve(
  { admission }: Services,
  contexts: readonly BillingContext[],
  from: number,
  batch: number,
): Promise<void> {
  const admitted = await Promise.all(
    Array.from({ length: batch }, (_, i) => {
      const billing = contexts[(from + i) % contexts.length]!
      // As under a generation token that was just read: the version is confirmed in Redis by the first call of a key.
      return admission.admit(billing, from < contexts.length ? '-' : '', newId('req'), maxCost)
    }),
  )
  for (const reservation of admitted) {
    if ('stale' in reservation) throw new Error('a key version is not confirmed')
    admission.settle(reservation, 250_000, 400, eventOf(reservation))
  }
  await admission.flush()
}

/** A usage event of usual length. */
function eventOf({ id, billing, month }: Reservation): UsageEvent {
  const { organisationId: org, keyId: key } = billing
  return {
    id,
    at: Date.now(),
    org,
    key,
    month,
    cost: 250_000,
    cap: 900_000e9,
    requestId: newId('req'),
    upstreamId: id,
    kind: 'chat',
    environment: 'live',
    model: 'gpt-5-mini',
    provider: 'openai',
    mode: 'balanced',
    status: 200,
    errorCode: null,
    finishReason: 'stop',
    streamed: true,
    attempts: 1,
    promptTokens: 250,
    completionTokens: 150,
    cachedTokens: 0,
    reasoningTokens: 0,
    estimated: false,
    firstByteMs: 412,
    durationMs: 2_310,
  }
}

/** The processor time that a process has used. */
function cpuTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/** How many script calls the server has run. */
async function scriptCalls(observer: Redis): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await observer.info('commandstats'))?.[1] ?? 0)
}
