import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expectedOutcome, tableFaults } from '../support/chat/fault-table.ts'
import { complaints, type NamedTests, type Verdict } from './complaints.ts'

const tests = join(import.meta.dirname, '..')

export type NamedResult = Omit<NamedTests, 'tests'> & { verdict: Verdict; ran: number; failed: string[] }

/** Of Portkey Gateway, Bifrost 2.1.1 and LiteLLM: github.com/failoverbench/failoverbench, results/full/SCORECARD.md, 2026-09-12. */
const published: Record<string, readonly [portkey: Verdict, bifrost: Verdict, litellm: Verdict]> = {
  S01: ['pass', 'partial', 'pass'],
  S02: ['pass', 'pass', 'pass'],
  S03: ['pass', 'pass', 'pass'],
  S04: ['pass', 'pass', 'pass'],
  S05: ['pass', 'pass', 'pass'],
  S06: ['pass', 'fail', 'partial'],
  S07: ['partial', 'partial', 'partial'],
  S08: ['fail', 'safe', 'safe'],
  S09: ['fail', 'safe', 'safe'],
  S10: ['pass', 'pass', 'safe'],
  S11: ['pass', 'pass', 'pass'],
  S12: ['pass', 'pass', 'pass'],
  S13: ['partial', 'partial', 'partial'],
  S14: ['fail', 'safe', 'safe'],
  S15: ['pass', 'pass', 'pass'],
  S16: ['pass', 'pass', 'pass'],
}

/** The 16 scenarios of failoverbench, as it runs them: a stream, and a fallback that the request names. */
export const scenarios: readonly NamedTests[] = Object.entries(published).map(([name, [Portkey, Bifrost, LiteLLM]]) => {
  const peers = { Portkey, Bifrost, LiteLLM }
  const file = 'slow/chat/faults/table.test.ts'
  if (name === 'S15') {
    const title = 'pass while the primary is down, and back with it, when S15, models, stream'
    return { name: 'S15 down, then healthy', peers, verdict: 'pass', tests: [[file, title]] }
  }
  const { title } = tableFaults[name]!
  const expected = expectedOutcome({ name, setup: 'models', stream: true })
  const verdict = expected.split(' ')[0] as Verdict
  return {
    name: `${name} ${title}`,
    peers,
    verdict,
    tests: [[file, `${expected} when ${name}, models, stream: ${title}`]],
  }
})

export const named = { scenarios, complaints }

/** Whether a test has a title. */
export function isTitled(title: string, ran: string): boolean {
  const parts = title.split('*').map(part => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`).test(ran)
}

/** The titles in a test file. */
export function titlesIn(file: string): string[] {
  const source = readFileSync(join(tests, file), 'utf8')
  const calls = source.matchAll(/\btest(?:\.serial)?\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g)
  return [...calls].map(([, , title]) => title!.replaceAll(/\$\{[^}]*\}/g, '*').replaceAll(/\\(.)/g, '$1'))
}

type Ran = { title: string; passed: boolean }

/** Runs the named tests, and gives what each fault and complaint came to. A test that did not run counts as one that failed. */
export async function runNamed(): Promise<Record<keyof typeof named, NamedResult[]>> {
  const ran = await run([...scenarios, ...complaints].flatMap(one => one.tests))
  const resultOf = ({ tests: own, ...one }: NamedTests): NamedResult => {
    const runs = own.map(([file, title]) => ran.filter(it => isTitled(titleInRun(file, title), it.title)))
    const isWell = (some: Ran[]) => some.length > 0 && some.every(({ passed }) => passed)
    const failed = own.filter((_, i) => !isWell(runs[i]!)).map(([file, title]) => `${file} › ${title}`)
    return { ...one, verdict: failed.length > 0 ? 'fail' : (one.verdict ?? 'pass'), ran: runs.flat().length, failed }
  }
  return { scenarios: scenarios.map(resultOf), complaints: complaints.map(resultOf) }
}

/** A title as it stands in a run of several files. */
function titleInRun(file: string, title: string): string {
  return `${file.replace(/\.test\.ts$/, '').replaceAll('/', ' › ')} › ${title}`
}

/** Runs tests; gives those that ran, and whether they passed. */
async function run(all: NamedTests['tests']): Promise<Ran[]> {
  const files = [...new Set(all.map(([file]) => join('test', file)))]
  // AVA reads `!` and `\` as its own.
  const matches = all.flatMap(([, title]) => ['-m', title.replaceAll(/[!\\]/g, '*')])
  // One file at a time: some of the time-outs are short.
  const args = [join(tests, 'run.ts'), ...files, '--tap', '--concurrency', '1', ...matches]
  const child = spawn(process.execPath, args, {
    cwd: join(tests, '..'),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ran: Ran[] = []
  for await (const line of createInterface(child.stdout)) {
    const [, not, title] = /^(not )?ok \d+ - (.*)$/.exec(line) ?? []
    if (title) ran.push({ title, passed: !not })
  }
  if (child.exitCode === null) await once(child, 'exit')
  return ran
}
