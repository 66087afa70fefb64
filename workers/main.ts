import { enableCodeCache } from '../shared/base/code-cache.ts'

enableCodeCache()
const { loadConfigOrExit } = await import('../shared/base/config.ts')
const { runEntryPoint } = await import('../shared/base/run-entry-point.ts')
const config = loadConfigOrExit()
await runEntryPoint(async () => (await import('./work.ts')).startWorker(config))
