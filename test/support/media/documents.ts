import { deflateSync } from 'node:zlib'

/** Small PDF files written by hand. */

/** A PDF of numbered objects, from 1 on; the first is its catalog. `trailer` is added to the trailer's entries. */
export function pdf(objects: readonly (string | Buffer)[], trailer = ''): Buffer {
  const parts = [Buffer.from('%PDF-1.7\n')]
  const offsets: number[] = []
  let at = parts[0]!.length
  for (const [i, object] of objects.entries()) {
    const part = Buffer.concat([
      Buffer.from(`${i + 1} 0 obj\n`),
      Buffer.from(object as string),
      Buffer.from('\nendobj\n'),
    ])
    offsets.push(at)
    at += part.length
    parts.push(part)
  }
  const rows = offsets.map(offset => `${String(offset).padStart(10, '0')} 00000 n \n`)
  const size = objects.length + 1
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${rows.join('')}`
  parts.push(Buffer.from(`${table}trailer\n<</Size ${size}/Root 1 0 R${trailer}>>\nstartxref\n${at}\n%%EOF\n`))
  return Buffer.concat(parts)
}

/** A stream object, as it is or deflated. */
export function streamOf(entries: string, data: string | Buffer, deflated = false): Buffer {
  const bytes = deflated ? deflateSync(data) : Buffer.from(data as string)
  const filter = deflated ? '/Filter/FlateDecode' : ''
  const head = Buffer.from(`<<${entries}${filter}/Length ${bytes.length}>>\nstream\n`)
  return Buffer.concat([head, bytes, Buffer.from('\nendstream')])
}

const helvetica = '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>'

/** A page that shows object 4 with the font of object 3; object 2 is the root of the tree of pages. `more` goes to its resources. */
export function pageOf(more = ''): string {
  return `<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>${more}>>>>`
}

export type PdfParts = {
  count?: number
  kids?: string
  font?: string
  contents?: Buffer
  more?: readonly (string | Buffer)[]
}

/** A PDF of so many pages that show the same contents: five letters, unless others are given. */
export function pdfOfPages(pages: number, parts: PdfParts = {}): Buffer {
  const refs = Array.from({ length: pages }, (_, i) => `${5 + i} 0 R`).join(' ')
  const { count = pages, kids = refs, font = helvetica, more = [] } = parts
  const { contents = streamOf('', 'BT /F1 12 Tf 10 10 Td (Hello) Tj ET') } = parts
  const tree = `<</Type/Pages/Kids[${kids}]/Count ${count}>>`
  const leaves = Array.from({ length: pages }, () => pageOf(more.length > 0 ? `/XObject<</X ${5 + pages} 0 R>>` : ''))
  return pdf(['<</Type/Catalog/Pages 2 0 R>>', tree, font, contents, ...leaves, ...more])
}

/** The pages of such a file. */
export function pdfPagesIn(bytes: Buffer): number {
  return bytes.toString('latin1').match(/\/Type\/Page\//g)?.length ?? 0
}
