import { runEntryPoint } from '../shared/base/run-entry-point.ts'

await runEntryPoint(async () => (await import('./operator/main.ts')).main(process.argv.slice(2)))
