import type { IncomingMessage } from 'node:http'
import { type Readable, Transform, type TransformCallback } from 'node:stream'
import {
  type BrotliDecompress,
  constants,
  createBrotliDecompress,
  createGunzip,
  createZstdDecompress,
  type Gunzip,
  type Inflate,
  type InflateRaw,
  type ZstdDecompress,
} from 'node:zlib'
import { GatewayError } from '../../shared/base/errors.ts'
import { type HeldBytes, pipeJoined } from '../../shared/io/byte-budget.ts'
import { openInflate } from '../../shared/io/content-coding.ts'
import { HttpRequest } from '../http-server.ts'

// Compressed request bodies. Clients send them without asking: Codex compresses with zstd where it signs in as OpenAI's.

type Engine = Gunzip | Inflate | InflateRaw | BrotliDecompress | ZstdDecompress
type Coding = {
  open(first: Buffer): Engine
  /** The memory of a decoder, apart from what it has decoded. */
  heldBytes: number
  /** Whether `rest`, behind a complete stream, begins another one. The decoder of gzip itself reads all its members. */
  continues?(rest: Buffer): boolean
}

const kib = 1024

/** HTTP allows windows of 8 MiB (RFC 9659, section 3); zstd itself would allocate up to 128 MiB for one. */
const zstdParams = { [constants.ZSTD_d_windowLogMax]: 23 }
const zstdMagic = 0xfd2fb528
const zstdSkippableMagic = 0x184d2a5

const gzip: Coding = { open: () => createGunzip(), heldBytes: 64 * kib }
const codings = new Map<string, Coding>([
  ['gzip', gzip],
  ['deflate', { open: openInflate, heldBytes: 64 * kib }],
  ['br', { open: () => createBrotliDecompress(), heldBytes: 256 * kib }],
  ['zstd', { open: () => createZstdDecompress({ params: zstdParams }), heldBytes: 256 * kib, continues: isZstdFrame }],
  ['x-gzip', gzip],
])

/** The codings of request bodies, as a response's `accept-encoding` lists them (RFC 7694). */
const acceptedCodings = 'gzip, deflate, br, zstd'

/** Names of no coding that clients put there all the same. */
const withoutCoding: ReadonlySet<string> = new Set(['', 'identity', 'utf-8', 'utf8', 'binary', 'aws-chunked'])
/** As curl's. Each coding is a decoder, and one of the others can turn a small body into work for it. */
const maxCodings = 5
/** Each opens a decoder. A sender of larger frames, or one that flushes them one by one, has few of them. */
const maxZstdFrames = 1_000

/** How the body of a request is decoded. */
type DecodeRules = {
  /** Bounds what each coding decodes to. */
  maxBytes: number
  /** The budget that counts the decoders until the body is read. */
  held: HeldBytes
  refuse(error: GatewayError): void
  tooLargeError(): GatewayError
  tinyPiecesError(): GatewayError
}

/** A decoded body: `stop` ends the decoding. */
export type DecodedBody = { source: Readable; stop(): void }

/**
 * Decodes the body of a compressed request as it arrives, by each of its codings: the last of them was applied last. Calls
 * `refuse` once: with 413 as soon as it decodes to more than allowed, with 400 for damaged, truncated or trailing bytes.
 * Throws what the budget throws.
 */
export function decodeBody(request: IncomingMessage, rules: DecodeRules): DecodedBody {
  const stages = codingsOf(request.headers['content-encoding']!)
    .reverse()
    .map(coding => new DecodingStage(coding, rules.maxBytes))
  const heldBytes = stages.reduce((sum, { heldBytes }) => sum + heldBytes, 0)
  const last = stages.at(-1)!
  rules.held.take(heldBytes)
  let isStopped = false
  const stop = () => {
    if (isStopped) return
    isStopped = true
    unpipe()
    for (const stage of stages) stage.destroy()
    rules.held.hold(-heldBytes)
  }
  const refuse = (error: GatewayError) => {
    if (isStopped) return
    stop()
    rules.refuse(error)
  }
  for (const [index, stage] of stages.entries()) {
    stage.on('error', cause => refuse(cause === tooMuch ? rules.tooLargeError() : damagedError(cause)))
    if (stage !== last) stage.pipe(stages[index + 1]!)
  }
  const unpipe = pipeJoined(request, stages[0]!, HttpRequest.countPieces(request), () =>
    refuse(rules.tinyPiecesError()),
  )
  last.once('end', stop)
  return { source: last, stop }
}

/** The codings that a header names, in the order of their application. */
export function codingsOf(header: string): Coding[] {
  const names = header.split(',').map(name => name.trim().toLowerCase())
  const applied = names.filter(name => !withoutCoding.has(name))
  if (applied.length > maxCodings) {
    const message = `\`Content-Encoding\` names more than ${maxCodings} codings.`
    throw new GatewayError('invalid_request', message, { param: 'content-encoding' })
  }
  return applied.map(name => codings.get(name) ?? refuseCoding())
}

function refuseCoding(): never {
  const message = `Send the body without a \`Content-Encoding\`, or with one of: ${acceptedCodings}.`
  const headers = { 'accept-encoding': acceptedCodings }
  throw new GatewayError('unsupported_media_type', message, { headers })
}

const tooMuch = new Error('decodes to too many bytes')

function damagedError(cause: unknown): GatewayError {
  const message =
    'The body is not what its `Content-Encoding` says: it is damaged, cut off, or has bytes behind its end.'
  return new GatewayError('invalid_request', message, { param: 'content-encoding', cause })
}

function isZstdFrame(rest: Buffer): boolean {
  if (rest.length < 4) return false
  const magic = rest.readUInt32LE()
  return magic === zstdMagic || magic >>> 4 === zstdSkippableMagic
}

/**
 * Decodes one coding. Its errors are those of the data, also for bytes behind a complete stream, which zlib ignores. Work
 * is done by libuv's threads, at most 64 KiB of the body or 16 KiB of what it decodes to at a time.
 */
class DecodingStage extends Transform {
  readonly #coding: Coding
  readonly #maxBytes: number
  #engine: Engine | null = null
  /** What the engine was given. */
  #fedBytes = 0
  #decodedBytes = 0
  #streams = 0

  constructor(coding: Coding, maxBytes: number) {
    super()
    this.#coding = coding
    this.#maxBytes = maxBytes
  }

  get heldBytes(): number {
    return this.#coding.heldBytes
  }

  override _read(size: number): void {
    this.#engine?.resume()
    super._read(size)
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    const engine = (this.#engine ??= this.#open(chunk))
    this.#fedBytes += chunk.length
    engine.write(chunk, error => {
      const restBytes = this.#fedBytes - engine.bytesWritten
      if (error || restBytes === 0) return done(error)
      this.#continue(engine, chunk.subarray(chunk.length - restBytes), done)
    })
  }

  override _flush(done: TransformCallback): void {
    // An empty body has nothing to decode.
    if (this.#engine) this.#engine.once('end', done).end()
    else done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#engine?.destroy()
    done(error)
  }

  #open(first: Buffer): Engine {
    this.#fedBytes = 0
    this.#streams++
    return this.#coding
      .open(first)
      .on('data', (piece: Buffer) => this.#pass(piece))
      .on('error', error => this.destroy(error))
  }

  #pass(piece: Buffer): void {
    this.#decodedBytes += piece.length
    if (this.#decodedBytes > this.#maxBytes) this.destroy(tooMuch)
    else if (!this.push(piece)) this.#engine!.pause()
  }

  /** Goes on with what follows a complete stream, once all of that stream was passed. */
  #continue(engine: Engine, rest: Buffer, done: TransformCallback): void {
    if (!this.#coding.continues?.(rest) || this.#streams === maxZstdFrames) {
      done(new Error('bytes follow the end of the compressed data'))
      return
    }
    const next = () => {
      this.#engine = null
      this._transform(rest, '', done)
    }
    if (engine.readableEnded) next()
    else engine.once('end', next)
  }
}
