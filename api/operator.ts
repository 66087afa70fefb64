import { keepCompiledCode } from '../shared/base/code-cache.ts'

keepCompiledCode()
const { load } = await import('../shared/base/load.ts')
await load(async () => (await import('./operator/main.ts')).main(process.argv.slice(2)))
