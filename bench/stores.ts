import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { migrate } from '../dev/migrate.ts'
import { startPostgres } from '../dev/postgres.ts'
import { startRedis } from '../dev/redis.ts'
import { type Dialect, dialects } from './lib/dialects.ts'
import { output, type Running, root, start } from './lib/processes.ts'
import { type Behaviour, slugOf } from './lib/request.ts'

/** What the gateway needs around it: the stores, a catalog with the emulated provider, money and a key. */
export type Stores = {
  /** The environment of every gateway process. */
  env: NodeJS.ProcessEnv
  key: string
  organisationId: string
  /** Writes a catalog in which `auto` chooses among so many models; gives its file. */
  writeCatalog(models: number): string
  /** Creates a live key with these options of the command line; gives its secret. */
  createKey(options: readonly string[]): Promise<string>
  /** Starts the ledger worker, on this process's processors. */
  startWorker(): Running
  /** As the function below. */
  booked(): Promise<number>
  stop(): Promise<void>
}

const creditUsd = '900000'
const maxPerMinute = '2000000000'
const bookedWithinMs = 600_000
const provider = 'bench'
const auths: Record<Dialect, string> = { openai: 'bearer', anthropic: 'x-api-key', gemini: 'x-goog-api-key' }
/** What `auto` chooses among, about as many as the shipped catalog has at three providers. */
const usualModels = 40

/** Models that `auto` chooses among; the better, the dearer. */
function ratedModels(count: number) {
  return Array.from({ length: count }, (_, i) => {
    const part = (i / count) * usualModels
    const inputUsd = 0.05 * 1.12 ** part
    return { id: `rated-${i}`, quality: 50 + part, prices: [inputUsd.toFixed(4), (4 * inputUsd).toFixed(4)] }
  })
}

/** Starts PostgreSQL and Redis in `folder` and prepares an organisation whose live key has every kind of limit. */
export async function openStores(folder: string, upstreamUrl: string, behaviours: Behaviour[]): Promise<Stores> {
  const postgres = await startPostgres({ dataDir: folder })
  const redis = await startRedis({ dataDir: folder, binaryDir: join(root, '.data/redis-bin') })
  const stop = async () => {
    await Promise.all([postgres.stop(), redis.stop()])
  }
  const writeCatalog = (models: number) => {
    const file = join(folder, `catalog-${models}.json`)
    writeFileSync(file, JSON.stringify(catalog(behaviours, models)))
    return file
  }
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    MODEL_CATALOG: writeCatalog(usualModels),
    ...Object.fromEntries(
      dialects.flatMap(dialect => [
        [`${providerOf(dialect)}_API_KEY`.toUpperCase(), 'upstream'],
        [`${providerOf(dialect)}_BASE_URL`.toUpperCase(), dialect === 'openai' ? `${upstreamUrl}/v1` : upstreamUrl],
      ]),
    ),
  }
  const startWorker = () =>
    start([process.execPath, 'workers/main.ts'], { logFile: join(folder, 'worker.log'), env, processors: null })
  try {
    await migrate(postgres.url)
    const made = await makeKey(env)
    const createKey = (options: readonly string[]) => newKey(env, made.organisationId, options)
    return { env, ...made, writeCatalog, createKey, startWorker, booked: () => booked(env), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The catalog's name of a behaviour of the upstream, spoken to in a dialect. */
export function modelOf(behaviour: Behaviour, dialect: Dialect): string {
  return dialect === 'openai' ? slugOf(behaviour) : `${dialect}-${slugOf(behaviour)}`
}

function providerOf(dialect: Dialect): string {
  return dialect === 'openai' ? provider : `${provider}_${dialect}`
}

/**
 * One row per behaviour of the emulated upstream and dialect, at the price of a small model, so that money moves; and of the
 * first behaviour some rows of which `auto` can choose one.
 */
function catalog(behaviours: Behaviour[], models: number) {
  const slugs = [...new Set(behaviours.map(slugOf))]
  const distinct = slugs.map(slug => behaviours.find(behaviour => slugOf(behaviour) === slug)!)
  const fixed = dialects.flatMap(dialect =>
    distinct.map(behaviour => row(modelOf(behaviour, dialect), null, ['0.15', '0.60'], dialect, slugOf(behaviour))),
  )
  const chosen = slugs
    .slice(0, 1)
    .flatMap(slug => ratedModels(models).map(({ id, quality, prices }) => row(id, quality, prices, 'openai', slug)))
  return {
    providers: dialects.map(dialect => ({
      name: providerOf(dialect),
      protocol: dialect,
      base_url: 'http://127.0.0.1',
      auth: auths[dialect],
    })),
    models: [...fixed, ...chosen],
  }
}

function row(id: string, quality: number | null, [input, output]: string[], dialect: Dialect, slug: string) {
  return {
    id,
    name: id,
    type: 'chat',
    owned_by: provider,
    created: 0,
    description: 'The emulated upstream of the benchmark.',
    context_length: 1_000_000,
    max_output_tokens: 16_384,
    input_modalities: ['text', 'image'],
    output_modalities: ['text'],
    supported_parameters: [],
    quality,
    expires_on: null,
    price_source: null,
    price_as_of: null,
    providers: [{ provider: providerOf(dialect), upstream_model: slug, price: { unit: 'token', input, output } }],
  }
}

async function operator<T>(env: NodeJS.ProcessEnv, ...command: string[]): Promise<T> {
  return JSON.parse(await output([process.execPath, 'api/operator.ts', ...command, '--json'], env))
}

/** A key on which every rule runs and none refuses. */
async function makeKey(env: NodeJS.ProcessEnv): Promise<Pick<Stores, 'key' | 'organisationId'>> {
  const { id } = await operator<{ id: string }>(env, 'org', 'create', '--name', 'Benchmark')
  await operator(env, 'credit', 'add', '--org', id, '--usd', creditUsd, '--method', 'grant')
  return { key: await newKey(env, id, []), organisationId: id }
}

/** Creates a live key with every limit, none of which is reached, and further options; gives its secret. */
async function newKey(env: NodeJS.ProcessEnv, organisationId: string, options: readonly string[]): Promise<string> {
  const limits = ['--rpm-limit', maxPerMinute, '--tpm-limit', maxPerMinute, '--monthly-spend-cap-usd', creditUsd]
  const of = ['--org', organisationId, '--env', 'live']
  const { key } = await operator<{ key: string }>(env, 'key', 'create', ...of, ...limits, ...options)
  return key
}

/** Waits until every usage event is in Postgres and checks the books. Gives the events booked; throws an Error on a breach. */
export async function booked(env: NodeJS.ProcessEnv): Promise<number> {
  const redis = new Redis(env.REDIS_URL!)
  try {
    const events = await redis.xlen('usage')
    for (const deadline = Date.now() + bookedWithinMs; (await redis.xlen('usage')) > 0; await sleep(100)) {
      if (Date.now() > deadline) throw new Error(`usage events are not booked after ${bookedWithinMs / 1000} s`)
    }
    const { ok, invariants } = await operator<{ ok: boolean; invariants: unknown }>(env, 'ledger', 'check')
    if (!ok) throw new Error(`the ledger is wrong: ${JSON.stringify(invariants)}`)
    return events
  } finally {
    redis.disconnect()
  }
}
