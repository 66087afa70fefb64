import { csvLine } from '../../shared/base/csv.ts'
import { formatUsd } from '../../shared/base/money.ts'
import type { Database } from '../../shared/io/db.ts'
import { referenceOf } from '../../shared/wallet/causes.ts'
import {
  getStatementBalances,
  listStatementLines,
  type StatementLine,
  type StatementPage,
} from '../../shared/wallet/statement.ts'
import type { PageReader } from './row-export.ts'

const columns = [
  ...['at', 'kind', 'event', 'amount_usd', 'charges', 'key', 'method', 'available_at', 'reference', 'note'],
  ...['late_from', 'currency', 'balance_usd', 'entry_id', 'key_id', 'member_id'],
]
const linesPerPage = 1_000

/**
 * Streams a statement as CSV, oldest first, one page in memory at a time: the opening balance, the lines, and the closing balance, unless
 * it is of one kind. What is booked into an open period while the file is written may precede lines that it already has. It is then a line of
 * its own, so that the lines always add up to the closing balance, which is that of the ledger.
 */
export async function* statementCsv(
  db: Database,
  wanted: Pick<StatementPage, 'organisationId' | 'detail' | 'kind' | 'from' | 'to'>,
  readPage: PageReader,
): AsyncGenerator<string> {
  const page: StatementPage = { ...wanted, order: 'asc', limit: linesPerPage, balances: false }
  const readBalances = async () => (await readPage(async () => [await getStatementBalances(db, wanted)]))[0]
  const start = wanted.kind ? undefined : await readBalances()
  let head =
    csvLine(columns) + (start ? balanceLine(`${wanted.from}T00:00:00.000Z`, 'opening_balance', start.opening) : '')
  let listed = start?.opening ?? 0n
  for (;;) {
    const lines = await readPage(() => listStatementLines(db, page))
    const text = lines.map(line => {
      listed += line.amountNano
      return textOf(line, wanted.kind ? null : listed)
    })
    yield head + text.join('')
    head = ''
    if (lines.length < linesPerPage) break
    page.after = lines.at(-1)!.cursor
  }
  const end = start && (await readBalances())
  if (!end) return
  const endAt = `${wanted.to}T23:59:59.999Z`
  const meanwhile = end.closing - listed
  if (meanwhile !== 0n) yield movementLine(endAt, meanwhile, end.closing)
  yield balanceLine(endAt, 'closing_balance', end.closing)
}

const cells = (at: string, kind: string, amount: string | null, balance: string) =>
  csvLine([at, kind, null, amount, ...Array<null>(7).fill(null), 'USD', balance, null, null, null])

function balanceLine(at: string, kind: string, balanceNano: bigint): string {
  return cells(at, kind, null, formatUsd(balanceNano))
}

function movementLine(at: string, amountNano: bigint, balanceNano: bigint): string {
  return cells(at, 'booked_meanwhile', formatUsd(amountNano), formatUsd(balanceNano))
}

function textOf(line: StatementLine, balanceNano: bigint | null): string {
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
    'USD',
    balanceNano === null ? null : formatUsd(balanceNano),
    line.entryId,
    line.keyId,
    line.memberId,
  ])
}
