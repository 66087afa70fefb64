import { spread } from './lib/statistics.ts'
import type { Column, Slice } from './rounds.ts'

/** The report as text: one table per case, a row per subject, medians with their range over the rounds. */
export function tables(columns: Column[], slices: Slice[]): string {
  const cases = [...new Set(slices.map(({ which }) => which))]
  return cases
    .map(
      which =>
        `${which}\n${table(
          columns,
          slices.filter(slice => slice.which === which),
        )}\n`,
    )
    .join('\n')
}

function table(columns: Column[], slices: Slice[]): string {
  const subjects = [...new Set(slices.map(({ subject }) => subject))].sort()
  const noise: Column = { title: 'noise cores', decimals: 2, of: () => NaN }
  const rows = subjects.map(subject => {
    const mine = slices.filter(slice => slice.subject === subject)
    const cells = columns.map(column =>
      cell(
        column,
        mine.map(({ own, reference }) => column.of(own, reference)),
      ),
    )
    return [
      subject,
      ...cells,
      cell(
        noise,
        mine.map(slice => slice.noise),
      ),
    ]
  })
  return align([['subject', ...columns.map(({ title }) => title), noise.title], ...rows])
}

function cell({ decimals }: Column, values: number[]): string {
  const { median, least, most } = spread(values)
  const text = (value: number) => value.toFixed(decimals)
  return values.length > 1 && text(least) !== text(most)
    ? `${text(median)} (${text(least)}–${text(most)})`
    : text(median)
}

function align(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  const lines = rows.map(row => `| ${row.map((text, column) => text.padEnd(widths[column]!)).join(' | ')} |`)
  const rule = `|${widths.map(width => '-'.repeat(width + 2)).join('|')}|`
  return [lines[0], rule, ...lines.slice(1)].join('\n')
}
