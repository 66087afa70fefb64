import { loadConfigOrExit } from '../shared/base/config.ts'
import { runEntryPoint } from '../shared/base/run-entry-point.ts'

const config = loadConfigOrExit()
await runEntryPoint(async () => (await import('./work.ts')).startWorker(config))
