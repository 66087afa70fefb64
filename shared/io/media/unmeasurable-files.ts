import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { RangeFile } from './media-file.ts'

const rememberedMs = 10 * 60_000
const maxSizes = 1_000
const maxPerSize = 16
/** The digest of a larger file takes too long. */
const maxBytes = 64 * 1024 * 1024
const bytesPerRead = 1024 * 1024

/**
 * The files whose measuring took too long or ended its process, by their digests: sent again, by whomever, they are refused
 * at once. Most files need no digest, because no such file has their size.
 */
export class UnmeasurableFiles {
  readonly #digests = new LRUCache<number, string[]>({ max: maxSizes, ttl: rememberedMs })

  /** Throws what reading the file throws. */
  async has(file: RangeFile): Promise<boolean> {
    const digests = this.#digests.get(file.bytes)
    return digests ? digests.includes(await digestOf(file)) : false
  }

  /** Throws what reading the file throws. */
  async add(file: RangeFile): Promise<void> {
    if (file.bytes > maxBytes) return
    const digest = await digestOf(file)
    const others = (this.#digests.get(file.bytes) ?? []).filter(other => other !== digest)
    this.#digests.set(file.bytes, [...others, digest].slice(-maxPerSize))
  }
}

async function digestOf({ bytes, read }: RangeFile): Promise<string> {
  const hash = createHash('sha256')
  for (let start = 0; start < bytes; start += bytesPerRead)
    hash.update(await read(start, Math.min(bytes, start + bytesPerRead)))
  return hash.digest('base64url')
}
