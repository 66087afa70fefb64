import { randomUUID } from 'node:crypto'
import { createReadStream, type ReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import * as s3 from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { Agent, request } from 'undici'
import { GatewayError } from '../../base/errors.ts'
import { loadOnce } from '../../base/load-once.ts'
import { nodeAgentOptions, type Proxies, proxyFor } from '../../base/proxies.ts'
import { type Clock, dayMs } from '../../base/time.ts'
import { inlineDisposition } from '../disposition.ts'
import { StorageError } from '../outage.ts'
import { tunnelConnector } from '../tunnel.ts'
import { writeFile } from '../write-file.ts'
import type { Blobs, ByteRange } from './blobs.ts'

const defaultRegion = 'us-east-1'
/** The maximum lifetime of a presigned URL. */
const maxLifetimeMs = 7 * dayMs
const putLifeS = 300
const bufferBytes = 64 * 1024
const removeBatchSize = 1_000
const connectTimeoutMs = 3_000
/** Maximum silence of the server. It may assemble a large object for seconds after its last byte. */
const defaultSilenceMs = 8_000
const looksPerSilence = 4
/** Timeout of every request except the transfer of bytes, including the SDK's retries. */
const requestTimeoutMs = 8_000

/**
 * Stores blobs in a bucket of S3 or a compatible server. A body is first written to a temporary file: its length is
 * then known, so it is sent in one request, all or nothing, and a crash leaves no partial object in the bucket.
 */
export class S3Blobs implements Blobs {
  readonly #client: s3.S3Client
  /** Has a limit for silence, which would end the download of a reader that pauses. */
  readonly #writer: s3.S3Client
  readonly #silenceMs: number
  readonly #bucket: string
  readonly #prefix: string
  readonly #clock: Clock
  readonly #proxies: Proxies
  /** The address of the folder, without the query of a signed URL. */
  readonly #base = loadOnce(async () => {
    const address = await this.signedUrl({ key: 'x', contentType: 'text/plain' }, 0)
    return address.slice(0, address.indexOf('?') - 1)
  })

  /**
   * `s3://[key:secret@]bucket[/prefix]?endpoint=…&region=…&path_style=true`; without credentials, the SDK's default
   * chain applies. With `signsOnly` nothing is contacted: for a directory bucket, the SDK would open a session at its address before
   * it signs a URL.
   */
  constructor(
    storageUrl: string,
    clock: Clock,
    proxies: Proxies,
    { signsOnly = false, silenceMs = defaultSilenceMs } = {},
  ) {
    const { hostname, pathname, username, password, searchParams } = new URL(storageUrl)
    const folder = pathname.replace(/^\/+|\/+$/g, '')
    this.#bucket = hostname
    this.#prefix = folder && `${folder}/`
    this.#clock = clock
    this.#proxies = proxies
    const endpoint = searchParams.get('endpoint')
    this.#silenceMs = silenceMs
    const clientWith = (socketTimeout: number) =>
      new s3.S3Client({
        region: searchParams.get('region') ?? defaultRegion,
        forcePathStyle: searchParams.get('path_style') === 'true',
        requestHandler: {
          connectionTimeout: connectTimeoutMs,
          socketTimeout,
          httpAgent: nodeAgentOptions(proxies),
          httpsAgent: nodeAgentOptions(proxies),
        },
        ...(signsOnly && { disableS3ExpressSessionAuth: true }),
        requestChecksumCalculation: 'WHEN_REQUIRED',
        responseChecksumValidation: 'WHEN_REQUIRED',
        // The default logger repeats thrown errors on standard error.
        logger: { debug() {}, info() {}, warn() {}, error() {} },
        ...(endpoint && { endpoint }),
        ...(username && {
          credentials: {
            accessKeyId: decodeURIComponent(username),
            secretAccessKey: decodeURIComponent(password),
          },
        }),
      })
    this.#client = clientWith(0)
    this.#writer = clientWith(silenceMs)
  }

  async write(key: string, body: AsyncIterable<Uint8Array>, contentType: string): Promise<number> {
    const path = join(tmpdir(), `headgate-${randomUUID()}`)
    let file: ReadStream | null = null
    try {
      const bytes = await writeFile(path, body, { mode: 0o600 })
      file = createReadStream(path, { highWaterMark: bufferBytes })
      const put = new s3.PutObjectCommand({
        ...this.#object(key),
        Body: file,
        ContentLength: bytes,
        ContentType: contentType,
      })
      await this.#writer.send(put).catch(fail)
      return bytes
    } finally {
      // The SDK leaves it open when it fails: a descriptor, and the room on the disk.
      file?.destroy()
      await rm(path, { force: true })
    }
  }

  async read(key: string, range?: ByteRange): Promise<{ stream: Readable; bytes: number } | null> {
    try {
      const get = new s3.GetObjectCommand({
        ...this.#object(key),
        ...(range && { Range: `bytes=${range.start}-${range.end}` }),
      })
      const answer = await this.#send(abortSignal => this.#client.send(get, { abortSignal }))
      const whole = Number(answer.ContentRange?.split('/')[1] ?? answer.ContentLength)
      const stream = answer.Body as IncomingMessage
      endWhenSilent(stream, this.#silenceMs)
      return { stream, bytes: whole }
    } catch (error) {
      if (error instanceof StorageError && error.cause instanceof s3.NoSuchKey) return null
      throw error
    }
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (let from = 0; from < keys.length; from += removeBatchSize) {
      const Objects = keys.slice(from, from + removeBatchSize).map(key => ({ Key: this.#prefix + key }))
      const remove = new s3.DeleteObjectsCommand({ Bucket: this.#bucket, Delete: { Objects, Quiet: true } })
      const { Errors = [] } = await this.#send(abortSignal => this.#client.send(remove, { abortSignal }))
      if (Errors[0]) throw new StorageError(`storage did not remove ${Errors.length} blobs: ${Errors[0].Code}`)
    }
  }

  async signedUrl(
    { key, contentType, filename }: { key: string; contentType: string; filename?: string },
    expiresAtMs: number,
  ): Promise<string> {
    const nowMs = this.#clock.now()
    const lifeMs = Math.min(Math.max(expiresAtMs - nowMs, 1_000), maxLifetimeMs)
    const command = new s3.GetObjectCommand({
      ...this.#object(key),
      ResponseContentType: contentType,
      ...(filename && { ResponseContentDisposition: inlineDisposition(filename) }),
    })
    const signing = { expiresIn: Math.ceil(lifeMs / 1000), signingDate: new Date(nowMs) }
    return getSignedUrl(this.#client, command, signing).catch(fail)
  }

  /** A URL that stores one object by PUT, for a short time. */
  async signedPutUrl(key: string): Promise<string> {
    const command = new s3.PutObjectCommand(this.#object(key))
    return getSignedUrl(this.#client, command, { expiresIn: putLifeS, signingDate: new Date(this.#clock.now()) })
  }

  async keyOf(url: string): Promise<string | null> {
    const base = await this.#base()
    // Dots in a path would lead out of the folder, where others may have objects.
    const parsed = URL.parse(url)
    if (!parsed?.href.startsWith(base)) return null
    const { pathname, searchParams } = parsed
    // The path is decoded only once its signature is known to be valid: its escapes are, too, then.
    if (searchParams.has('X-Amz-Signature') && (await this.#isReadable(url)))
      return decodeURIComponent(pathname.slice(new URL(base).pathname.length))
    throw new GatewayError('url_not_allowed', 'The URL of a stored file has expired or was changed.')
  }

  async check(): Promise<void> {
    const head = new s3.HeadBucketCommand({ Bucket: this.#bucket })
    await this.#send(abortSignal => this.#client.send(head, { abortSignal }))
  }

  close(): void {
    for (const client of [this.#client, this.#writer]) client.destroy()
  }

  /** Only S3 can verify its own presigned URLs: requests one byte. */
  async #isReadable(url: string): Promise<boolean> {
    const signal = AbortSignal.timeout(requestTimeoutMs)
    const proxy = proxyFor(new URL(url), this.#proxies)
    const dispatcher =
      proxy === null ? undefined : new Agent({ connect: tunnelConnector({ proxy, timeoutMs: connectTimeoutMs }) })
    try {
      const { statusCode, body } = await request(url, { headers: { range: 'bytes=0-0' }, signal, dispatcher }).catch(
        fail,
      )
      await body.dump()
      if (statusCode >= 500) throw new StorageError(`storage answered with status ${statusCode}`)
      return statusCode === 200 || statusCode === 206
    } finally {
      await dispatcher?.close()
    }
  }

  /** Sends a command and waits for the response head. Throws a StorageError with the storage's error. */
  async #send<T>(send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    // A separate controller: the signal must not abort the transfer of the body that follows.
    const controller = new AbortController()
    const timer = setTimeout(() => controller.abort(), requestTimeoutMs)
    try {
      return await send(controller.signal)
    } catch (error) {
      return fail(error)
    } finally {
      clearTimeout(timer)
    }
  }

  #object(key: string) {
    return { Bucket: this.#bucket, Key: this.#prefix + key }
  }
}

/** Ends an answer whose server sends nothing for too long while more of it is wanted. Its reader may pause for as long as it likes. */
function endWhenSilent(stream: IncomingMessage, silenceMs: number): void {
  const { socket } = stream
  let bytes = socket.bytesRead
  let silentLooks = 0
  const timer = setInterval(() => {
    const isWanted = !stream.complete && stream.readableLength < stream.readableHighWaterMark
    silentLooks = isWanted && socket.bytesRead === bytes ? silentLooks + 1 : 0
    bytes = socket.bytesRead
    if (silentLooks === looksPerSilence)
      stream.destroy(new StorageError(`storage sent nothing for ${silenceMs / 1_000} s`))
  }, silenceMs / looksPerSilence)
  timer.unref()
  stream.once('close', () => clearInterval(timer))
}

/** Error names, codes and statuses differ between servers: all of them count as an outage. */
function fail(cause: unknown): never {
  throw new StorageError(`storage failed: ${cause instanceof Error ? cause.message : cause}`, { cause })
}
