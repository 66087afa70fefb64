import { globSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './run.ts'

const root = join(import.meta.dirname, '..')
const buildWithinMs = 180_000

/** Builds the dashboard's pages if they are missing or older than their sources. Throws an Error with the builder's output. */
export async function buildDashboard(): Promise<void> {
  const sources = globSync(['api/dashboard/{web,wire}/**/*.*', 'api/dashboard/build.ts', 'package-lock.json'], {
    cwd: root,
  })
  const newestMs = Math.max(...sources.map(path => statSync(join(root, path)).mtimeMs))
  const builtMs = statSync(join(root, 'api/dashboard/dist/built'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (builtMs >= newestMs) return
  await run(process.execPath, [join(root, 'api/dashboard/build.ts')], { cwd: root, timeout: buildWithinMs })
}
