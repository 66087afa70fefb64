import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../../dev/migrate.ts'
import { startPostgres } from '../../../dev/postgres.ts'
import { startRedis } from '../../../dev/redis.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { ModelRow } from '../../../shared/catalog/schema.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { getWebhookSecrets } from '../../../shared/webhooks/secrets.ts'
import { observe } from '../../support/chaos.ts'
import { createAccount, startProcess } from '../../support/gateway.ts'
import { redisBinaryDir } from '../../support/stack.ts'
import { startUpstreams } from './upstreams.ts'

export type Stack = {
  /** What the tests are told, by the names that `environment.ts` reads. */
  env: Record<string, string>
  /** What the processes of the gateway logged. */
  output(): string
  stop(): Promise<void>
}

/** One organisation for each conversation of an agent, so that its money is told from all other. */
const agentAccounts = 64
const agentUsd = '1000'

type Cleanup = () => Promise<unknown>

/** Starts the stores, the emulated providers, one web and one worker process, and makes accounts. */
export async function startStack(signal: AbortSignal): Promise<Stack> {
  const cleanups: Cleanup[] = []
  const stop = async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup().catch(console.error)
  }
  try {
    return { ...(await start(cleanups, signal)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function start(cleanups: Cleanup[], signal: AbortSignal): Promise<Omit<Stack, 'stop'>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-clients-'))
  cleanups.push(() => rm(dataDir, { recursive: true, force: true }))
  const postgres = await startPostgres({ dataDir, settings: { fsync: 'off', full_page_writes: 'off' } })
  cleanups.push(() => postgres.stop())
  const redis = await startRedis({ dataDir, binaryDir: redisBinaryDir })
  cleanups.push(() => redis.stop())
  signal.throwIfAborted()
  const upstreams = await startUpstreams()
  cleanups.push(() => upstreams.close())
  await migrate(postgres.url)
  const stores = { databaseUrl: postgres.url, redisUrl: redis.url }
  const catalogFile = join(dataDir, 'catalog.json')
  await writeFile(catalogFile, JSON.stringify({ models: [smallModel()] }))
  const files = { MODEL_CATALOG: catalogFile, STORAGE_URL: `file:${join(dataDir, 'storage')}` }
  const settings = { ...upstreams.env, ...files, ALLOW_PRIVATE_URLS: 'true' }
  signal.throwIfAborted()
  const web = await startProcess('web', stores, settings)
  cleanups.push(() => web.kill('SIGTERM'))
  const worker = await startProcess('worker', stores, { ...settings, PUBLIC_URL: web.url })
  cleanups.push(() => worker.kill('SIGTERM'))
  const env = { ...(await createAccounts(stores, settings)), BASE_URL: `${web.url}/v1`, UPSTREAMS_URL: upstreams.url }
  return { env, output: () => `${web.output()}\n${worker.output()}` }
}

/** A model whose context window an agent's usual `max_tokens` exceeds. */
function smallModel(): ModelRow {
  const row = loadCatalog().models.get('gpt-4o-mini')!
  return { ...row, id: 'agent-small', aliases: [], context_length: 40_000, max_output_tokens: 32_000 }
}

async function createAccounts(
  stores: { databaseUrl: string; redisUrl: string },
  settings: Record<string, string>,
): Promise<Record<string, string>> {
  const services = await observe(stores, settings)
  try {
    const [account, empty, ...agents] = await Promise.all([
      createAccount(services, { usd: '1000' }),
      createAccount(services, { usd: '0' }),
      ...Array.from({ length: agentAccounts }, () => createAccount(services, { usd: agentUsd })),
    ])
    const { organisationId, live, test } = account
    const [provisioning, { secret }] = await Promise.all([
      services.keys.createProvisioning(organisationId, operatorActor),
      getWebhookSecrets(services, organisationId, services.clock.now()),
    ])
    return {
      LIVE_KEY: live,
      TEST_KEY: test,
      EMPTY_KEY: empty.live,
      AGENT_KEYS: agents.map(({ live }) => live).join(','),
      PROVISIONING_KEY: provisioning.secret,
      WEBHOOK_SECRET: secret,
    }
  } finally {
    await services.close()
  }
}
