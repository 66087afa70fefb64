/** What a document consists of: its pages, and the UTF-8 bytes of the text on all of them. */
export type DocumentSize = { pages: number; textBytes: number }

const maxPages = 5_000
const maxTextBytes = 16 * 1024 * 1024
/** What the library writes when it leaves out text or pages and goes on. */
const leftOut =
  /ignoring errors|ignoring XObject|loadFont|translateFont|ensureStateFont|is not available|getContentStream|getAllPageDicts|readToUnicode|Invalid cMap|is not supported|Invalid stream|Indexing all PDF objects/

/**
 * The pages of a PDF and the text that is drawn on them, be it out of sight. It may take minutes and any amount of memory: to
 * be called in a process of its own. Null when not all text can be read, and for more than 5,000 pages or 16 MiB of text.
 * Throws for what is no PDF, is broken or encrypted.
 */
export async function pdfSize(bytes: Uint8Array): Promise<DocumentSize | null> {
  let complete = true
  // The library reports what it leaves out only here. The process has a console of its own.
  console.warn = (message: unknown) => {
    if (leftOut.test(String(message))) complete = false
  }
  const plainPages = countPlainPages(bytes)
  const { getResolvedPDFJS } = await import('unpdf')
  const { getDocument, OPS, VerbosityLevel } = await getResolvedPDFJS()
  const loading = getDocument({
    data: bytes,
    stopAtErrors: true,
    maxImageSize: 1, // Larger images are left out: in pixels.
    disableFontFace: true,
    useSystemFonts: false,
    verbosity: VerbosityLevel.WARNINGS,
  })
  try {
    const document = await loading.promise
    const pages = document.numPages
    // Some readers count pages, others believe the number that the tree states.
    if (plainPages > pages) return null
    let textBytes = 0
    for (let number = 1; number <= pages && complete; number++) {
      if (pages > maxPages || textBytes > maxTextBytes) return null
      const page = await document.getPage(number)
      // The library's own extraction of text leaves out what lies beyond the edges of the page.
      const { fnArray, argsArray } = await page.getOperatorList()
      for (const [i, operator] of fnArray.entries())
        if (operator === OPS.showText) textBytes += bytesOf(argsArray[i][0]) + separatorBytes
      page.cleanup()
    }
    return complete && textBytes <= maxTextBytes ? { pages, textBytes } : null
  } finally {
    await loading.destroy()
  }
}

/** Pages whose objects are not in a compressed stream, of all revisions of the document. */
function countPlainPages(bytes: Uint8Array): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  return text.match(/\/Type\s{0,10}\/Page(?![A-Za-z])/g)?.length ?? 0
}

/** Extractors put a space or a line break between two pieces of text. */
const separatorBytes = 1

/** A glyph, or how far to move on from the last one, which may stand for a space. */
type Shown = { unicode?: string } | number | null

function bytesOf(shown: readonly Shown[]): number {
  let bytes = 0
  for (const glyph of shown)
    bytes += typeof glyph === 'object' ? Buffer.byteLength(glyph?.unicode ?? '') : glyph < 0 ? separatorBytes : 0
  return bytes
}
