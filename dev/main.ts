// `npm run dev`: a whole gateway on this machine, with its own PostgreSQL and Redis unless DATABASE_URL and REDIS_URL
// name others. Everything lives under DATA_DIR, and a second start finds it again.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { devStackFile, encryptionKeyFile } from '../shared/base/dev-stack.ts'
import { isLocalUrl } from '../shared/base/production-safety.ts'
import { isGatewayVariable } from '../shared/base/variable-files.ts'
import { markRolledBack } from '../shared/io/migrations.ts'
import { type AppProcess, addressOf, startApp, waitUntilReady } from './app.ts'
import { buildPages } from './build-pages.ts'
import { lockFolder } from './lock.ts'
import { generateClient, migrate } from './migrate.ts'
import { freePort, loopback, nextFreePort, portIsFree } from './ports.ts'
import { startPostgres } from './postgres.ts'
import { step } from './progress.ts'
import { startRedis } from './redis.ts'
import { stopRuns } from './run.ts'
import { type Demo, demoFile, seedDemo } from './seed.ts'

type Service = { url: string; exited: Promise<string>; stop(): Promise<void> }

const defaultPort = 3000
/** Short, because the developer waits at the terminal for the end. */
const graceMs = 1_500
const host = process.env.HOST || loopback()
const dataDir = resolve(process.env.DATA_DIR || '.data')
const stackFile = join(dataDir, devStackFile)
const services: Service[] = []
const apps: AppProcess[] = []
let stopping = false

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(0, signal))
await start().catch(error => {
  // Operations interrupted by the stop are expected to fail.
  if (!stopping) console.error(`headgate: ${error.message}`)
  return stop(1)
})

async function start(): Promise<void> {
  await mkdir(dataDir, { recursive: true })
  await assertOnlyStart()
  const isFirst = !existsSync(join(dataDir, demoFile))
  console.log(`headgate: starting in ${dataDir}${isFirst ? '; the first start takes about a minute' : ''}`)
  await assertConfiguration()
  const [[databaseUrl, redisUrl]] = await Promise.all([startServices(), buildPages(), generateClient()])
  // An earlier version's start may have been stopped in the middle of a migration.
  if (!process.env.DATABASE_URL) await markRolledBack(databaseUrl)
  await step('migrating the database', () => migrate(databaseUrl))
  const demo = await seedDemo({ databaseUrl, redisUrl, dataDir })
  const port = await choosePort()
  const isNamed = ['127.0.0.1', '0.0.0.0', '::'].includes(host)
  const address = `http://${isNamed ? 'localhost' : addressOf(host)}:${port}`
  const redisKeyPrefix = process.env.REDIS_KEY_PREFIX ?? ''
  const variables = Object.keys(process.env).filter(isGatewayVariable)
  const stack = { databaseUrl, redisUrl, redisKeyPrefix, port, address, variables, pid: process.pid }
  await writeFile(stackFile, JSON.stringify(stack), { mode: 0o600 })
  const connectionEnv = { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, ENCRYPTION_KEY: await encryptionKey() }
  const env = { ...developmentEnv(), ...connectionEnv, DATA_DIR: dataDir, HOST: host, PORT: String(port) }
  for (const [name, file] of [
    ['web', 'api/server.ts'],
    ['worker', 'workers/main.ts'],
  ] as const) {
    if (stopping) return
    const app = startApp(name, file, { ...env, ...metricsPort(name, process.env.METRICS_PORT) })
    apps.push(app)
    void app.ended.then(how => stopAfterDeath(`${name} ended unexpectedly (${how})`))
  }
  await step('starting the gateway', () => waitUntilReady(`http://${addressOf(host)}:${port}`))
  if (!stopping) welcome(address, demo)
}

/** Our own environment with the defaults of development. */
function developmentEnv(): NodeJS.ProcessEnv {
  // Anyone with access to the outbox can sign in as any user, so it serves this machine only.
  const isLocal =
    !process.env.PUBLIC_URL || (URL.canParse(process.env.PUBLIC_URL) && isLocalUrl(process.env.PUBLIC_URL))
  const defaults = { DEV_OUTBOX: String(isLocal), SHUTDOWN_DRAIN_MS: '0', SHUTDOWN_GRACE_MS: String(graceMs) }
  return { ...defaults, ...process.env }
}

/** Throws an Error with every fault of the configuration, before anything is started. */
async function assertConfiguration(): Promise<void> {
  // Loaded here, so that the first line does not wait for it.
  const [{ ConfigError, loadConfig }, { CatalogError, loadCatalog }] = await Promise.all([
    import('../shared/base/config.ts'),
    import('../shared/catalog/catalog.ts'),
  ])
  try {
    // The stores that are not named are started, and have valid addresses then.
    const stores = { DATABASE_URL: 'postgresql://localhost/dev', REDIS_URL: 'redis://localhost' }
    const named = Object.fromEntries(Object.entries(developmentEnv()).filter(([, value]) => value !== ''))
    const config = loadConfig({ ...stores, ...named, DATA_DIR: dataDir })
    loadCatalog(config.modelCatalog ?? undefined, config.providers, config.readVariable)
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof CatalogError)) throw error
    throw new Error(
      `nothing is started: the configuration has faults\n${error.faults.map(one => `  ${one}`).join('\n')}`,
    )
  }
}

/** The worker's METRICS_PORT follows that of the web process, with which it shares the machine. */
function metricsPort(name: 'web' | 'worker', port: string | undefined): NodeJS.ProcessEnv {
  return port && name === 'worker' ? { METRICS_PORT: String(Number(port) + 1) } : {}
}

/** ENCRYPTION_KEY, else a key stored in this data directory, generated at the first start. */
async function encryptionKey(): Promise<string> {
  if (process.env.ENCRYPTION_KEY) return process.env.ENCRYPTION_KEY
  const file = join(dataDir, encryptionKeyFile)
  const key = `${randomBytes(32).toString('base64url')}\n`
  await writeFile(file, key, { mode: 0o600, flag: 'wx' }).catch(error => {
    if (error.code !== 'EEXIST') throw error
  })
  return (await readFile(file, 'utf8')).trim()
}

/** Throws an Error if another process runs, or is starting, on the data directory. */
async function assertOnlyStart(): Promise<void> {
  // The process that wrote it has ended.
  if (lockFolder(dataDir)) return rm(stackFile, { force: true })
  const running = await readFile(stackFile, 'utf8')
    .then(JSON.parse)
    .catch(() => null)
  throw new Error(
    running
      ? `already running on ${dataDir} at ${running.address} (process ${running.pid})`
      : `already being started on ${dataDir}`,
  )
}

/** Returns the URLs of PostgreSQL and Redis; starts those that the environment does not name. */
async function startServices(): Promise<[string, string]> {
  const { DATABASE_URL, REDIS_URL } = process.env
  const started = await Promise.allSettled([
    DATABASE_URL ||
      step('starting PostgreSQL', () => startPostgres({ dataDir })).then(one => registerService('PostgreSQL', one)),
    REDIS_URL || step('starting Redis', () => startRedis({ dataDir })).then(one => registerService('Redis', one)),
  ])
  const [database, redis] = started.map(result => {
    if (result.status === 'rejected') throw result.reason
    return result.value
  })
  return [database!, redis!]
}

function registerService(name: string, service: Service): string {
  services.push(service)
  // The gateway stays up and answers 503, as it would in production.
  void service.exited.then(how => {
    if (!stopping) console.error(`headgate: ${name} ended unexpectedly (${how}); start again to get it back`)
  })
  return service.url
}

async function choosePort(): Promise<number> {
  const { PORT } = process.env
  const everywhere = host.includes(':') ? '::' : '0.0.0.0'
  if (PORT === '0') return freePort()
  if (PORT) {
    if (await portIsFree(Number(PORT), everywhere)) return Number(PORT)
    throw new Error(`PORT ${PORT} cannot be listened on; is it taken?`)
  }
  const port = await nextFreePort(defaultPort, everywhere)
  if (port !== defaultPort) console.log(`headgate: port ${defaultPort} is taken, using ${port}`)
  return port
}

function liveKeyNote(): string {
  const keys = Object.keys(process.env).filter(name => name.endsWith('_API_KEY') && isGatewayVariable(name))
  return keys.length > 0
    ? `calls the providers of ${keys.join(', ')}`
    : 'no provider has a key yet: start again with OPENAI_API_KEY=…, for example'
}

function welcome(baseUrl: string, { liveKey, testKey, email, password }: Demo): void {
  const body = JSON.stringify({ model: 'auto', messages: [{ role: 'user', content: 'Hello' }] })
  console.log(`
  Headgate is ready   ${baseUrl}

  dashboard  ${baseUrl}/dashboard
             ${email}  ${password ?? '(with the password you have chosen)'}

  live key   ${liveKey}   (${liveKeyNote()})
  test key   ${testKey}   (answers from the sandbox, costs nothing)

  curl ${baseUrl}/v1/chat/completions -H 'authorization: Bearer ${testKey}' -H 'content-type: application/json' -d '${body}'
`)
}

async function stopAfterDeath(message: string): Promise<void> {
  if (stopping) return
  console.error(`headgate: ${message}`)
  await stop(1)
}

/** Stops everything in dependency order, and exits. Services that are still starting end with this process. */
async function stop(exitCode: number, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (stopping) return
  stopping = true
  stopRuns()
  await Promise.all(apps.map(app => app.stop(signal)))
  await Promise.all(services.map(service => service.stop()))
  const own = await readFile(stackFile, 'utf8')
    .then(text => JSON.parse(text).pid === process.pid)
    .catch(() => false)
  if (own) await rm(stackFile, { force: true })
  process.exit(exitCode)
}
