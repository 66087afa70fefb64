import { parentPort, workerData } from 'node:worker_threads'
import PDFDocument from 'pdfkit'

/** What a statement says, as text that is only to be laid out. */
export type StatementDocument = {
  title: string
  organisation: string
  organisationId: string
  /** Lines about the operator: a name and an address. */
  issuer: string[]
  facts: [name: string, value: string][]
  summary: [name: string, amount: string][]
  lines: { time: string; name: string; detail: string; amount: string | null; balance: string }[]
  /** What the work of the period sums up to by some property, after the lines. */
  subtotals: { title: string; rows: { name: string; detail: string; amount: string }[] }[]
  /** Paths of font files; `extra` has the characters that the others lack. */
  fonts: { regular: string; bold: string; extra: string | null }
  createdAt: string
}

const margin = 40
const bottom = 60
const rowHeight = 24
/** Where columns start, or for amounts, where their decimal point is. */
const at = { time: margin, entry: 128, amount: 420, balance: 500 }
const entryWidth = 225
const regular = 'regular'
const bold = 'bold'
const dimmed = '#555555'
/** In place of a character that no font has. */
const missing = '\ufffd'

type Document = InstanceType<typeof PDFDocument>
type Font = { name: string; has: (codePoint: number) => boolean }

/** Draws a statement as PDF. Fonts are embedded with the glyphs that are used only. */
async function drawStatement(statement: StatementDocument): Promise<Uint8Array> {
  const { title, organisation, issuer, fonts, createdAt } = statement
  const doc = new PDFDocument({
    size: 'A4',
    margins: { top: margin, left: margin, right: margin, bottom: 0 },
    bufferPages: true,
    lang: 'en',
    // Without it, one of the fonts without Unicode would be loaded.
    font: fonts.regular,
    info: { Title: `${title}, ${organisation}`, Author: issuer[0] ?? 'Headgate', CreationDate: new Date(createdAt) },
  })
  const chunks: Uint8Array[] = []
  const ended = new Promise<void>(resolve => doc.on('end', resolve))
  doc.on('data', (chunk: Uint8Array) => chunks.push(chunk))
  new Drawing(doc, statement).draw()
  doc.end()
  await ended
  return new Uint8Array(Buffer.concat(chunks))
}

class Drawing {
  readonly #doc: Document
  readonly #statement: StatementDocument
  readonly #fonts: { [regular]: Font[]; [bold]: Font[] }
  #y = margin

  constructor(doc: Document, statement: StatementDocument) {
    this.#doc = doc
    this.#statement = statement
    const { fonts } = statement
    const extra = fonts.extra === null ? [] : [openFont(doc, 'extra', fonts.extra)]
    this.#fonts = {
      [regular]: [openFont(doc, regular, fonts.regular), ...extra],
      [bold]: [openFont(doc, bold, fonts.bold), ...extra],
    }
  }

  draw(): void {
    this.#drawHead()
    this.#drawTableHead()
    for (const line of this.#statement.lines) {
      if (this.#y + rowHeight > this.#doc.page.height - bottom) this.#addPage()
      this.#drawLine(line)
    }
    for (const subtotals of this.#statement.subtotals) this.#drawSubtotals(subtotals)
    this.#drawFooters()
  }

  #drawHead(): void {
    const { title, organisation, organisationId, issuer, facts, summary } = this.#statement
    const top = this.#y
    this.#text(title, margin, top, { size: 18, weight: bold, width: 515 })
    this.#y = top + 32
    for (const line of issuer) {
      this.#text(line, margin, this.#y, { size: 8, color: dimmed, width: 515 })
      this.#y += 11
    }
    if (issuer.length > 0) this.#y += 8
    this.#text(organisation, margin, this.#y, { size: 11, weight: bold, width: 515 })
    this.#text(organisationId, margin, this.#y + 15, { size: 8, color: dimmed, width: 515 })
    this.#y += 32
    for (const [name, value] of facts) {
      this.#text(name, margin, this.#y, { size: 8, color: dimmed, width: 100 })
      this.#text(value, at.entry, this.#y, { size: 8, width: 427 })
      this.#y += 12
    }
    this.#y += 8
    for (const [name, amount] of summary) {
      const weight = name.endsWith('balance') ? bold : regular
      this.#text(name, margin, this.#y, { size: 9, weight, width: 300 })
      this.#amount(amount, at.balance, this.#y, { size: 9, weight })
      this.#y += 14
    }
    this.#y += 14
  }

  #addPage(): void {
    this.#startPage()
    this.#drawTableHead()
  }

  #startPage(): void {
    this.#doc.addPage()
    this.#y = margin
  }

  #drawTableHead(): void {
    const style = { size: 8, weight: bold, width: 90 } as const
    this.#text('Time (UTC)', at.time, this.#y, style)
    this.#text('Entry', at.entry, this.#y, style)
    this.#text('Amount', at.amount - 34, this.#y, style)
    this.#text('Balance', at.balance - 34, this.#y, style)
    this.#y += 13
    this.#doc.moveTo(margin, this.#y).lineTo(555, this.#y).lineWidth(0.5).strokeColor('#999999').stroke()
    this.#y += 5
  }

  #drawLine({ time, name, detail, amount, balance }: StatementDocument['lines'][number]): void {
    this.#text(time, at.time, this.#y, { size: 8, width: 85 })
    this.#text(name, at.entry, this.#y, { size: 8, width: entryWidth })
    this.#text(detail, at.entry, this.#y + 10, { size: 6.5, color: dimmed, width: entryWidth })
    if (amount !== null) this.#amount(amount, at.amount, this.#y, { size: 8 })
    this.#amount(balance, at.balance, this.#y, { size: 8, ...(amount === null && { weight: bold }) })
    this.#y += rowHeight
  }

  #drawSubtotals({ title, rows }: StatementDocument['subtotals'][number]): void {
    // The title stays with the first row.
    if (this.#y + 2 * rowHeight + 20 > this.#doc.page.height - bottom) this.#startPage()
    this.#y += 14
    this.#text(title, margin, this.#y, { size: 9, weight: bold, width: 515 })
    this.#y += 18
    for (const { name, detail, amount } of rows) {
      if (this.#y + rowHeight > this.#doc.page.height - bottom) this.#startPage()
      this.#text(name, margin, this.#y, { size: 8, width: 380 })
      this.#text(detail, margin, this.#y + 10, { size: 6.5, color: dimmed, width: 380 })
      this.#amount(amount, at.balance, this.#y, { size: 8 })
      this.#y += rowHeight
    }
  }

  #drawFooters(): void {
    const { organisation, facts } = this.#statement
    const { count } = this.#doc.bufferedPageRange()
    for (let page = 0; page < count; page++) {
      this.#doc.switchToPage(page)
      const y = this.#doc.page.height - margin
      this.#text(`${organisation} · ${facts[0]![1]}`, margin, y, { size: 7, color: dimmed, width: 430 })
      this.#text(`Page ${page + 1} of ${count}`, 490, y, { size: 7, color: dimmed, width: 65 })
    }
  }

  /** Draws an amount with its decimal point at `x`, so that those of a column stand below each other. */
  #amount(text: string, x: number, y: number, style: { size: number; weight?: 'regular' | 'bold' }): void {
    const point = text.indexOf('.')
    this.#doc.font(this.#fonts[style.weight ?? regular][0]!.name).fontSize(style.size)
    this.#text(text, x - this.#doc.widthOfString(text.slice(0, point)), y, { ...style, width: 120 })
  }

  /** Draws one line of text, shortened to a width, each part of it in the first font that has its characters. */
  #text(
    text: string,
    x: number,
    y: number,
    style: { size: number; width: number; weight?: 'regular' | 'bold'; color?: string },
  ): void {
    const doc = this.#doc.fontSize(style.size).fillColor(style.color ?? 'black')
    let left = x
    for (const run of this.#runsOf(text, style.weight ?? regular)) {
      doc.font(run.font)
      const room = x + style.width - left
      if (doc.widthOfString(run.text) <= room) {
        doc.text(run.text, left, y, { lineBreak: false })
        left += doc.widthOfString(run.text)
        continue
      }
      const shortened = this.#shorten(run.text, room)
      doc.text(shortened, left, y, { lineBreak: false })
      const end = left + doc.widthOfString(shortened)
      doc.font(this.#fonts.regular[0]!.name).text('…', end, y, { lineBreak: false })
      return
    }
  }

  #shorten(text: string, width: number): string {
    const letters = [...text]
    let [fits, tooLong] = [0, letters.length]
    while (tooLong - fits > 1) {
      const middle = (fits + tooLong) >> 1
      const cut = `${letters.slice(0, middle).join('')}…`
      if (this.#doc.widthOfString(cut) <= width) fits = middle
      else tooLong = middle
    }
    return letters.slice(0, fits).join('')
  }

  /** The parts of a text with one font and one direction each: right-to-left scripts are shaped word by word. */
  #runsOf(text: string, weight: 'regular' | 'bold'): { text: string; font: string }[] {
    const fonts = this.#fonts[weight]
    const runs: { text: string; font: string; isReversed: boolean }[] = []
    for (const letter of text
      .slice(0, 500)
      .toWellFormed()
      .replace(/\p{Cc}+/gu, ' ')) {
      const found = fonts.find(({ has }) => has(letter.codePointAt(0)!))
      const font = found ?? fonts[0]!
      const isReversed = /[\p{Script=Arabic}\p{Script=Hebrew}]/u.test(letter)
      const last = runs.at(-1)
      const isSame = last?.font === font.name && (last.isReversed === isReversed || /\p{M}/u.test(letter))
      if (isSame) last.text += found ? letter : missing
      else runs.push({ text: found ? letter : missing, font: font.name, isReversed })
    }
    return runs
  }
}

function openFont(doc: Document, name: string, path: string): Font {
  doc.registerFont(name, path).font(name)
  const { font } = (doc as unknown as { _font: { font: { hasGlyphForCodePoint(codePoint: number): boolean } } })._font
  return { name, has: codePoint => font.hasGlyphForCodePoint(codePoint) }
}

parentPort?.postMessage(await drawStatement(workerData as StatementDocument))
