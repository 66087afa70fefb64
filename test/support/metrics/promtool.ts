import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unpacked } from '../../../dev/debian.ts'
import { run } from '../../../dev/run.ts'

const directory = join(import.meta.dirname, '../../../.data/prometheus')

/** Prometheus' own checker: on PATH, else Debian's package, unpacked without changing the system. Throws without either. */
export async function findPromtool(): Promise<string> {
  if (await runs('promtool')) return 'promtool'
  return unpacked({
    directory,
    packages: async () => ['prometheus'],
    prepare: async () => {},
    find: async folder => {
      const file = join(folder, 'usr/bin/promtool')
      return (await runs(file)) ? file : null
    },
  })
}

function runs(file: string): Promise<boolean> {
  return run(file, ['--version']).then(
    () => true,
    () => false,
  )
}

/** Runs the checker; its exit code and everything it wrote. */
export async function promtool(args: string[], input = ''): Promise<{ exitCode: number; output: string }> {
  const child = spawn(await findPromtool(), args, { stdio: ['pipe', 'pipe', 'pipe'] })
  const ended = new Promise<number>((resolve, reject) => child.on('close', resolve).on('error', reject))
  child.stdin.end(input)
  const parts = await Promise.all([text(child.stdout), text(child.stderr)])
  return { exitCode: await ended, output: parts.join('') }
}
