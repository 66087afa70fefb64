import cluster from 'node:cluster'
import http from 'node:http'
import { type Config, ConfigError, configOrExit } from '../shared/base/config.ts'
import { createLog } from '../shared/io/log.ts'
import { openServices } from '../shared/services.ts'
import { createApp } from './app.ts'

/** Heroku kills 30 s after SIGTERM: what is not done by then is cut. */
const graceMs = 25_000

const config = configOrExit()
if (config.webConcurrency > 1 && cluster.isPrimary) supervise(config)
else await serve(config)

/** Forks one server process per `WEB_CONCURRENCY` and replaces those that die. */
function supervise({ webConcurrency }: Config): void {
  let stopping = false
  for (let i = 0; i < webConcurrency; i++) cluster.fork()
  cluster.on('exit', (worker, code) => {
    if (stopping) return
    // A process that cannot even start would otherwise be started again for ever.
    if (code === 1 && !worker.exitedAfterDisconnect) process.exitCode = 1
    if (process.exitCode === 1) return void stop('SIGTERM')
    cluster.fork()
  })
  const stop = (signal: NodeJS.Signals) => {
    stopping = true
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(signal)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop('SIGTERM'))
}

async function serve(config: Config): Promise<void> {
  const log = createLog(config.logLevel, { process: 'web', pid: process.pid })
  const flushing = setInterval(() => log.flush(), 1_000)
  try {
    const services = await openServices(config, log)
    await services.admission.start()
    services.health.start()
    const server = http.createServer(
      { keepAliveTimeout: 75_000, headersTimeout: 60_000, requestTimeout: 300_000, noDelay: true },
      createApp(services).callback(),
    )
    server.listen({ port: config.port, host: config.host, backlog: 4096 }, () => {
      log.info({ port: config.port }, 'listening')
      log.flush()
    })
    const stop = async () => {
      log.info('stopping')
      const cut = setTimeout(() => server.closeAllConnections(), graceMs)
      await new Promise(resolve => {
        server.close(resolve)
        server.closeIdleConnections()
      })
      clearTimeout(cut)
      await services.close()
      clearInterval(flushing)
      log.info('stopped')
      log.flush()
      process.exit(0)
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop())
  } catch (error) {
    if (error instanceof ConfigError) for (const fault of error.faults) console.error(`configuration: ${fault}`)
    else log.fatal({ err: error }, 'cannot start')
    log.flush()
    process.exit(1)
  }
}
