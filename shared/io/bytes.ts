import { Buffer } from 'node:buffer'

export type Bytes = AsyncIterable<Uint8Array>

/**
 * Frees the memory of unused bytes immediately instead of at the next garbage collection: the collector is triggered by
 * heap size, and this memory is off-heap. Views of a part of their buffer are left to the collector. No system call may
 * be reading from or writing to the bytes; afterwards their length is 0.
 */
export function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength && byteLength >= minFreedBytes && buffer instanceof ArrayBuffer)
    buffer.transfer(0)
}

/** Smaller buffers are not worth freeing. */
const minFreedBytes = 1024

/**
 * Returns the first `max` bytes of a body (all, if it has fewer), and the whole body as if unread, to be read once or
 * closed. A chunk of the body need only stay valid until the next one is requested.
 */
export async function peek(body: Bytes, max: number): Promise<{ head: Buffer; body: Bytes }> {
  const parts: Uint8Array[] = []
  let bytes = 0
  const source = body[Symbol.asyncIterator]()
  while (bytes < max) {
    const { done, value } = await source.next()
    if (done) break
    bytes += value.length
    parts.push(bytes < max ? Buffer.from(value) : value)
  }
  // A copy: the parts are released as they are read.
  const head = Buffer.concat(parts, Math.min(bytes, max))
  return { head, body: prependParts(parts, source) }
}

/** Restores a body whose first parts have been read, to be read once or closed. */
export function prependParts(parts: Uint8Array[], source: AsyncIterator<Uint8Array>): Bytes {
  const iterator: AsyncIterator<Uint8Array> = {
    async next() {
      const value = parts.shift()
      return value ? { done: false, value } : source.next()
    },
    async return() {
      await source.return?.()
      return { done: true, value: undefined }
    },
  }
  return { [Symbol.asyncIterator]: () => iterator }
}

/** Closes a body that may be partly unread, so that it releases its connection. */
export async function closeBody(body: Bytes): Promise<void> {
  await body[Symbol.asyncIterator]().return?.()
}

/** Passes the body through; throws `tooLarge` at the first byte over `maxBytes`. */
export async function* limitBytes(body: Bytes, maxBytes: number, tooLarge: () => Error): Bytes {
  let bytes = 0
  for await (const part of body) {
    bytes += part.length
    if (bytes > maxBytes) throw tooLarge()
    yield part
  }
}

/**
 * Reads a whole body of known length in bytes, freeing its parts as they are read. Throws a RangeError if it is longer.
 */
export async function readWhole(body: Bytes, length: number): Promise<Uint8Array> {
  const whole = new Uint8Array(length)
  let at = 0
  for await (const part of body) {
    whole.set(part, at)
    at += part.length
    freeBytes(part)
  }
  return whole.subarray(0, at)
}

export async function* bytesOf(whole: Uint8Array): Bytes {
  yield whole
}
