import { keepCompiledCode } from '../shared/base/code-cache.ts'

keepCompiledCode()
const { configOrExit } = await import('../shared/base/config.ts')
const { load } = await import('../shared/base/load.ts')
const config = configOrExit()
await load(async () => (await import('./work.ts')).work(config))
