import { Buffer } from 'node:buffer'

export type Bytes = AsyncIterable<Uint8Array>

/**
 * Frees the memory of bytes that nobody uses any more, now rather than when garbage is collected: the collector runs by the size
 * of the heap, and this memory lies outside of it. Bytes that are only a part of their buffer are left to the collector. No system
 * call may be reading from or writing to them; afterwards their length is 0.
 */
export function free({ buffer, byteLength }: Uint8Array): void {
  if (byteLength === buffer.byteLength && byteLength >= minFreedBytes && buffer instanceof ArrayBuffer)
    buffer.transfer(0)
}

/** Freeing less saves nothing. */
const minFreedBytes = 1024

/**
 * The first `most` bytes of a body (all, when it has fewer), and the whole body as if nothing had been read, to be read once
 * or closed. A part of the body need only be valid until the next one is asked for.
 */
export async function peek(body: Bytes, most: number): Promise<{ head: Buffer; body: Bytes }> {
  const parts: Uint8Array[] = []
  let bytes = 0
  const source = body[Symbol.asyncIterator]()
  while (bytes < most) {
    const { done, value } = await source.next()
    if (done) break
    bytes += value.length
    parts.push(bytes < most ? Buffer.from(value) : value)
  }
  // A copy: the parts themselves are let go of as they are read.
  const head = Buffer.concat(parts, Math.min(bytes, most))
  return { head, body: resumed(parts, source) }
}

/** A body of which the first parts have been read: as if they had not, to be read once or closed. */
export function resumed(parts: Uint8Array[], source: AsyncIterator<Uint8Array>): Bytes {
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

/** Closes a body that may not have been read to its end, so that it lets go of its connection. */
export async function close(body: Bytes): Promise<void> {
  await body[Symbol.asyncIterator]().return?.()
}

/** The body as long as it has at most so many bytes; `tooLarge` is thrown at the first byte over. */
export async function* atMost(body: Bytes, mostBytes: number, tooLarge: () => Error): Bytes {
  let bytes = 0
  for await (const part of body) {
    bytes += part.length
    if (bytes > mostBytes) throw tooLarge()
    yield part
  }
}

/** A whole body of a known length in bytes, whose parts are freed as they are read. Throws a RangeError when it is longer. */
export async function wholeOf(body: Bytes, length: number): Promise<Uint8Array> {
  const whole = new Uint8Array(length)
  let at = 0
  for await (const part of body) {
    whole.set(part, at)
    at += part.length
    free(part)
  }
  return whole.subarray(0, at)
}

export async function* bytesOf(whole: Uint8Array): Bytes {
  yield whole
}
