import type { Readable } from 'node:stream'

export type ByteRange = { start: number; end: number }

/**
 * Storage of uploads, references and results (`STORAGE_URL`). Keys are chosen by the gateway: letters, digits, `/ . _
 * -`.
 */
export type Blobs = {
  /**
   * Writes atomically; a failing `body` leaves nothing behind. Requests a chunk only after the previous one has been
   * written and is no longer used. Returns the number of bytes.
   */
  write(key: string, body: AsyncIterable<Uint8Array>, contentType: string): Promise<number>
  /** Opens a blob, or a range of it (both ends inclusive); null if it does not exist. `bytes` is the whole length. */
  read(key: string, range?: ByteRange): Promise<{ stream: Readable; bytes: number } | null>
  /** Removes blobs; missing ones are ignored. */
  remove(keys: readonly string[]): Promise<void>
  /**
   * A URL that serves the blob to anyone until it expires, with Range support. `expiresAtMs` is rounded up to seconds.
   */
  signedUrl(blob: { key: string; contentType: string; filename?: string }, expiresAtMs: number): Promise<string>
  /**
   * Returns the key of an unexpired signed URL of this storage; null for any other URL. Throws a GatewayError
   * `url_not_allowed` if the URL belongs to this storage but has expired or is forged.
   */
  keyOf(url: string): Promise<string | null>
  /** Throws if the storage cannot be reached. */
  check(): Promise<void>
  close(): void
}
