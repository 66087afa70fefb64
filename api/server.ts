import cluster from 'node:cluster'
import http from 'node:http'
import { type Config, ConfigError, configOrExit, printFaults } from '../shared/base/config.ts'
import { createLog, dieLoudly } from '../shared/io/log.ts'
import { startPatiently } from '../shared/io/retry.ts'
import { openServices } from '../shared/services.ts'
import { createApp } from './app.ts'
import { asksForSocket, RealtimeDoor } from './realtime.ts'
import { startWarnings } from './start-warnings.ts'

/** Heroku kills 30 s after SIGTERM: what is not done by then is cut. */
const graceMs = 25_000
/** How long sessions may take to end by themselves. */
const sessionGraceMs = 18_000
const idleCheckMs = 100

const config = configOrExit()
if (config.webConcurrency > 1 && cluster.isPrimary) supervise(config)
else await serve(config)

/** A process that ends sooner after its start will not do better the next time. */
const startsWithinMs = 10_000

/** Forks one server process per `WEB_CONCURRENCY` and replaces those that die. */
function supervise({ webConcurrency }: Config): void {
  let stopping = false
  const stop = () => {
    stopping = true
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGTERM')
  }
  const fork = () => {
    const startedMs = Date.now()
    cluster.fork().once('exit', () => {
      if (stopping) return
      if (Date.now() - startedMs > startsWithinMs) return fork()
      process.exitCode = 1
      stop()
    })
  }
  for (let i = 0; i < webConcurrency; i++) fork()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stop)
}

async function serve(config: Config): Promise<void> {
  const log = createLog(config.logLevel, { process: 'web', pid: process.pid })
  dieLoudly(log)
  const flushing = setInterval(() => log.flush(), 1_000)
  try {
    const services = await openServices(config, log)
    await startPatiently(() => services.admission.start())
    await services.health.start()
    const server = http.createServer(
      {
        keepAliveTimeout: 75_000,
        headersTimeout: 20_000,
        // Of uploads; what comes more slowly than it must is refused before.
        requestTimeout: 900_000,
        connectionsCheckingInterval: 10_000,
        noDelay: true,
        shouldUpgradeCallback: asksForSocket,
      },
      createApp(services).callback(),
    )
    server.maxConnections = config.maxConnections
    const door = new RealtimeDoor(services)
    server.on('upgrade', (request, socket, head) => void door.upgrade(request, socket, head))
    server.listen({ port: config.port, host: config.host, backlog: 4096 }, () => {
      log.info({ port: config.port }, 'listening')
      for (const warning of startWarnings(config)) log.warn(warning)
      log.flush()
    })
    const stop = async () => {
      log.info('stopping')
      const cut = setTimeout(() => {
        server.closeAllConnections()
        door.close()
      }, graceMs)
      // A connection that a client keeps open is not idle before its last answer has left.
      const closing = setInterval(() => server.closeIdleConnections(), idleCheckMs)
      await Promise.all([new Promise(resolve => server.close(resolve)), door.drain(sessionGraceMs)])
      door.close()
      clearTimeout(cut)
      clearInterval(closing)
      await services.close()
      clearInterval(flushing)
      log.info('stopped')
      log.flush()
      process.exit(0)
    }
    let stopping: Promise<void> | undefined
    // A platform that signals every process, and the one that supervises this one, both say so.
    const stopOnce = () => void (stopping ??= stop())
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stopOnce)
  } catch (error) {
    if (error instanceof ConfigError) printFaults(error)
    else log.fatal({ err: error }, 'cannot start')
    log.flush()
    process.exit(1)
  }
}
