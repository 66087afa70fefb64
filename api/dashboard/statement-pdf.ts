import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Nano } from '../../shared/base/money.ts'
import type { Database } from '../../shared/io/db.ts'
import { referenceOf, type TopUpEvent } from '../../shared/wallet/causes.ts'
import {
  type Detail,
  getStatementTotals,
  listStatementDays,
  listStatementLines,
  type Period,
  type StatementLine,
  type StatementTotals,
  type Subtotal,
} from '../../shared/wallet/statement.ts'
import { runSearch } from './queries/run-search.ts'
import type { StatementDocument } from './statement-pdf-thread.ts'

/** About 180 pages, which are drawn in two seconds; longer periods are given in less detail. */
const maxLines = 5_000
/** Timeout for adding up a period of many millions of charges. */
const reading = { ms: 6_000, param: 'from' }
const maxDrawingMs = 30_000
const threadMemory = { maxOldGenerationSizeMb: 256 }

type Wanted = Period & { organisationId: string; detail: Detail }
type Issuer = { issuer: string[]; font: string | null }

/**
 * A statement as PDF: balances and lines of one instant, which add up. A period with more lines than the file may have is
 * grouped by day and key, or by day; the file says so. Throws 400 if reading takes too long, 503 if drawing does.
 */
export async function statementPdf(
  db: Database,
  wanted: Wanted,
  { issuer, font }: Issuer,
  now: Date,
): Promise<Uint8Array> {
  const read = await readStatement(db, wanted)
  const { name } = await db.organisation.findUniqueOrThrow({
    where: { id: wanted.organisationId },
    select: { name: true },
  })
  const document: StatementDocument = {
    title: 'Statement of prepaid credits',
    organisation: name,
    organisationId: wanted.organisationId,
    issuer,
    facts: factsOf(wanted, read, now),
    summary: summaryOf(read.totals),
    lines: linesOf(wanted, read),
    subtotals: subtotalsOf(read.totals),
    fonts: { ...ownFonts(), extra: font },
    createdAt: now.toISOString(),
  }
  return drawInThread(document)
}

/** `sums`: by day and kind. */
type Read = { totals: StatementTotals; detail: Detail | 'sums'; lines: StatementLine[] }

function readStatement(db: Database, wanted: Wanted): Promise<Read> {
  return runSearch(
    db,
    reading,
    wanted.organisationId,
    async tx => {
      const totals = await getStatementTotals(tx, wanted.organisationId, wanted)
      for (const detail of wanted.detail === 'entries' ? (['entries', 'days'] as const) : (['days'] as const)) {
        const lines = await listStatementLines(tx, {
          ...wanted,
          detail,
          order: 'asc',
          limit: maxLines + 1,
          balances: false,
        })
        if (lines.length <= maxLines) return { totals, detail, lines }
      }
      return { totals, detail: 'sums' as const, lines: await listStatementDays(tx, wanted.organisationId, wanted) }
    },
    { isOneInstant: true },
  )
}

const details: Record<Read['detail'], string> = {
  entries: 'each request',
  days: 'usage by day and API key',
  sums: 'sums by day and type',
}

function factsOf({ from, to, detail }: Wanted, { totals, detail: given }: Read, now: Date): [string, string][] {
  const isCoarser = detail !== given
  return [
    ['Period', `${from} to ${to}, both included (UTC)`],
    ['Currency', 'US dollars (USD)'],
    [
      'Detail',
      `${details[given]}${isCoarser ? `, because the period has over ${maxLines} lines; the CSV has each` : ''}`,
    ],
    ['Status', totals.closed ? 'closed: it does not change' : `open: closes on ${textOf(totals.closesAt)}`],
    ['Created', textOf(now)],
  ]
}

function summaryOf(totals: StatementTotals): [string, string][] {
  const { opening, deposit, charge, excess, refund, adjustment, closing } = totals
  return [
    ['Opening balance', formatAmount(opening)],
    ['Payments and credits', formatAmount(deposit)],
    ['Usage', formatAmount(charge)],
    ['Usage above its reservation', formatAmount(excess)],
    ['Refunds for failed work', formatAmount(refund)],
    ['Adjustments', formatAmount(adjustment)],
    ['Closing balance', formatAmount(closing)],
  ]
}

function linesOf({ from, to }: Wanted, { totals, lines }: Read): StatementDocument['lines'] {
  let balance = totals.opening
  const of = (time: string, name: string) => ({ time, name, detail: '', amount: null, balance: formatAmount(balance) })
  const opening = of(from, 'Opening balance')
  const rows = lines.map(line => {
    balance += line.amountNano
    const time = line.entryId === null ? line.at.toISOString().slice(0, 10) : textOf(line.at)
    return { time, ...describe(line), amount: formatAmount(line.amountNano), balance: formatAmount(balance) }
  })
  return [opening, ...rows, of(to, 'Closing balance')]
}

function subtotalsOf({ keys, members }: StatementTotals): StatementDocument['subtotals'] {
  const titled = (title: string, list: Subtotal[], rest: string, none: string) => ({
    title,
    rows: list.map(({ id, name, isRest, entries, amountNano }) => ({
      name: isRest ? `All ${rest}` : id === null ? none : (name ?? id),
      detail: [`${entries} ${entries === 1 ? 'entry' : 'entries'}`, !isRest && id].filter(Boolean).join(' · '),
      amount: formatAmount(amountNano),
    })),
  })
  const all = [
    titled('Usage by API key, refunds included', keys, 'other keys', 'No key'),
    titled('Usage by the member who created the key', members, 'other members', 'No member'),
  ]
  return all.filter(({ rows }) => rows.length > 0)
}

const events: Record<TopUpEvent, string> = {
  payment: 'Payment',
  failed: 'ACH payment failed',
  refund: 'Refund of a payment',
  refund_undone: 'Failed refund',
  dispute: 'Disputed payment',
  dispute_undone: 'Dispute won',
}
const kinds: Record<StatementLine['kind'], string> = {
  deposit: 'Credits added',
  charge: 'Usage',
  excess: 'Usage above its reservation',
  refund: 'Refund for failed work',
  adjustment: 'Adjustment',
}
const methods = { card: 'card', ach: 'ACH', grant: 'grant' }

function describe(line: StatementLine): { name: string; detail: string } {
  const { reference, event } = line.cause === null ? { reference: null, event: null } : referenceOf(line.cause)
  const what = event === null ? kinds[line.kind] : events[event]
  const about = line.keyName ?? line.note
  const parts = [
    line.entries > 1 && `${line.entries} entries`,
    line.entryId !== null && `entry ${line.entryId}`,
    reference,
    line.method && methods[line.method],
    line.keyId,
    line.lateFrom !== null && `late, of ${line.lateFrom}`,
    line.keyName !== null && line.note,
  ]
  return { name: about === null ? what : `${what}: ${about}`, detail: parts.filter(Boolean).join(' · ') }
}

function textOf(time: Date): string {
  return time.toISOString().slice(0, 19).replace('T', ' ')
}

/** Exact, with at least cents, so that what a reader adds up is right: "-1,234.50", "0.000123". */
function formatAmount(nano: Nano): string {
  const digits = (nano < 0n ? -nano : nano).toString().padStart(10, '0')
  const whole = digits.slice(0, -9).replace(/\B(?=(\d{3})+$)/g, ',')
  const fraction = digits.slice(-9).replace(/0{1,7}$/, '')
  return `${nano < 0n ? '-' : ''}${whole}.${fraction}`
}

/** DejaVu Sans has Latin, Greek, Cyrillic, Arabic, Hebrew, Armenian and Georgian letters. Its licence allows embedding. */
function ownFonts(): { regular: string; bold: string } {
  const folder = join(dirname(createRequire(import.meta.url).resolve('dejavu-fonts-ttf/package.json')), 'ttf')
  return { regular: join(folder, 'DejaVuSans.ttf'), bold: join(folder, 'DejaVuSans-Bold.ttf') }
}

/** Draws in a thread with memory of its own, because it takes up to two seconds. */
function drawInThread(document: StatementDocument): Promise<Uint8Array> {
  const thread = new Worker(new URL('./statement-pdf-thread.ts', import.meta.url), {
    workerData: document,
    resourceLimits: threadMemory,
  })
  let timer: NodeJS.Timeout | undefined
  const drawn = new Promise<Uint8Array>((resolve, reject) => {
    timer = setTimeout(() => reject(new Error('drawing a statement took too long')), maxDrawingMs)
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', code => reject(new Error(`the thread that draws a statement ended with ${code}`)))
  })
  return drawn
    .catch(cause => {
      throw new GatewayError('service_unavailable', 'The PDF could not be made. Export the statement as CSV instead.', {
        headers: { 'retry-after': '30' },
        cause,
      })
    })
    .finally(() => {
      clearTimeout(timer)
      void thread.terminate()
    })
}
