import type { Redis } from 'ioredis'
import { eventually } from '../gateway.ts'
import { clusterFlags, clusterReady, type PrivateServer, privateRedis, withRedis } from '../stack.ts'

/** A Redis Cluster of three primaries, each with a replica. `kill` ends its first primary. */
export type ClusterSetup = PrivateServer & {
  primaries: readonly PrivateServer[]
  /** Waits until a replica has taken over the slots of the first primary. */
  failedOver(): Promise<void>
}

const primaryCount = 3
const slots = 16_384
/** Time without an answer after which the other nodes replace a primary. */
const nodeTimeoutMs = 2_000
const failoverWithinMs = 60_000

export async function threeNodeCluster(): Promise<ClusterSetup> {
  const nodes = await Promise.all(Array.from({ length: 2 * primaryCount }, startNode))
  const primaries = nodes.slice(0, primaryCount)
  const replicas = nodes.slice(primaryCount)
  for (const [index, { url }] of primaries.entries())
    await withRedis(url, async redis => {
      const range = [index, index + 1].map(part => Math.ceil((part * slots) / primaryCount)) as [number, number]
      await redis.call('CLUSTER', 'ADDSLOTSRANGE', range[0], range[1] - 1)
      await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    })
  for (const { url } of nodes.slice(1)) await meet(url, nodes[0]!.url)
  await Promise.all(nodes.map(({ url }) => withRedis(url, knowsAll)))
  await Promise.all(replicas.map(({ url }, index) => replicate(url, primaries[index]!.url)))
  await Promise.all(nodes.map(({ url }) => withRedis(url, clusterReady)))
  const hosts = nodes.map(({ url }) => new URL(url).host).join(',')
  return {
    url: `redis+cluster://${hosts}`,
    primaries,
    kill: () => primaries[0]!.kill(),
    restart: () => primaries[0]!.restart(),
    failedOver: () => withRedis(replicas[0]!.url, isPrimary),
    async stop() {
      await Promise.all(nodes.map(node => node.stop()))
    },
  }
}

async function startNode(): Promise<PrivateServer> {
  const flags = {
    'cluster-node-timeout': nodeTimeoutMs,
    'cluster-replica-validity-factor': 0,
    'repl-diskless-sync-delay': 0,
  }
  const options = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
  return privateRedis([...(await clusterFlags()), ...options])
}

/** Makes two nodes know each other. */
export async function meet(url: string, otherUrl: string): Promise<void> {
  const [, busPort] = await withRedis(otherUrl, redis => redis.config('GET', 'cluster-port') as Promise<string[]>)
  const { hostname, port } = new URL(otherUrl)
  await withRedis(url, redis => redis.call('CLUSTER', 'MEET', hostname, port, busPort!))
}

/** Makes a node that knows the primary its replica. */
export async function replicate(url: string, primaryUrl: string): Promise<void> {
  const id = String(await withRedis(primaryUrl, redis => redis.call('CLUSTER', 'MYID')))
  await withRedis(url, async redis => {
    const follows = () =>
      redis.call('CLUSTER', 'REPLICATE', id).then(
        () => true,
        () => false,
      )
    await eventually(follows, 'the nodes know each other')
    const isLinked = async () => /master_link_status:up/.test(await redis.info('replication'))
    await eventually(isLinked, 'it is a replica')
  })
}

async function knowsAll(redis: Redis): Promise<void> {
  const known = async () =>
    String(await redis.call('CLUSTER', 'INFO')).includes(`cluster_known_nodes:${2 * primaryCount}`)
  await eventually(known, 'the nodes know each other')
}

async function isPrimary(redis: Redis): Promise<void> {
  const leads = async () => /role:master/.test(await redis.info('replication'))
  await eventually(leads, 'the replica took over', failoverWithinMs)
  await clusterReady(redis)
}
