import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { readReleases } from './releases.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const maxOutputBytes = 64 * 2 ** 20

/**
 * The code of the previous release in a temporary folder, ready to run with our dependencies: the last commit without a
 * migration that is newer than the release's. Found by name, as a clone may lack tags. Null if the clone is shallow.
 */
export async function checkOutPreviousRelease(): Promise<string | null> {
  const { migration } = readReleases().previous
  const commit = await findCommit(migration)
  if (!commit) return null
  const folder = await mkdtemp(join(tmpdir(), 'headgate-previous-'))
  await run('sh', ['-c', 'git archive "$1" | tar -x -C "$2"', 'sh', commit, folder], { cwd: root })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await mkdir(join(folder, 'shared/generated'), { recursive: true })
  const prisma = join(folder, 'node_modules/prisma/build/index.js')
  await run(process.execPath, [prisma, 'generate'], { cwd: folder, maxBuffer: maxOutputBytes })
  return folder
}

/** Throws if the whole history lacks the commit: the release is named wrongly. */
async function findCommit(migration: string): Promise<string | null> {
  const args = [
    'log',
    '--topo-order',
    '--reverse',
    '--no-renames',
    '--diff-filter=A',
    '--name-only',
    '--format=commit %H',
  ]
  const { stdout } = await run('git', [...args, '--', 'prisma/migrations'], { cwd: root, maxBuffer: maxOutputBytes })
  let commit: string | null = null
  for (const line of stdout.split('\n')) {
    if (line.startsWith('commit ')) commit = line.slice('commit '.length)
    const [, name] = /^prisma\/migrations\/([^/]+)\/migration\.sql$/.exec(line) ?? []
    if (commit && name && name > migration) return `${commit}^`
  }
  const { stdout: isShallow } = await run('git', ['rev-parse', '--is-shallow-repository'], { cwd: root })
  if (isShallow.trim() === 'true') return null
  throw new Error(`the history has no commit after ${migration}`)
}
