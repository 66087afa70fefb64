import type { Transform } from 'node:stream'
import {
  createBrotliDecompress,
  createInflate,
  createInflateRaw,
  createUnzip,
  createZstdDecompress,
  type Inflate,
  type InflateRaw,
} from 'node:zlib'

type Output = { onData(chunk: Buffer): void; onEnd(): void; onError(error: Error): void; onDrain(): void }

/** Answers are small or streamed, and the network to providers is fast: decompression would only cost time. */
export const uncompressed = { 'accept-encoding': 'identity' }

/** A body that is not what its `content-encoding` says. */
export class CodingError extends Error {
  override name = 'CodingError'
}

const codings = new Map<string, (first: Buffer) => Transform>([
  ['gzip', () => createUnzip()],
  ['x-gzip', () => createUnzip()],
  ['deflate', openInflate],
  ['br', () => createBrotliDecompress()],
  ['zstd', () => createZstdDecompress()],
])

/** Compressions that cannot be decoded here. */
const undecodable: ReadonlySet<string> = new Set(['compress', 'x-compress', 'dcb', 'dcz', 'bzip2', 'xz', 'lzma'])

/**
 * The compressions that a `content-encoding` names. Servers also put there what encodes nothing, such as `aws-chunked`
 * (https://github.com/aws/aws-sdk-java-v2/issues/5769), `utf-8`, `binary` or an empty text: as browsers and curl do, the
 * bytes are then taken as they are.
 */
export function compressionsIn(header: string | string[] | undefined): string[] {
  if (header === undefined) return []
  const names = String(header)
    .split(',')
    .map(name => name.trim().toLowerCase())
  return names.filter(name => codings.has(name) || undecodable.has(name))
}

/** A decoder of `deflate` by its first bytes: some senders leave out the header of zlib. */
export function openInflate(first: Buffer): Inflate | InflateRaw {
  return (first[0]! & 0x0f) === 8 ? createInflate() : createInflateRaw()
}

/**
 * Decodes a compressed body piece by piece, as it arrives: the recipient of the pieces bounds their sum. The
 * gateway asks for no compression, but proxies before a provider may compress all the same.
 */
export class ContentDecoder {
  readonly #create: (first: Buffer) => Transform
  readonly #output: Output
  #stream: Transform | null = null

  private constructor(create: (first: Buffer) => Transform, output: Output) {
    this.#create = create
    this.#output = output
  }

  /** The decoder of a `content-encoding`; null for none, for one that is unknown here, and for several at once. */
  static for(header: string | string[] | undefined, output: Output): ContentDecoder | null {
    const [name = '', ...others] = compressionsIn(header)
    const create = others.length === 0 && codings.get(name)
    return create ? new ContentDecoder(create, output) : null
  }

  /** Whether more may be written at once; otherwise `onDrain` follows. */
  write(chunk: Buffer): boolean {
    if (chunk.length === 0) return true
    this.#stream ??= this.#open(chunk)
    return this.#stream.write(chunk)
  }

  end(): void {
    if (this.#stream) this.#stream.end()
    else this.#output.onEnd()
  }

  pause(): void {
    this.#stream?.pause()
  }

  resume(): void {
    this.#stream?.resume()
  }

  destroy(): void {
    this.#stream?.destroy()
  }

  #open(first: Buffer): Transform {
    const { onData, onEnd, onError, onDrain } = this.#output
    return this.#create(first)
      .on('data', onData)
      .once('end', onEnd)
      .on('error', cause => onError(new CodingError('the body is not what its content-encoding says', { cause })))
      .on('drain', onDrain)
  }
}
