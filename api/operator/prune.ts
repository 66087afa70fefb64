import { z } from 'zod'
import type { JobServices } from '../../shared/jobs/job-services.ts'
import type { ResponseServices } from '../../shared/responses/response-services.ts'
import { hourlyRules, pruneAll, requestLogRules } from '../../shared/retention/rules.ts'
import { type Command, command } from './parse.ts'

const rules = [...requestLogRules, ...hourlyRules]

type Line = { table: string; what: string; rows: number; bytes: number | null }

export const prune: Command[] = [
  command({
    name: 'prune',
    summary: 'Removes what is past its retention now, or with --dry-run counts it.',
    help: '[--dry-run]',
    flags: z.strictObject({ dry_run: z.literal(true, 'takes no value').optional() }),
    async run(services, { dry_run: isDryRun = false }) {
      const before = await measure(services)
      if (isDryRun) return { data: { dry_run: true, data: before }, text: format(before) }
      await pruneAll(services, rules)
      const after = await measure(services)
      const data = before.map((line, i) => ({ ...line, left: after[i]!.rows }))
      const left = data.filter(line => line.left > 0)
      const notes = left.map(line => `${line.left} rows of ${line.table} (${line.what}) are left: run it again`)
      return { data: { dry_run: false, data }, text: [format(before), ...notes].join('\n') }
    },
  }),
]

async function measure(services: JobServices & ResponseServices): Promise<Line[]> {
  const lines: Line[] = []
  for (const rule of rules) lines.push({ table: rule.table, what: rule.what, ...(await rule.measure(services)) })
  return lines
}

/** A table with a line per rule; bytes are approximate. */
function format(lines: readonly Line[]): string {
  const cells = lines.map(({ table, what, rows, bytes }) => [String(rows), sizeOf(bytes), table, what])
  const titled = [['rows', 'size', 'table', 'what'], ...cells]
  const widths = [0, 1, 2].map(column => Math.max(...titled.map(line => line[column]!.length)))
  return titled
    .map(([rows, size, table, what]) =>
      [rows!.padStart(widths[0]!), size!.padStart(widths[1]!), table!.padEnd(widths[2]!), what].join('  '),
    )
    .join('\n')
}

const units = ['B', 'kB', 'MB', 'GB', 'TB']

function sizeOf(bytes: number | null): string {
  if (bytes === null) return '?'
  let amount = bytes
  let unit = 0
  for (; amount >= 1_000 && unit < units.length - 1; unit++) amount /= 1_000
  return `${amount < 10 && unit > 0 ? amount.toFixed(1) : Math.round(amount)} ${units[unit]}`
}
