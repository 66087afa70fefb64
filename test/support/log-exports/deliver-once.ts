/** A worker process that gives the exports that are due one turn; its lease is short. The test that starts it kills it. */
import { loadConfig } from '../../../shared/base/config.ts'
import { createLog } from '../../../shared/io/log.ts'
import { LogExportDeliveries } from '../../../shared/log-exports/deliveries.ts'
import { openServices } from '../../../shared/open-services.ts'

const config = loadConfig(process.env as Record<string, string>)
const services = await openServices(config, createLog(config.logLevel))
const deliveries = new LogExportDeliveries(services, { leaseMs: 1_000 })
await deliveries.claim()
await deliveries.settle()
