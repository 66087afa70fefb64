import { GatewayError } from '../base/errors.ts'
import type { HeldBytes } from '../io/byte-budget.ts'
import { type Fetched, fetchPublic } from '../io/safe-url.ts'
import type { Platform } from '../platform.ts'
import type { Media } from '../providers/contract.ts'

export const noMedia: ReadonlyMap<string, Media> = new Map()
const maxFiles = 16
const mib = 1024 * 1024
const maxImageBytes = 20 * mib
/** Maximum size of all files of a request together. */
const maxBytes = 32 * mib
const timeoutMs = 15_000
/** A file takes this many times its bytes: as it is fetched, in base64, and as a part of the request to the provider. */
const copies = 4

/** A file behind a URL, and the field of the request that names it. */
type RemoteFile = { url: string; param: string }

/**
 * The files behind the URLs of one run. A short request can name files of many megabytes, so what is fetched counts in a
 * budget of memory until it is released.
 */
export class RemoteFiles {
  readonly #services: Pick<Platform, 'urlPolicy' | 'budgets'>
  readonly #organisationId: string
  /** By URL: several calls of a run send the same files. */
  readonly #fetched = new Map<string, Fetched>()
  #held: HeldBytes | null = null
  #bytes = 0
  #repeatedBytes = 0

  constructor(services: Pick<Platform, 'urlPolicy' | 'budgets'>, organisationId: string) {
    this.#services = services
    this.#organisationId = organisationId
  }

  /**
   * Fetches documents, with their media types without parameters. Throws 400 `url_not_allowed` and `invalid_request`, 413
   * for more than 32 MiB in all, 429 and 503 for an exhausted budget.
   */
  async documents(remote: readonly RemoteFile[]): Promise<{ contentType: string; bytes: Buffer }[]> {
    if (remote.length > maxFiles) {
      const message = `At most ${maxFiles} documents can be sent by URL; send the others inline.`
      throw new GatewayError('invalid_request', message, { param: remote[maxFiles]!.param })
    }
    const files = await this.#fetchAll(remote, maxBytes)
    return files.map(({ contentType, bytes }) => {
      const [type] = contentType.split(';')
      return { contentType: type!.trim() || 'application/octet-stream', bytes }
    })
  }

  /** Fetches the media at the URLs whose bytes an adapter needs. Throws as `documents` does. */
  async media(named: readonly string[]): Promise<ReadonlyMap<string, Media>> {
    const urls = [...new Set(named)]
    if (urls.length > maxFiles) {
      const message = `At most ${maxFiles} images by URL can be sent to this model; send the others as data: URIs.`
      throw new GatewayError('invalid_request', message, { param: 'messages' })
    }
    const remote = urls.map(url => ({ url, param: 'messages' }))
    const files = await this.#fetchAll(remote, maxImageBytes)
    const media = new Map(urls.map((url, i) => [url, files[i]!]))
    this.#holdRepeated(named, media)
    return media
  }

  /** A file that is named several times is fetched once, and sent as often: for all calls of the run the same memory. */
  #holdRepeated(named: readonly string[], media: ReadonlyMap<string, Fetched>): void {
    const namedBytes = named.reduce((sum, url) => sum + media.get(url)!.bytes.length, 0)
    const fetchedBytes = [...media.values()].reduce((sum, { bytes }) => sum + bytes.length, 0)
    const repeatedBytes = namedBytes - fetchedBytes
    if (repeatedBytes <= this.#repeatedBytes) return
    this.#hold(repeatedBytes - this.#repeatedBytes, 'messages')
    this.#repeatedBytes = repeatedBytes
  }

  /** Releases the memory of the files, which are not used any more. */
  release(): void {
    this.#fetched.clear()
    this.#held?.release()
  }

  /** Fetches files at the same time; the first failure ends all. */
  async #fetchAll(remote: readonly RemoteFile[], maxFileBytes: number): Promise<Fetched[]> {
    const failed = new AbortController()
    try {
      return await Promise.all(remote.map(file => this.#fetch(file, maxFileBytes, failed.signal)))
    } catch (error) {
      failed.abort(error)
      throw error
    }
  }

  async #fetch({ url, param }: RemoteFile, maxFileBytes: number, signal: AbortSignal): Promise<Fetched> {
    const known = this.#fetched.get(url)
    if (known) return known
    const rules = { ...this.#services.urlPolicy, maxBytes: maxFileBytes, timeoutMs, param, signal }
    const file = await fetchPublic(url, rules, bytes => this.#hold(bytes, param))
    this.#fetched.set(url, file)
    return file
  }

  #hold(bytes: number, param: string): void {
    this.#held ??= this.#services.budgets.remoteFiles.open(this.#organisationId)
    this.#held.grow(bytes * copies)
    this.#bytes += bytes
    if (this.#bytes <= maxBytes) return
    const message = `The files behind the URLs of a request may have ${maxBytes / mib} MiB together: send fewer, or smaller ones.`
    throw new GatewayError('request_too_large', message, { param })
  }
}
