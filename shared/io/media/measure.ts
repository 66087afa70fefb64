import { isUtf8 } from 'node:buffer'
import type { SlotOwner } from '../fair-slots.ts'
import { maxMeasuringMs, measureMedia, measurePdf } from './media-processes.ts'
import { pdfHeadBytes, pdfMark } from './media-type.ts'
import type { DocumentSize } from './pdf.ts'

/**
 * Measures the playing time of an audio file in milliseconds, rounded up: WAV, MP3, FLAC, Ogg, AAC, MP4, WebM and
 * others, by the packets present, whatever the header states. Files are taken fairly by
 * `owner`. Null if the file cannot be parsed, has video, or exceeds `timeoutMs` or the memory limit.
 * Never throws.
 */
export async function measureSound(
  bytes: Buffer,
  owner: SlotOwner,
  timeoutMs = maxMeasuringMs,
): Promise<number | null> {
  const file = { bytes: bytes.length, read: async (start: number, end: number) => bytes.subarray(start, end) }
  const length = await measureMedia(file, timeoutMs, owner).catch(() => null)
  return length?.hasAudio && !length.hasVideo ? Math.ceil(length.soundSeconds * 1_000) : null
}

/**
 * Measures the text that a model receives of a document: for a PDF, its pages and the UTF-8 bytes of the text extracted
 * from all of them (plus a byte per text run); for UTF-8 text (plain, CSV, JSON, Markdown …) no pages and its bytes.
 * `owner` as for audio. Null for other files, and for a PDF that is encrypted, broken, has more than 5,000 pages or 16
 * MiB of text, or exceeds `timeoutMs` or the memory limit. Never throws.
 */
export async function measureDocument(
  bytes: Buffer,
  owner: SlotOwner,
  timeoutMs = maxMeasuringMs,
): Promise<DocumentSize | null> {
  const mark = bytes.indexOf(pdfMark)
  if (mark >= 0 && mark < pdfHeadBytes) return measurePdf(bytes, timeoutMs, owner)
  // Some readers accept the signature anywhere: how the file is read is ambiguous.
  const isText = mark < 0 && isUtf8(bytes) && !bytes.includes(0)
  return isText ? { pages: 0, textBytes: bytes.length } : null
}
