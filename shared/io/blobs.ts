import type { Readable } from 'node:stream'

export type ByteRange = { start: number; end: number }

/** Where uploads, references and results lie (`STORAGE_URL`). Keys are ours: letters, digits, `/ . _ -`. */
export type Blobs = {
  /**
   * Writes whole or not at all; a failing `body` leaves nothing behind. Asks for a part only when the one before has been written
   * and is not used any more. Gives the number of bytes.
   */
  write(key: string, body: AsyncIterable<Uint8Array>, contentType: string): Promise<number>
  /** The bytes of a blob, or of a part of it (both ends included); null when there is none. `bytes` is the whole length. */
  read(key: string, range?: ByteRange): Promise<{ stream: Readable; bytes: number } | null>
  /** Removes blobs; those that are not there are fine. */
  remove(keys: readonly string[]): Promise<void>
  /** An address that gives the blob to anybody until then, with Range support. `expiresAtMs` is rounded up to seconds. */
  signedUrl(blob: { key: string; contentType: string; filename?: string }, expiresAtMs: number): Promise<string>
  /** The key of an unexpired address of ours; null for any other URL. Throws a GatewayError `url_not_allowed` for one of ours that expired or is forged. */
  keyOf(url: string): Promise<string | null>
  /** Throws when the storage cannot be reached. */
  check(): Promise<void>
  close(): void
}
