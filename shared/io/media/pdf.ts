/** The size of a document: its pages, and the UTF-8 bytes of the text on all of them. */
export type DocumentSize = { pages: number; textBytes: number }

const maxPages = 5_000
const maxTextBytes = 16 * 1024 * 1024
/** Warnings of the library when it skips text or pages and continues. */
const skippedContentWarning =
  /ignoring errors|ignoring XObject|loadFont|translateFont|ensureStateFont|is not available|getContentStream|getAllPageDicts|readToUnicode|Invalid cMap|is not supported|Invalid stream|Indexing all PDF objects/

/**
 * Counts the pages of a PDF and the text drawn on them, visible or not. It may take minutes and any amount of memory:
 * call it in a separate process. Null if not all text can be read, and for more than 5,000 pages or 16 MiB of text.
 * Throws if the file is not a PDF, is broken or encrypted.
 */
export async function pdfSize(bytes: Uint8Array): Promise<DocumentSize | null> {
  let complete = true
  // The library reports skipped content only here. This process has no other output on its console.
  console.warn = (message: unknown) => {
    if (skippedContentWarning.test(String(message))) complete = false
  }
  const plainPages = countPlainPages(bytes)
  const { getResolvedPDFJS } = await import('unpdf')
  const { getDocument, OPS, VerbosityLevel } = await getResolvedPDFJS()
  const loading = getDocument({
    data: bytes,
    stopAtErrors: true,
    maxImageSize: 1, // In pixels; larger images are skipped.
    disableFontFace: true,
    useSystemFonts: false,
    verbosity: VerbosityLevel.WARNINGS,
  })
  try {
    const document = await loading.promise
    const pages = document.numPages
    // Some readers count pages, others trust the number stated in the page tree.
    if (plainPages > pages) return null
    let textBytes = 0
    for (let number = 1; number <= pages && complete; number++) {
      if (pages > maxPages || textBytes > maxTextBytes) return null
      const page = await document.getPage(number)
      // The library's own text extraction skips text beyond the edges of the page.
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

/**
 * Counts the pages of a PDF, by whichever way of counting finds more; as above, in a separate process. Throws if the file is
 * not a PDF, is broken or encrypted.
 */
export async function pdfPages(bytes: Uint8Array): Promise<DocumentSize> {
  const plainPages = countPlainPages(bytes)
  const { getResolvedPDFJS } = await import('unpdf')
  const { getDocument, VerbosityLevel } = await getResolvedPDFJS()
  const loading = getDocument({ data: bytes, useSystemFonts: false, verbosity: VerbosityLevel.ERRORS })
  try {
    const { numPages } = await loading.promise
    return { pages: Math.max(numPages, plainPages), textBytes: 0 }
  } finally {
    await loading.destroy()
  }
}

/** Counts page objects outside compressed streams, in all revisions of the document. */
function countPlainPages(bytes: Uint8Array): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  return text.match(/\/Type\s{0,10}\/Page(?![A-Za-z])/g)?.length ?? 0
}

/** Text extractors put a space or a line break between two text runs. */
const separatorBytes = 1

/** A glyph, or the offset after the previous one, which may stand for a space. */
type Shown = { unicode?: string } | number | null

function bytesOf(shown: readonly Shown[]): number {
  let bytes = 0
  for (const glyph of shown)
    bytes += typeof glyph === 'object' ? Buffer.byteLength(glyph?.unicode ?? '') : glyph < 0 ? separatorBytes : 0
  return bytes
}
