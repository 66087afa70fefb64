import { enableCodeCache } from '../shared/base/code-cache.ts'

enableCodeCache()
const { runEntryPoint } = await import('../shared/base/run-entry-point.ts')
await runEntryPoint(async () => (await import('./operator/main.ts')).main(process.argv.slice(2)))
