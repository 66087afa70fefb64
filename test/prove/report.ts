import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { faults } from './faults.ts'
import type { FuzzResult } from './fuzz.ts'
import type { NamedResult } from './named.ts'
import type { SeedResult } from './run-seed.ts'

const docs = join(import.meta.dirname, '../../docs')
const resultFile = join(docs, 'proof-results.json')
const page = join(docs, 'proof.md')
const startMark = '<!-- results: written by `npm run prove -- --publish` -->'
const endMark = '<!-- end of results -->'

type Report = Made & {
  node: string
  machine: string
  seeds: number[]
  minutes: number
  requests: number
  outcomes: Record<string, number>
  submissions: number
  payments: number
  charges: number
  webhooks: number
  faults: Record<string, number>
  breaches: string[]
}

/** What the result file has: of each kind of run the last one that was published. */
type Results = { faults?: Report; named?: NamedReport; fuzz?: FuzzReport }
type Made = { date: string; version: string }
type NamedReport = Made & { scenarios: NamedResult[]; complaints: NamedResult[] }
type FuzzReport = Made & FuzzResult

/** Publishes the runs of seeds, together with those of other seeds that were published of the same version and machine. */
export async function publish(results: readonly SeedResult[]): Promise<void> {
  const report = await reportOf(results)
  const { faults: before } = await readResults()
  await write({ faults: before && isSameTree(before, report) ? addUp(before, report) : report })
}

function isSameTree(before: Report, report: Report): boolean {
  const isSame = (['version', 'node', 'machine'] as const).every(name => before[name] === report[name])
  return isSame && !report.seeds.some(seed => before.seeds.includes(seed))
}

function addUp(before: Report, report: Report): Report {
  const sum = (name: 'minutes' | 'requests' | 'submissions' | 'payments' | 'charges' | 'webhooks') =>
    before[name] + report[name]
  return {
    ...report,
    seeds: [...before.seeds, ...report.seeds],
    minutes: sum('minutes'),
    requests: sum('requests'),
    outcomes: sumOf([before.outcomes, report.outcomes]),
    submissions: sum('submissions'),
    payments: sum('payments'),
    charges: sum('charges'),
    webhooks: sum('webhooks'),
    faults: sumOf([before.faults, report.faults]),
    breaches: [...before.breaches, ...report.breaches],
  }
}

/** Publishes a run of the named tests. */
export async function publishNamed(results: Pick<NamedReport, 'scenarios' | 'complaints'>): Promise<void> {
  await write({ named: { ...(await made()), ...results } })
}

/** Publishes a run of random requests. */
export async function publishFuzz(result: FuzzResult): Promise<void> {
  await write({ fuzz: { ...(await made()), ...result } })
}

/** Writes the result file, and the tables of docs/proof.md from it. */
async function write(changed: Results): Promise<void> {
  const results = { ...(await readResults()), ...changed }
  await writeFile(resultFile, `${JSON.stringify(results, null, 2)}\n`)
  const text = await readFile(page, 'utf8')
  const [before, rest] = text.split(startMark)
  const [, after] = rest!.split(endMark)
  await writeFile(page, `${before}${startMark}\n\n${tablesOf(results)}\n${endMark}${after}`)
}

/** The results that were published; none before the first time. */
export async function readResults(): Promise<Results> {
  return existsSync(resultFile) ? JSON.parse(await readFile(resultFile, 'utf8')) : {}
}

/** The part of docs/proof.md that has the results. */
export function tablesOf({ faults, named, fuzz }: Results): string {
  const parts = [
    ...(faults ? ['### Faults under load', '', tableOf(faults)] : []),
    ...(named ? namedTables(named) : []),
    ...(fuzz ? fuzzTable(fuzz) : []),
  ]
  return parts.join('\n')
}

function namedTables({ date, version, scenarios, complaints }: NamedReport): string[] {
  const peers = Object.keys(scenarios[0]?.peers ?? {})
  const peersOf = (one: NamedResult) => peers.map(name => one.peers?.[name] ?? '').join(' | ')
  const noteOf = ({ note, failed }: NamedResult) => [...(note ? [note] : []), ...failed].join('; ')
  return [
    '### The 16 faults of failoverbench',
    '',
    `Run on ${date} with version ${version}: streams, one fallback. Results of others as [published on 2026-09-12](https://github.com/failoverbench/failoverbench/blob/main/results/full/SCORECARD.md).`,
    '`pass`: the whole answer; `partial`: with a flaw; `safe`: a bounded, clean error; `fail`: a hang, or a part that passes for the whole.',
    '',
    `| Fault | Headgate | ${peers.join(' | ')} |`,
    `|---|---|${'---|'.repeat(peers.length)}`,
    ...scenarios.map(one => `| ${one.name} | **${one.verdict}** | ${peersOf(one)} |`),
    '',
    '### The 30 commonest complaints about gateways in production',
    '',
    '| Complaint | Seen at | Headgate | Tests | |',
    '|---|---|---|---:|---|',
    ...complaints.map(one => `| ${one.name} | ${one.seenAt} | **${one.verdict}** | ${one.ran} | ${noteOf(one)} |`),
    '',
  ]
}

function fuzzTable({ date, version, seed, operations, requests, valid, classes, faults }: FuzzReport): string[] {
  const count = (value: number) => value.toLocaleString('en-US')
  return [
    '### Random requests by the OpenAPI document',
    '',
    `Run on ${date} with version ${version}, seed ${seed}.`,
    '',
    '| | |',
    '|---|---:|',
    `| Operations | ${count(operations)} |`,
    `| Requests | ${count(requests)} |`,
    `| … that the schemas take | ${count(valid)} |`,
    ...Object.entries(classes).map(([name, number]) => `| Answered with ${name} | ${count(number)} |`),
    `| **Faults** | **${faults.length}** |`,
    ...faults.flatMap((fault, i) => (i === 0 ? ['', `- ${fault}`] : [`- ${fault}`])),
    '',
  ]
}

async function made(): Promise<Made> {
  const { version } = JSON.parse(await readFile(join(docs, '../package.json'), 'utf8')) as { version: string }
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: docs, encoding: 'utf8' }).trim()
  return { date: new Date().toISOString().slice(0, 10), version: `${version} (${commit})` }
}

async function reportOf(results: readonly SeedResult[]): Promise<Report> {
  const injected = results.flatMap(result => result.faults)
  const outcomes = sumOf(results.map(({ requests }) => outcomesOf(requests)))
  const total = (figure: (result: SeedResult) => number) => results.reduce((sum, result) => sum + figure(result), 0)
  return {
    ...(await made()),
    node: process.version,
    machine: `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GB`,
    seeds: results.map(({ seed }) => seed),
    minutes: Math.round(total(({ seconds }) => seconds) / 60),
    requests: Object.values(outcomes).reduce((sum, count) => sum + count, 0),
    outcomes,
    submissions: total(({ submissions }) => submissions),
    payments: total(({ payments }) => payments),
    charges: total(({ charges }) => charges),
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
    `| Charges of a saved card | ${count(report.charges)} |`,
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
