import cluster from 'node:cluster'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Config, ConfigError, loadConfigOrExit, printFaults } from '../shared/base/config.ts'
import { runEntryPoint } from '../shared/base/run-entry-point.ts'
import type { ScrapeServer } from '../shared/metrics/scrape-server.ts'

const startAgainAfterMs = 1_000

const config = loadConfigOrExit()
if (config.webConcurrency > 1 && cluster.isPrimary) supervise(config, await openMetrics(config))
else await runEntryPoint(async () => (await import('./serve.ts')).serve(config))

/**
 * Forks one server process per `WEB_CONCURRENCY` and replaces those that die. If one exits before any has listened, the
 * fault is in the configuration or the machine and would repeat: all of them exit. Scrapes are answered until then.
 */
function supervise({ webConcurrency }: Config, scrapes: ScrapeServer | null): void {
  let stopping = false
  let hasListened = false
  const stop = (signal: NodeJS.Signals) => {
    stopping = true
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(signal)
  }
  const keepOne = async () => {
    while (!stopping) {
      const worker = cluster.fork()
      let listened = false
      worker.once('listening', () => {
        listened = true
        hasListened = true
      })
      await once(worker, 'exit')
      if (stopping || listened) continue
      if (hasListened) await sleep(startAgainAfterMs)
      else {
        process.exitCode = 1
        stop('SIGTERM')
      }
    }
  }
  const ended = Promise.all(Array.from({ length: webConcurrency }, keepOne))
  void ended.then(() => scrapes?.close())
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stop)
}

/** Opens METRICS_PORT for all server processes. Exits with 1 if it cannot be listened on. */
async function openMetrics({ metrics }: Config): Promise<ScrapeServer | null> {
  if (!metrics) return null
  const { ClusterMetrics } = await import('./cluster-metrics.ts')
  const { openScrapeServer } = await import('../shared/metrics/scrape-server.ts')
  const all = new ClusterMetrics()
  try {
    return await openScrapeServer(metrics, () => all.render())
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    printFaults(error)
    process.exit(1)
  }
}
