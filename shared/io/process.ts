import { setGlobalProxyFromEnv } from 'node:http'
import { type Config, ConfigError, printFaults } from '../base/config.ts'
import { nodeAgentOptions } from '../base/proxies.ts'
import { createLog, exitOnUncaught, flushLog, type Logger } from './log.ts'
import { isOutage } from './outage.ts'

const flushEveryMs = 1_000

/**
 * Starts a gateway process with its log. `start` opens everything and passes its cleanup to `end` for an orderly
 * shutdown, after which the process exits with 0. If `start` fails, the reason is written to the log or standard error,
 * and the process exits with 1.
 */
export async function startProcess(
  name: 'web' | 'worker',
  { logLevel, proxies }: Config,
  start: (log: Logger, end: (close: () => Promise<void>) => Promise<void>) => Promise<void>,
): Promise<void> {
  const log = createLog(logLevel, { process: name, pid: process.pid })
  exitOnUncaught(log)
  const { proxyEnv } = nodeAgentOptions(proxies)
  // For libraries that connect by Node's global agents and `fetch`: OpenID Connect.
  if (proxyEnv) setGlobalProxyFromEnv(proxyEnv)
  setInterval(() => log.flush(), flushEveryMs)
  const end = async (close: () => Promise<void>) => {
    log.info('stopping')
    await close()
    log.info('stopped')
    await flushLog(log)
    process.exit(0)
  }
  try {
    await start(log, end)
    log.flush()
  } catch (error) {
    if (error instanceof ConfigError) printFaults(error)
    else if (isOutage(error)) log.fatal({ reason: String(error) }, 'cannot start: a store does not answer')
    else log.fatal({ err: error }, 'cannot start')
    await flushLog(log)
    process.exit(1)
  }
}
