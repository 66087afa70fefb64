/** Spreadsheets interpret text with these prefixes as a formula. */
const formula = /^[=+\-@\t\r]/

/**
 * Formats one line of a CSV file (RFC 4180). Numbers may be given as text; all other text is escaped so that it cannot
 * become a formula.
 */
export function csvLine(cells: readonly (string | number | null)[]): string {
  return `${cells.map(cell).join(',')}\r\n`
}

const plainNumber = /^-?\d+(\.\d+)?$/

function cell(value: string | number | null): string {
  if (value === null) return ''
  const text = String(value)
  if (plainNumber.test(text)) return text
  const safe = formula.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
