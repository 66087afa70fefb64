import type { Bytes } from './bytes.ts'

/** A line of a file, without its line feed. `bytes` is null if it is too long; `end` is the offset of the next line. */
export type Line = { number: number; bytes: Buffer | null; end: number }

const lineFeed = 10

/**
 * Splits a body into lines while reading it, in groups: at most one chunk and one line are held. A line feed terminates
 * a line; at the end of the body it starts no new one. `from` is the position of the body in the file.
 */
export async function* splitLines(
  body: Bytes,
  maxBytes: number,
  from: { line: number; byte: number } = { line: 1, byte: 0 },
): AsyncGenerator<Line[]> {
  let number = from.line
  let end = from.byte
  let parts: Uint8Array[] = []
  let partBytes = 0
  const append = (part: Uint8Array) => {
    if (partBytes <= maxBytes) parts.push(part)
    if ((partBytes += part.length) > maxBytes) parts = []
  }
  const finish = (): Line => {
    const bytes = partBytes > maxBytes ? null : parts.length === 1 ? Buffer.from(parts[0]!) : Buffer.concat(parts)
    const line = { number: number++, bytes, end }
    parts = []
    partBytes = 0
    return line
  }
  for await (const part of body) {
    const lines: Line[] = []
    let at = 0
    for (let next = part.indexOf(lineFeed); next >= 0; next = part.indexOf(lineFeed, at)) {
      append(part.subarray(at, next))
      end += next + 1 - at
      at = next + 1
      lines.push(finish())
    }
    if (at < part.length) {
      // A copy: the chunk is released as soon as its lines are done.
      append(Buffer.from(part.subarray(at)))
      end += part.length - at
    }
    if (lines.length > 0) yield lines
  }
  if (partBytes > 0) yield [finish()]
}
