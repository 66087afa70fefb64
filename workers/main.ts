import { configOrExit } from '../shared/base/config.ts'
import { load } from '../shared/base/load.ts'

const config = configOrExit()
await load(async () => (await import('./work.ts')).work(config))
