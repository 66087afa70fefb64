import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Config, ConfigError } from '../shared/base/config.ts'
import { startProcess } from '../shared/io/process.ts'
import { startPatiently } from '../shared/io/retry.ts'
import { openServices } from '../shared/services.ts'
import { createApp } from './app.ts'
import { Connections } from './connections.ts'
import { withLane } from './lane.ts'
import { asksForSocket, RealtimeDoor } from './realtime.ts'
import { startWarnings } from './start-warnings.ts'

/** Of the grace period: sessions are closed, and then cut, before it ends. */
const sessionReserveMs = 7_000
/** How long answers that were stopped at the end of the grace period have to reach their clients. */
const farewellMs = 2_000

/** One web process, from its configuration to its orderly end. */
export async function serve(config: Config): Promise<void> {
  await startProcess('web', config, async (log, end) => {
    const services = await openServices(config, log)
    await Promise.all([startPatiently(() => services.admission.start()), services.health.start()])
    const server = http.createServer({
      keepAliveTimeout: config.keepAliveTimeoutMs,
      headersTimeout: 20_000,
      // Of uploads; what comes more slowly than it must is refused before.
      requestTimeout: 900_000,
      connectionsCheckingInterval: 10_000,
      noDelay: true,
      shouldUpgradeCallback: asksForSocket,
    })
    const connections = new Connections(server)
    server.on('request', withLane(services, createApp(services).callback()))
    server.maxConnections = config.maxConnections
    const door = new RealtimeDoor(services)
    server.on('upgrade', (request, socket, head) => void door.upgrade(request, socket, head))
    await listen(server, config)
    log.info({ port: config.port }, 'listening')
    for (const warning of startWarnings(config, services.catalog)) log.warn(warning)

    const close = async (drainMs: number) => {
      const { shutdown } = services
      const { graceMs } = config.shutdown
      const timers = [
        setTimeout(() => shutdown.stopRunning(), graceMs),
        setTimeout(() => {
          server.closeAllConnections()
          door.close()
        }, graceMs + farewellMs),
      ]
      shutdown.startDraining()
      connections.announceClose()
      await sleep(drainMs)
      await connections.closeListener()
      const sessionMs = Math.max(0, graceMs - sessionReserveMs - drainMs)
      await Promise.all([connections.closeIdle(drainMs), door.drain(sessionMs)])
      door.close()
      for (const timer of timers) clearTimeout(timer)
      await services.close()
    }
    let stopping: Promise<void> | undefined
    // A platform that signals every process, and the one that supervises this one, both say so.
    process.on('SIGTERM', () => void (stopping ??= end(() => close(config.shutdown.drainMs))))
    // Somebody at a terminal: no balancer has to notice.
    process.on('SIGINT', () => void (stopping ??= end(() => close(0))))
  })
}

/** Throws a ConfigError where the address cannot be listened on. */
async function listen(server: http.Server, { host, port }: Config): Promise<void> {
  server.listen({ port, host, backlog: 4096 })
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why = code === 'EADDRINUSE' ? 'another process listens there' : 'it cannot be listened on'
    throw new ConfigError([`PORT: ${port} of ${host}: ${why} (${code})`])
  }
}
