import { csvLine } from '../../shared/base/csv.ts'
import { formatUsd } from '../../shared/base/money.ts'
import { nextMonthStart } from '../../shared/base/time.ts'
import type { Database } from '../../shared/io/db.ts'
import { referenceOf } from '../../shared/wallet/causes.ts'
import { listStatementLines, type StatementPage } from '../../shared/wallet/statement.ts'
import type { PageReader } from './row-export.ts'

const columns = [
  ...['at', 'kind', 'event', 'amount_usd', 'charges', 'key', 'method', 'available_at', 'reference', 'note'],
  'late_from',
]
const linesPerPage = 1_000

/** Streams a statement of several months as CSV, oldest first, one page in memory at a time. */
export async function* statementCsv(
  db: Database,
  { from, to, ...wanted }: Pick<StatementPage, 'organisationId' | 'detail' | 'kind'> & { from: string; to: string },
  readPage: PageReader,
): AsyncGenerator<string> {
  let head = csvLine(columns)
  for (let month = from; month <= to; month = nextMonthStart(Date.parse(`${month}-01T00:00:00Z`)).slice(0, 7)) {
    const page: StatementPage = { ...wanted, month, order: 'asc', limit: linesPerPage }
    for (;;) {
      const lines = await readPage(() => listStatementLines(db, page))
      yield head + lines.map(textOf).join('')
      head = ''
      if (lines.length < linesPerPage) break
      page.after = lines.at(-1)!.cursor
    }
  }
}

function textOf(line: Awaited<ReturnType<typeof listStatementLines>>[number]): string {
  const { reference, event } = line.cause === null ? { reference: null, event: null } : referenceOf(line.cause)
  return csvLine([
    line.at.toISOString(),
    line.kind,
    event,
    formatUsd(line.amountNano),
    line.kind === 'charge' ? line.entries : null,
    line.keyName,
    line.method,
    line.availableAt?.toISOString() ?? null,
    reference,
    line.note,
    line.lateFrom,
  ])
}
