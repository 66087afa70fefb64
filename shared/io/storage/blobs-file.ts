import { createHmac, randomUUID } from 'node:crypto'
import { access, constants, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { GatewayError } from '../../base/errors.ts'
import { isEqual } from '../../base/is-equal.ts'
import type { Clock } from '../../base/time.ts'
import { writeFile } from '../write-file.ts'
import type { Blobs, ByteRange } from './blobs.ts'

const validKey = /^(?!.*(?:^|\/)\.)[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/
/** Beside the blobs, outside the key space. Files remain here only if a process dies during a write. */
const unfinishedFolder = '.unfinished'
const maxUnfinishedAgeMs = 3_600_000
const bufferBytes = 64 * 1024

type FileBlobsOptions = {
  /** `file:<folder>`, relative to the working folder unless it starts with a slash. */
  storageUrl: string
  publicUrl: string
  /** The secret that signs URLs. */
  secret: () => Promise<string>
  /** Secrets whose signatures are still valid. */
  olderSecrets: readonly string[]
  clock: Clock
}

/**
 * Stores blobs as files of a folder. Their URLs are the gateway's own, `<PUBLIC_URL>/files/<key>?…`, signed with
 * HMAC-SHA256.
 */
export class FileBlobs implements Blobs {
  readonly #folder: string
  readonly #base: string
  readonly #secret: () => Promise<string>
  readonly #olderSecrets: readonly string[]
  readonly #clock: Clock

  constructor({ storageUrl, publicUrl, secret, olderSecrets, clock }: FileBlobsOptions) {
    this.#folder = folderOf(storageUrl)
    this.#base = `${publicUrl}/files/`
    this.#secret = secret
    this.#olderSecrets = olderSecrets
    this.#clock = clock
    void this.#dropUnfinished().catch(() => {}) // The folder does not exist yet.
  }

  async write(key: string, body: AsyncIterable<Uint8Array>): Promise<number> {
    const path = this.#pathOf(key)
    const unfinished = join(this.#folder, unfinishedFolder, randomUUID())
    await mkdir(dirname(unfinished), { recursive: true })
    try {
      const bytes = await writeFile(unfinished, body, { sync: true })
      await mkdir(dirname(path), { recursive: true })
      await rename(unfinished, path)
      return bytes
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  async read(key: string, range?: ByteRange): Promise<{ stream: Readable; bytes: number } | null> {
    const file = await open(this.#pathOf(key)).catch(unlessMissing)
    if (!file) return null
    const { size } = await file.stat()
    const stream = file.createReadStream({ ...range, highWaterMark: bufferBytes })
    return { stream, bytes: size }
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) await rm(this.#pathOf(key), { force: true })
  }

  async signedUrl(
    { key, contentType, filename = '' }: { key: string; contentType: string; filename?: string },
    expiresAtMs: number,
  ): Promise<string> {
    const expires = String(Math.ceil(expiresAtMs / 1000))
    const signature = sign(await this.#secret(), [key, contentType, filename, expires])
    const query = new URLSearchParams({ type: contentType, name: filename, expires, signature })
    return `${this.#base}${this.#assertKey(key)}?${query}`
  }

  async keyOf(url: string): Promise<string | null> {
    if (!url.startsWith(this.#base)) return null
    const { pathname, searchParams } = new URL(url)
    const key = pathname.slice(new URL(this.#base).pathname.length)
    if (await this.#isGood(key, searchParams)) return key
    throw new GatewayError('url_not_allowed', 'The URL of a stored file has expired or was changed.')
  }

  async check(): Promise<void> {
    await mkdir(this.#folder, { recursive: true })
    await access(this.#folder, constants.R_OK | constants.W_OK | constants.X_OK)
  }

  close(): void {}

  async #isGood(key: string, query: URLSearchParams): Promise<boolean> {
    const [type = '', name = '', expires = '', signature = ''] = ['type', 'name', 'expires', 'signature'].map(
      field => query.get(field) ?? '',
    )
    const secrets = [await this.#secret(), ...this.#olderSecrets]
    const isSigned = secrets.some(secret => isEqual(signature, sign(secret, [key, type, name, expires])))
    return isSigned && Number(expires) * 1000 > this.#clock.now()
  }

  #assertKey(key: string): string {
    if (!validKey.test(key)) throw new Error('not a key of storage')
    return key
  }

  #pathOf(key: string): string {
    return join(this.#folder, this.#assertKey(key))
  }

  async #dropUnfinished(): Promise<void> {
    const folder = join(this.#folder, unfinishedFolder)
    for (const name of await readdir(folder)) {
      const path = join(folder, name)
      const { mtimeMs } = await stat(path)
      if (mtimeMs < this.#clock.now() - maxUnfinishedAgeMs) await rm(path, { force: true })
    }
  }
}

function sign(secret: string, parts: readonly string[]): string {
  return createHmac('sha256', secret)
    .update(JSON.stringify(['file', ...parts]))
    .digest('base64url')
}

function folderOf(storageUrl: string): string {
  if (storageUrl.startsWith('file://')) return fileURLToPath(storageUrl)
  return decodeURIComponent(storageUrl.slice('file:'.length))
}

function unlessMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
  throw error
}
