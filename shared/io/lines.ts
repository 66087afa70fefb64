import type { Bytes } from './bytes.ts'

/** A line of a file, without its end. `bytes` is null when it is longer than allowed; `end` is where the next one begins. */
export type Line = { number: number; bytes: Buffer | null; end: number }

const lineFeed = 10

/**
 * The lines of a body as it is read, in groups as they come: never more of it is held than one part and one line. A line feed
 * ends a line; at the end of the body it begins none. `from` is where in the file the body begins.
 */
export async function* linesOf(
  body: Bytes,
  mostBytes: number,
  from: { line: number; byte: number } = { line: 1, byte: 0 },
): AsyncGenerator<Line[]> {
  let number = from.line
  let end = from.byte
  let begun: Uint8Array[] = []
  let begunBytes = 0
  const take = (part: Uint8Array) => {
    if (begunBytes <= mostBytes) begun.push(part)
    if ((begunBytes += part.length) > mostBytes) begun = []
  }
  const finish = (): Line => {
    const bytes = begunBytes > mostBytes ? null : begun.length === 1 ? Buffer.from(begun[0]!) : Buffer.concat(begun)
    const line = { number: number++, bytes, end }
    begun = []
    begunBytes = 0
    return line
  }
  for await (const part of body) {
    const lines: Line[] = []
    let at = 0
    for (let next = part.indexOf(lineFeed); next >= 0; next = part.indexOf(lineFeed, at)) {
      take(part.subarray(at, next))
      end += next + 1 - at
      at = next + 1
      lines.push(finish())
    }
    if (at < part.length) {
      // A copy: the part is let go of as soon as its lines are done.
      take(Buffer.from(part.subarray(at)))
      end += part.length - at
    }
    if (lines.length > 0) yield lines
  }
  if (begunBytes > 0) yield [finish()]
}
