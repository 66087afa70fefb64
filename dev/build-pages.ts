import { globSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { step } from './progress.ts'
import { run } from './run.ts'

const root = join(import.meta.dirname, '..')
const buildWithinMs = 180_000

/**
 * Builds the pages of the dashboard and, unless nobody will read them, of the documentation, if they are missing or older than
 * their sources. Throws an Error with the builder's output.
 */
export async function buildPages({ documentation = true } = {}): Promise<void> {
  await buildIfOlder('dashboard', 'api/dashboard', ['api/dashboard/{web,wire}/**/*.*', 'api/dashboard/build.ts'])
  if (documentation)
    await buildIfOlder('documentation', 'api/docs-site', [
      'docs/**/*.*',
      'docs/.vitepress/*.*',
      'api/docs-site/build.ts',
    ])
}

async function buildIfOlder(name: string, folder: string, patterns: string[]): Promise<void> {
  const sources = globSync([...patterns, 'api/compress-files.ts', 'package-lock.json'], { cwd: root })
  const newestMs = Math.max(...sources.map(path => statSync(join(root, path)).mtimeMs))
  const builtMs = statSync(join(root, folder, 'dist/built'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (builtMs >= newestMs) return
  await step(`building the pages of the ${name}`, () =>
    run(process.execPath, [join(root, folder, 'build.ts')], { cwd: root, timeout: buildWithinMs }),
  )
}
