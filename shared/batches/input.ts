import { type Line, splitLines } from '../io/lines.ts'
import type { Blobs } from '../io/storage/blobs.ts'
import type { Resume } from './batch-journal.ts'
import type { Batch } from './batches.ts'

/** The maximum length of a line, equal to that of a direct request's body. */
export const maxLineBytes = 10 * 1024 * 1024

const chunkBytes = 1024 * 1024

/** The input's bytes are no longer in storage. */
export class InputLost extends Error {
  override name = 'InputLost'
}

/**
 * Reads the lines of a batch's input from a resume point on, in groups. It reads in ranges, so that no connection to the
 * storage stays open while the lines are consumed slowly. Rejects with InputLost.
 */
export function readLines(blobs: Blobs, batch: Batch, from: Resume): AsyncGenerator<Line[]> {
  return splitLines(chunks(blobs, batch, from.byte), maxLineBytes, from)
}

async function* chunks(blobs: Blobs, { inputKey, inputBytes }: Batch, fromByte: number): AsyncGenerator<Uint8Array> {
  for (let start = fromByte; start < inputBytes; start += chunkBytes) {
    const range = await blobs.read(inputKey, { start, end: start + chunkBytes - 1 })
    if (!range) throw new InputLost('the input file is no longer in storage')
    yield* range.stream
  }
}
