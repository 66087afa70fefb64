import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { startDaemon } from '../../../dev/daemon.ts'
import { freePort } from '../../../dev/ports.ts'
import { findRedis } from '../../../dev/redis-binary.ts'
import { eventually } from '../gateway.ts'
import { privateRedis, redisBinaryDir } from '../stack.ts'

/** A primary and a replica with a password, and three sentinels with another one. */
export type SentinelSetup = {
  url: string
  sentinelPassword: string
  /** Ends the primary by SIGKILL. */
  killPrimary(): Promise<void>
  /** The port of the primary that most sentinels name. */
  primaryPort(): Promise<number>
  stop(): Promise<void>
}

const name = 'the-primary'
const user = 'gateway'
const password = 'a password: of/redis@headgate'
const sentinelPassword = 'a password of the sentinels'
const quorum = 2
const downAfterMs = 1_000
/** As docs/deployment.md recommends. */
const rights = ['on', `>${password}`, '~*', '&*', '+@all', '-@dangerous', '+info', '+client|list']

export async function startSentinels(): Promise<SentinelSetup> {
  const primary = await privateRedis()
  const { port } = new URL(primary.url)
  const replica = await privateRedis(['--replicaof', '127.0.0.1', port, '--repl-diskless-sync-delay', '0'])
  for (const { url } of [primary, replica])
    await asAdmin(url, {}, async redis => {
      await redis.call('ACL', 'SETUSER', user, ...rights)
      await redis.config('SET', 'masterauth', password)
      await redis.config('SET', 'requirepass', password)
    })
  const linked = () =>
    asAdmin(replica.url, { password }, async redis => /master_link_status:up/.test(await redis.info('replication')))
  await eventually(linked, 'the replica follows')
  const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(port)))
  const ports = sentinels.map(sentinel => sentinel.port)
  await eventually(async () => (await Promise.all(ports.map(knowsAll))).every(Boolean), 'the sentinels know each other')
  const hosts = ports.map(sentinelPort => `127.0.0.1:${sentinelPort}`).join(',')
  return {
    url: `redis+sentinel://${user}:${encodeURIComponent(password)}@${hosts}/${name}`,
    sentinelPassword,
    killPrimary: () => primary.kill(),
    primaryPort: async () => {
      const named = await Promise.all(ports.map(namedPort))
      return named.sort()[quorum - 1]!
    },
    async stop() {
      await Promise.all(sentinels.map(sentinel => sentinel.stop()))
      await Promise.all([primary.stop(), replica.stop()])
    },
  }
}

async function startSentinel(primaryPort: string): Promise<{ port: number; stop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-sentinel-'))
  const binary = await findRedis(redisBinaryDir)
  const port = await freePort()
  const file = join(folder, 'sentinel.conf')
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `requirepass "${sentinelPassword}"`,
    `sentinel sentinel-pass "${sentinelPassword}"`,
    `sentinel monitor ${name} 127.0.0.1 ${primaryPort} ${quorum}`,
    `sentinel auth-pass ${name} "${password}"`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} 10000`,
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  const daemon = await startDaemon({
    name: 'a sentinel',
    command: binary.file,
    args: [file, '--sentinel'],
    spawn: { env: binary.env },
    logFile: join(folder, 'sentinel.log'),
    stopSignal: 'SIGTERM',
    isReady: () =>
      namedPort(port).then(
        () => true,
        () => false,
      ),
  })
  return {
    port,
    async stop() {
      await daemon.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function namedPort(sentinelPort: number): Promise<number> {
  const reply = await askSentinel(sentinelPort, 'GET-MASTER-ADDR-BY-NAME')
  return Number((reply as string[])[1])
}

/** Whether a sentinel knows the replica and the other sentinels: before that, there is no failover. */
async function knowsAll(sentinelPort: number): Promise<boolean> {
  const [replicas, others] = await Promise.all(
    ['REPLICAS', 'SENTINELS'].map(what => askSentinel(sentinelPort, what) as Promise<unknown[]>),
  )
  return replicas!.length === 1 && others!.length === 2
}

function askSentinel(port: number, what: string): Promise<unknown> {
  return asAdmin(`redis://127.0.0.1:${port}`, { password: sentinelPassword, enableReadyCheck: false }, redis =>
    redis.call('SENTINEL', what, name),
  )
}

async function asAdmin<T>(url: string, options: object, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url, { ...options, retryStrategy: null })
  redis.on('error', () => {}) // The command fails with it.
  try {
    return await use(redis)
  } finally {
    redis.disconnect()
  }
}
