import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { faults } from './faults.ts'
import type { SeedResult } from './run-seed.ts'

const docs = join(import.meta.dirname, '../../docs')
const resultFile = join(docs, 'proof-results.json')
const page = join(docs, 'proof.md')
const startMark = '<!-- results: written by `npm run prove -- --publish` -->'
const endMark = '<!-- end of results -->'

type Report = {
  date: string
  version: string
  node: string
  machine: string
  seeds: number[]
  minutes: number
  requests: number
  outcomes: Record<string, number>
  submissions: number
  payments: number
  webhooks: number
  faults: Record<string, number>
  breaches: string[]
}

/** Writes the result file, and the table of docs/proof.md from it. */
export async function publish(results: readonly SeedResult[]): Promise<void> {
  const report = await reportOf(results)
  await writeFile(resultFile, `${JSON.stringify(report, null, 2)}\n`)
  const text = await readFile(page, 'utf8')
  const [before, rest] = text.split(startMark)
  const [, after] = rest!.split(endMark)
  await writeFile(page, `${before}${startMark}\n\n${tableOf(report)}\n${endMark}${after}`)
}

async function reportOf(results: readonly SeedResult[]): Promise<Report> {
  const { version } = JSON.parse(await readFile(join(docs, '../package.json'), 'utf8')) as { version: string }
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: docs, encoding: 'utf8' }).trim()
  const injected = results.flatMap(result => result.faults)
  const outcomes = sumOf(results.map(({ requests }) => outcomesOf(requests)))
  const total = (figure: (result: SeedResult) => number) => results.reduce((sum, result) => sum + figure(result), 0)
  return {
    date: new Date().toISOString().slice(0, 10),
    version: `${version} (${commit})`,
    node: process.version,
    machine: `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GB`,
    seeds: results.map(({ seed }) => seed),
    minutes: Math.round(total(({ seconds }) => seconds) / 60),
    requests: Object.values(outcomes).reduce((sum, count) => sum + count, 0),
    outcomes,
    submissions: total(({ submissions }) => submissions),
    payments: total(({ payments }) => payments),
    webhooks: total(({ webhooks }) => webhooks),
    faults: Object.fromEntries(faults.map(({ name }) => [name, injected.filter(it => it === name).length])),
    breaches: results.flatMap(({ seed, breaches }) => breaches.map(breach => `seed ${seed}: ${breach}`)),
  }
}

/** How many requests ended how, whatever they asked for; submissions are counted apart. */
function outcomesOf(requests: Record<string, number>): Record<string, number> {
  const outcomes: Record<string, number> = {}
  for (const [name, count] of Object.entries(requests)) {
    const outcome = name.slice(name.indexOf(': ') + 2)
    if (outcome === 'at once' || outcome === 'after retries') continue
    const [, status] = /^(\d{3}) /.exec(outcome) ?? []
    const key = status ? `refused with ${status}` : outcome
    outcomes[key] = (outcomes[key] ?? 0) + count
  }
  return outcomes
}

function sumOf(all: readonly Record<string, number>[]): Record<string, number> {
  const sum: Record<string, number> = {}
  for (const one of all) for (const [name, count] of Object.entries(one)) sum[name] = (sum[name] ?? 0) + count
  return Object.fromEntries(Object.entries(sum).sort(([, a], [, b]) => b - a))
}

function tableOf(report: Report): string {
  const count = (value: number) => value.toLocaleString('en-US')
  const lines = [
    `Last run: ${report.date}, version ${report.version}, Node ${report.node}, ${report.machine}.`,
    '',
    '| | |',
    '|---|---:|',
    `| Seeds | ${report.seeds.length} (${report.seeds.join(', ')}) |`,
    `| Minutes | ${count(report.minutes)} |`,
    `| Requests | ${count(report.requests)} |`,
    ...Object.entries(report.outcomes).map(([name, number]) => `| … ${name} | ${count(number)} |`),
    `| Jobs and batches | ${count(report.submissions)} |`,
    `| Top-ups, each told of three times | ${count(report.payments)} |`,
    `| Webhooks received | ${count(report.webhooks)} |`,
    `| Faults | ${count(Object.values(report.faults).reduce((sum, number) => sum + number, 0))} |`,
    `| **Breaches** | **${report.breaches.length}** |`,
    '',
    '| Fault | Times |',
    '|---|---:|',
    ...Object.entries(report.faults).map(([name, number]) => `| ${name} | ${number} |`),
    ...report.breaches.flatMap((breach, i) => (i === 0 ? ['', 'Breaches:', '', `- ${breach}`] : [`- ${breach}`])),
    '',
  ]
  return lines.join('\n')
}
