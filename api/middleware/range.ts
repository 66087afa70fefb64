import type { ByteRange } from '../../shared/io/storage/blobs.ts'

/**
 * Parses the single range of a `Range` header (RFC 9110 §14); null = the whole file, also for multiple or malformed
 * ranges.
 */
export function parseRange(header: string, bytes: number): ByteRange | 'unsatisfiable' | null {
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/i.exec(header.trim()) ?? []
  if (from === '' && to === '') return null
  const start = from === '' ? Math.max(0, bytes - Number(to)) : Number(from)
  const end = from === '' || to === '' ? bytes - 1 : Math.min(Number(to), bytes - 1)
  if (from !== '' && to !== '' && Number(to) < start) return null
  return start >= bytes || (from === '' && Number(to) === 0) ? 'unsatisfiable' : { start, end }
}
