import { quartiles } from './lib/statistics.ts'
import type { Column, Slice } from './rounds.ts'

/** At most or at least so much. */
export type Target = { max: number } | { min: number }

/** A line of the table of targets: a figure of every round; none where it could not be measured. */
export type Row = { work: string; unit: string; decimals: number; target: Target | null; values: number[] }

/** Slices as text: one table per case, a line per subject, medians with their quartiles over the rounds. */
export function tables(columns: Column[], slices: Slice[]): string {
  const cases = [...new Set(slices.map(({ which }) => which))]
  return cases.map(which => `${which}\n${bySubject(columns, slices, which)}\n`).join('\n')
}

/** Rows as text, each with its target, the median with quartiles, and whether the median meets the target. */
export function targetTable(rows: Row[]): string {
  const lines = rows.map(({ work, unit, decimals, target, values }) => {
    const measured = values.length > 0 ? withUnit(cell(decimals, values), unit) : '–'
    return [work, target ? withUnit(wanted(target), unit) : '', measured, isMet(target, values)]
  })
  return align([['work', 'target', 'measured', 'met'], ...lines])
}

function wanted(target: Target): string {
  return 'max' in target ? `≤ ${target.max}` : `≥ ${target.min}`
}

function isMet(target: Target | null, values: number[]): string {
  if (!target || values.length === 0) return ''
  const { median } = quartiles(values)
  return ('max' in target ? median <= target.max : median >= target.min) ? 'yes' : 'no'
}

function withUnit(text: string, unit: string): string {
  return unit === '' ? text : `${text} ${unit}`
}

function bySubject(columns: Column[], slices: Slice[], which: string): string {
  const subjects = [...new Set(slices.map(({ subject }) => subject))].sort()
  const rows = subjects.map(subject => {
    const mine = slices.filter(slice => slice.subject === subject && slice.which === which)
    const figures = columns.map(({ decimals, of }) =>
      cell(
        decimals,
        mine.map(({ own, reference }) => of(own, reference)),
      ),
    )
    const noise = cell(
      2,
      mine.map(slice => slice.noise),
    )
    return [subject, ...figures, noise]
  })
  return align([['subject', ...columns.map(({ title }) => title), 'noise cores'], ...rows])
}

function cell(decimals: number, values: number[]): string {
  const { median, lower, upper } = quartiles(values)
  const text = (value: number) => value.toFixed(decimals)
  return values.length > 1 && text(lower) !== text(upper)
    ? `${text(median)} (${text(lower)}–${text(upper)})`
    : text(median)
}

function align(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  const lines = rows.map(row => `| ${row.map((text, column) => text.padEnd(widths[column]!)).join(' | ')} |`)
  const rule = `|${widths.map(width => '-'.repeat(width + 2)).join('|')}|`
  return [lines[0], rule, ...lines.slice(1)].join('\n')
}
