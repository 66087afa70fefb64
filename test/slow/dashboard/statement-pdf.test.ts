import { getResolvedPDFJS } from 'unpdf'
import { bookUsage } from '../../../shared/wallet/booking.ts'
import { answersError } from '../../support/api/edge.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { test } from '../../support/test.ts'
import { useGateway } from '../../support/use.ts'
import { usageEventOf } from '../../support/wallet/usage-event.ts'

const nowMs = Date.UTC(2026, 9, 31, 23)
const hourMs = 3_600_000
/** Its tests run one by one: drawing two documents at once keeps the process so busy that its stores seem to be away. */
const gateway = useGateway(test, {}, { clock: { now: () => nowMs } })

type PrintedRow = { amount: string | null; balance: string; text: string }
/** `subtotals`: those of the rows by key, then by member. */
type Printed = { pages: string[][]; rows: PrintedRow[]; subtotals: [PrintedRow[], PrintedRow[]]; text: string }

/** Reads a PDF with pdf.js: the lines of text of each page, and the rows of its tables. */
async function readPdf(file: Uint8Array): Promise<Printed> {
  const document = await (await getResolvedPDFJS()).getDocument({ data: file }).promise
  const pages: string[][] = []
  const rows: PrintedRow[] = []
  const subtotals: Printed['subtotals'] = [[], []]
  let list = rows
  for (let number = 1; number <= document.numPages; number++) {
    const { items } = await (await document.getPage(number)).getTextContent()
    const texts = items.flatMap(item => ('str' in item && item.str.trim() ? [item] : []))
    const byLine = Map.groupBy(texts, ({ transform }) => Math.round(transform[5]))
    pages.push([...byLine.values()].map(line => line.map(({ str }) => str).join('')))
    const heads = [...byLine.values()].findIndex(line => line.some(({ str }) => str === 'Balance'))
    for (const line of [...byLine.values()].slice(heads + 1)) {
      const numbers = line.filter(({ transform, str }) => transform[4] > 355 && /^-?[\d,]+\.\d+$/.test(str))
      if (numbers.length === 0) {
        const title = line.map(({ str }) => str).join('')
        if (title.startsWith('Usage by API key')) list = subtotals[0]
        else if (title.startsWith('Usage by the member')) list = subtotals[1]
        continue
      }
      const plain = numbers.map(({ str }) => str.replaceAll(',', ''))
      const text = line.slice(0, -numbers.length).map(({ str }) => str)
      list.push({ amount: plain.length > 1 ? plain[0]! : null, balance: plain.at(-1)!, text: text.join('') })
    }
  }
  return { pages, rows, subtotals, text: pages.flat().join('\n') }
}

const nanoOfText = (text: string) => {
  const [, sign, whole, fraction] = /^(-?)(\d+)\.(\d+)$/.exec(text)!
  return BigInt(`${sign}${whole}${fraction!.padEnd(9, '0')}`)
}

test.serial(
  'a statement as PDF has the numbers of the CSV and the ledger, names in any script, and numbered pages',
  async t => {
    const { visitor, base, organisationId } = await signUp(gateway)
    const { wallets, db, rawPool } = gateway.services
    await db.organisation.update({ where: { id: organisationId }, data: { name: 'Ωmega Строй 中文 \u{1f600}' } })
    for (const name of ['Ключ для тестов', 'Ένα κλειδί', 'مفتاح واحد', '密钥', 'x'.repeat(100)])
      await gateway.key(organisationId, 'live', { name })
    const keys = await db.apiKey.findMany({ where: { organisationId } })
    const startOfYearMs = Date.UTC(2026, 0, 1)
    const events = Array.from({ length: 150 }, (_, i) => {
      const at = startOfYearMs + i * 16 * hourMs
      const month = new Date(at).toISOString().slice(0, 7)
      const key = keys[i % keys.length]!.id
      return usageEventOf({
        id: `chatcmpl-${key}-${i}`,
        at,
        org: organisationId,
        key,
        month,
        requestId: `r${i}`,
        cost: 7 ** (i % 12),
      })
    })
    await rawPool.transaction(run => bookUsage(run, events, startOfYearMs + 100 * 24 * hourMs))
    await wallets.deposit({ organisationId, amountNano: 1_234_500_000_000n, method: 'card', note: 'Überweisung\nzwei' })
    for (const detail of ['days', 'entries']) {
      const query = `from=2026-01-11&to=2026-12-31&detail=${detail}`
      const answer = await visitor.fetch(`${base}/billing/statement.pdf?${query}`)
      t.is(answer.headers.get('content-type'), 'application/pdf', answer.ok ? '' : await answer.text())
      t.regex(
        answer.headers.get('content-disposition')!,
        /^attachment; filename="\S+statement-2026-01-11-to-2026-12-31\.pdf"$/,
      )
      const { pages, rows, subtotals, text } = await readPdf(new Uint8Array(await answer.arrayBuffer()))
      const csv = (await (await visitor.fetch(`${base}/billing/ledger.csv?${query}`)).text()).replace(
        /"[^"]*"/g,
        'quoted',
      )
      const lines = csv
        .trimEnd()
        .split('\r\n')
        .slice(1)
        .map(line => line.split(','))
      t.deepEqual(
        rows.map(({ amount, balance }) => [amount && nanoOfText(amount), nanoOfText(balance)]),
        lines.map(line => [line[3] ? nanoOfText(line[3]) : null, nanoOfText(line[12]!)]),
        detail,
      )
      const [opening, closing] = [rows[0]!, rows.at(-1)!]
      const sum = rows.reduce(
        (total, { amount }) => total + (amount ? nanoOfText(amount) : 0n),
        nanoOfText(opening.balance),
      )
      t.is(sum, nanoOfText(closing.balance))
      const work = lines.filter(line => ['charge', 'excess', 'refund'].includes(line[1]!))
      const worked = work.reduce((total, line) => total + nanoOfText(line[3]!), 0n)
      t.is(subtotals[0].length, keys.length)
      for (const list of subtotals)
        t.is(
          list.reduce((total, { balance }) => total + nanoOfText(balance), 0n),
          worked,
          'the subtotals add up to the work',
        )
      const { balanceNano } = await db.wallet.findUniqueOrThrow({ where: { organisationId } })
      t.is(nanoOfText(closing.balance), balanceNano, 'the closing balance is that of the wallet')
      t.true(pages.length > 3)
      for (const [i, page] of pages.entries())
        t.true(page.some(line => line.endsWith(`Page ${i + 1} of ${pages.length}`)))
      for (const known of [
        'Ωmega Строй ��',
        'Ключ для тестов',
        'Ένα κλειδί',
        organisationId,
        keys[0]!.id,
        'US dollars',
        'Überweisung zwei',
      ])
        t.true(text.includes(known), known)
      t.true(text.includes('xxxx…'))
    }
    await answersError(
      t,
      await visitor.fetch(`${base}/billing/statement.pdf?from=2025-11&to=2026-11`),
      'invalid_request',
      'to',
    )
  },
)

test.serial(
  'a statement as PDF with more lines than it may have is grouped by day and type, says so, and adds up',
  async t => {
    const { visitor, base, organisationId } = await signUp(gateway)
    const row = (i: number) => ({
      organisationId,
      kind: 'adjustment' as const,
      cause: `adjustment:of_${organisationId}_${i}`,
      amountNano: BigInt(i + 1),
      createdAt: new Date(Date.UTC(2026, 8, 1 + (i % 3))),
    })
    await gateway.services.db.ledgerEntry.createMany({ data: Array.from({ length: 5_001 }, (_, i) => row(i)) })
    const answer = await visitor.fetch(`${base}/billing/statement.pdf?month=2026-09&detail=entries`)
    const { rows, text } = await readPdf(new Uint8Array(await answer.arrayBuffer()))
    t.true(text.includes('sums by day and type, because the period has over 5000 lines'))
    t.is(rows.length, 3 + 2)
    const sum = rows.reduce((total, { amount }) => total + (amount ? nanoOfText(amount) : 0n), 0n)
    t.deepEqual([sum, nanoOfText(rows.at(-1)!.balance)], [12_507_501n, 12_507_501n])
  },
)
