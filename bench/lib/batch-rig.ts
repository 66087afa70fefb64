import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../dev/ports.ts'
import { openStores, type Stores } from '../stores.ts'
import type { GatewayAccess } from './batch-calls.ts'
import { residentKib, treeCpuSeconds } from './proc.ts'
import { answersOk, commandOf, listens, type Running, root, start, untilReady } from './processes.ts'
import type { Behaviour } from './request.ts'

export type RigOptions = {
  /** How the upstream behaves, by model. */
  behaviours: Behaviour[]
  concurrency: number
  /** The worker's processors; everything else runs where this process is pinned. */
  workerProcessors: string
  /** Where CPU profiles of the worker and of the web process go; null for none. */
  profileFolder: string | null
}

/** The stores, an emulated upstream, a web and a worker process. */
export type BatchRig = {
  folder: string
  stores: Stores
  upstreamUrl: string
  gateway: GatewayAccess
  /** CPU seconds that each part has used so far. */
  cpu(): Record<Part, number>
  /** Resident memory of a part in MB. */
  residentMb(part: Part): number
  stop(): Promise<void>
}
export type Part = 'worker' | 'web' | 'postgres' | 'redis' | 'upstream'

/** Starts everything, the web and the worker process as package.json has them. */
export async function openBatchRig(options: RigOptions): Promise<BatchRig> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-'))
  const stops: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })]
  const stop = async () => {
    for (const each of stops.splice(0).reverse()) await each()
  }
  const stopped = <T extends { stop(): Promise<void> }>(part: T): T => {
    stops.push(() => part.stop())
    return part
  }
  try {
    const [upstreamPort, webPort] = [await freePort(), await freePort()]
    const upstreamUrl = `http://127.0.0.1:${upstreamPort}`
    const upstream = stopped(startUpstream(folder, upstreamPort))
    await untilReady(upstream, join(folder, 'upstream.log'), () => listens(upstreamPort))
    const stores = stopped(await openStores(folder, upstreamUrl, options.behaviours))
    const gateway = { url: `http://127.0.0.1:${webPort}`, key: stores.key }
    const env = {
      ...stores.env,
      PORT: String(webPort),
      STORAGE_URL: `file:${join(folder, 'storage')}`,
      BULK_CONCURRENCY: String(options.concurrency),
      LOG_LEVEL: 'warn',
    }
    const launch = async (name: 'web' | 'worker', script: string, processors: string | null) => {
      const command = await commandOf(script, options.profileFolder)
      return stopped(start(command, { logFile: join(folder, `${name}.log`), env, processors }))
    }
    const web = await launch('web', 'start', null)
    const worker = await launch('worker', 'start:worker', options.workerProcessors)
    await untilReady(web, join(folder, 'web.log'), () => answersOk(`${gateway.url}/readyz`))
    const pids: Record<Part, number> = {
      worker: worker.child.pid!,
      web: web.child.pid!,
      upstream: upstream.child.pid!,
      postgres: Number.parseInt(await readFile(join(folder, 'postgres/postmaster.pid'), 'utf8'), 10),
      redis: JSON.parse(await readFile(join(folder, 'redis.json'), 'utf8')).pid,
    }
    const parts = Object.entries(pids) as [Part, number][]
    return {
      folder,
      stores,
      upstreamUrl,
      gateway,
      cpu: () => Object.fromEntries(parts.map(([part, pid]) => [part, treeCpuSeconds(pid)])) as Record<Part, number>,
      residentMb: part => residentKib([pids[part]]) / 1_024,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function startUpstream(folder: string, port: number): Running {
  const command = [process.execPath, join(root, 'bench/upstream.ts'), '--port', String(port)]
  return start(command, { logFile: join(folder, 'upstream.log'), processors: null })
}
