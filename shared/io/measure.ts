import { isUtf8 } from 'node:buffer'
import { measureMedia, measurePdf } from './media-processes.ts'
import type { DocumentSize } from './pdf.ts'

const defaultTimeoutMs = 10_000
/** PDF readers look for the mark of a PDF this far in. */
const pdfHeadBytes = 1_024
const pdfMark = '%PDF-'

/**
 * The playing time of a sound file in milliseconds, rounded up: of WAV, MP3, FLAC, Ogg, AAC, MP4 and WebM, by the samples or
 * packets that are there, whatever its header states. `owner` is whose file it is (an organisation's id): the files of one
 * owner do not keep those of others waiting. Null when the file cannot be understood, has video, or takes longer than `timeoutMs`
 * or more memory than it may. Never throws.
 */
export async function measureSound(bytes: Buffer, owner: string, timeoutMs = defaultTimeoutMs): Promise<number | null> {
  const file = { bytes: bytes.length, read: async (start: number, end: number) => bytes.subarray(start, end) }
  const length = await measureMedia(file, timeoutMs, owner).catch(() => null)
  return length?.hasAudio && !length.hasVideo ? Math.ceil(length.seconds * 1_000) : null
}

/**
 * What a model is given of a document: a PDF's pages and the UTF-8 bytes of the text that is extracted from all of them (with
 * a byte after each piece); of text in UTF-8 (plain, CSV, JSON, Markdown …) no pages and its bytes. `owner` as with sound.
 * Null for other files, and for a PDF that is encrypted, broken, has more than 5,000 pages or 16 MiB of text, or takes longer
 * than `timeoutMs` or more memory than it may. Never throws.
 */
export async function measureDocument(
  bytes: Buffer,
  owner: string,
  timeoutMs = defaultTimeoutMs,
): Promise<DocumentSize | null> {
  const mark = bytes.indexOf(pdfMark)
  if (mark >= 0 && mark < pdfHeadBytes) return measurePdf(bytes, timeoutMs, owner)
  // Some readers find the mark anywhere: it is not certain what the file is taken for.
  const isText = mark < 0 && isUtf8(bytes) && !bytes.includes(0)
  return isText ? { pages: 0, textBytes: bytes.length } : null
}
