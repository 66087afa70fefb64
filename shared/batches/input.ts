import type { Blobs } from '../io/blobs.ts'
import { type Line, linesOf } from '../io/lines.ts'
import type { Resume } from '../jobs/batch-journal.ts'
import type { Batch } from '../jobs/batches.ts'

/** The longest line: as long as the body of a direct request may be. */
export const mostLineBytes = 10 * 1024 * 1024

const chunkBytes = 1024 * 1024

/** The input's bytes are no longer in storage. */
export class InputLost extends Error {
  override name = 'InputLost'
}

/**
 * The lines of a batch's input from a point on, in groups. It is read in chunks, so that no connection to the storage stays
 * open however slowly the lines are taken. Rejects with InputLost.
 */
export function readLines(blobs: Blobs, batch: Batch, from: Resume): AsyncGenerator<Line[]> {
  return linesOf(chunks(blobs, batch, from.byte), mostLineBytes, from)
}

async function* chunks(blobs: Blobs, { inputKey, inputBytes }: Batch, fromByte: number): AsyncGenerator<Uint8Array> {
  for (let start = fromByte; start < inputBytes; start += chunkBytes) {
    const range = await blobs.read(inputKey, { start, end: start + chunkBytes - 1 })
    if (!range) throw new InputLost('the input file is no longer in storage')
    yield* range.stream
  }
}
