import cluster from 'node:cluster'
import { once } from 'node:events'
import type http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { HousekeepingWatch } from '../shared/alerts/housekeeping-watch.ts'
import { type Config, ConfigError } from '../shared/base/config.ts'
import { startProcess } from '../shared/io/process.ts'
import { startWithRetry } from '../shared/io/retry.ts'
import { startReportingKeys } from '../shared/keys/reported-keys.ts'
import type { Metrics } from '../shared/metrics/metrics.ts'
import type { ScrapeServer } from '../shared/metrics/scrape-server.ts'
import { openServices } from '../shared/open-services.ts'
import { createApp } from './app.ts'
import { createHttpServer } from './http-server.ts'
import { directDispatch } from './request-lifecycle.ts'
import { fixedPathEndpoints } from './route-table.ts'
import { UpgradeServer } from './sockets/upgrade.ts'
import { startWarnings } from './start-warnings.ts'
import { warmUp } from './warm-up.ts'

/** Part of the grace period: sessions are closed, then terminated, before it ends. */
const sessionReserveMs = 7_000
/** Time for responses stopped at the end of the grace period to reach their clients. */
const finalResponseMs = 2_000

/** One web process, from its configuration to its graceful shutdown. */
export async function serve(config: Config): Promise<void> {
  await startProcess('web', config, async (log, end) => {
    const services = await openServices(config, log)
    const { admission, health, providerPauses, reservationFactors } = services
    const started = [health, providerPauses, reservationFactors].map(service => service.start())
    await Promise.all([startWithRetry(() => admission.start()), ...started])
    startReportingKeys(services, admission.instance)
    const dispatch = directDispatch(services, createApp(services).callback(), fixedPathEndpoints('POST')!)
    const { server, connections } = createHttpServer(config, dispatch)
    const housekeepingWatch = new HousekeepingWatch(services)
    const upgrades = new UpgradeServer(services)
    server.on('upgrade', (request, socket, head) => void upgrades.upgrade(request, socket, head))
    const scrapes = services.metrics && (await openMetrics(config, services.metrics))
    await warmUp(services, dispatch)
    await listen(server, config)
    housekeepingWatch.start()
    log.info({ port: config.port }, 'listening')
    for (const warning of startWarnings(config, services.catalog)) log.warn(warning)

    const close = async (drainMs: number) => {
      const { shutdown } = services
      const { graceMs } = config.shutdown
      const timers = [
        setTimeout(() => shutdown.abortRunning(), graceMs),
        setTimeout(() => {
          server.closeAllConnections()
          upgrades.close()
        }, graceMs + finalResponseMs),
      ]
      housekeepingWatch.close()
      shutdown.startDraining()
      connections.announceClose()
      await sleep(drainMs)
      await connections.closeListener()
      const sessionMs = Math.max(0, graceMs - sessionReserveMs - drainMs)
      await Promise.all([connections.closeIdle(drainMs), upgrades.drain(sessionMs)])
      upgrades.close()
      for (const timer of timers) clearTimeout(timer)
      await services.close()
      scrapes?.close()
    }
    let stopping: Promise<void> | undefined
    // Both a platform that signals every process and the supervisor of this one may send it.
    process.on('SIGTERM', () => void (stopping ??= end(() => close(config.shutdown.drainMs))))
    // Interrupted from a terminal: no load balancer has to notice.
    process.on('SIGINT', () => void (stopping ??= end(() => close(0))))
  })
}

/** Makes the metrics available: through the primary process where there is one. */
async function openMetrics(config: Config, metrics: Metrics): Promise<ScrapeServer | null> {
  metrics.addProcessMetrics()
  if (cluster.isPrimary) {
    const { openScrapeServer } = await import('../shared/metrics/scrape-server.ts')
    return openScrapeServer(config.metrics!, () => metrics.render())
  }
  const { answerPrimary } = await import('./cluster-metrics.ts')
  answerPrimary(metrics)
  return null
}

/** Throws a ConfigError if the address cannot be listened on. */
async function listen(server: http.Server, { host, port }: Config): Promise<void> {
  server.listen({ port, host, backlog: 4096 })
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason = code === 'EADDRINUSE' ? 'another process is listening there' : 'the address cannot be used'
    throw new ConfigError([`PORT: ${port} of ${host}: ${reason} (${code})`])
  }
}
