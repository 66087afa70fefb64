import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { MediaLength } from './media-file.ts'
import { maxPieceBytes } from './shared-piece.ts'

/** Reads a part of the file that is measured, and waits for it; null if it cannot be read. `end` is exclusive. */
export type ReadSync = (start: number, end: number) => Uint8Array | null

/** What is used of WebAssembly, whose types are those of browsers. */
type Imports = Record<string, Record<string, (...values: number[]) => number>>
type Exports = { memory: { buffer: ArrayBuffer }; _initialize(): void; measure(bytes: number): number }
type Module = { readonly module: unique symbol }
const { WebAssembly: wasm } = globalThis as unknown as {
  WebAssembly: {
    compile(bytes: Uint8Array): Promise<Module>
    Instance: new (module: Module, imports: Imports) => Instance
  }
}
type Instance = { exports: Exports }

/** The module that `ffmpeg/build.sh` makes. */
export function loadMeasure(): Promise<Module> {
  measure ??= readFile(fileURLToPath(new URL('./ffmpeg/measure.wasm', import.meta.url))).then(wasm.compile)
  return measure
}
let measure: Promise<Module> | undefined

/** Measures one audio or video file: each has an instance of the module with a memory of its own. */
export class MediaMeasure {
  readonly #exports: Exports
  #file = new Pieces(0, () => null)

  constructor(module: Module) {
    const memory = () => this.#exports.memory.buffer
    const read = (start = 0, at = 0, size = 0): number => {
      const piece = this.#file.read(start, size)
      if (piece === null) return -1
      new Uint8Array(memory()).set(piece, at)
      return piece.length
    }
    const imports = { file: { read }, wasi_snapshot_preview1: noSystem(memory) }
    this.#exports = new wasm.Instance(module, imports).exports
    this.#exports._initialize()
  }

  /**
   * The length by the file's packets; null if it has none or cannot be parsed. A malicious file can keep the processor
   * busy for minutes, and throws where it breaks the parser. Called once.
   */
  length(bytes: number, read: ReadSync): MediaLength | null {
    this.#file = new Pieces(bytes, read)
    const at = this.#exports.measure(bytes)
    return at === 0 ? null : readLength(new DataView(this.#exports.memory.buffer, at))
  }
}

/** The `Length` of measure.c. */
function readLength(view: DataView): MediaLength | null {
  const seconds = (at: number) => Math.round(view.getFloat64(at, true) * 1e6) / 1e6
  const flag = (at: number) => view.getInt32(at, true) !== 0
  const name = (at: number) =>
    Buffer.from(view.buffer, view.byteOffset + at, 32)
      .toString('latin1')
      .split('\0', 1)[0]!
  const length = { seconds: seconds(0), soundSeconds: seconds(8), hasVideo: flag(16), hasAudio: flag(20) }
  return length.seconds > 0 ? { ...length, container: name(24), codec: name(56) || null } : null
}

const badDescriptor = 8

/** The functions of the system interface (WASI) that the module names: no file, clock or variable is there. */
function noSystem(memory: () => ArrayBuffer): Imports[string] {
  const refuse = () => badDescriptor
  const noVariables = (count = 0, bytes = 0) => {
    const view = new DataView(memory())
    view.setUint32(count, 0, true)
    view.setUint32(bytes, 0, true)
    return 0
  }
  const exit = () => {
    throw new Error('the parser gave up')
  }
  const files = ['close', 'fdstat_get', 'fdstat_set_flags', 'prestat_get', 'prestat_dir_name', 'read', 'seek', 'write']
  return {
    ...Object.fromEntries(files.map(name => [`fd_${name}`, refuse])),
    ...{ path_open: refuse, poll_oneoff: refuse, clock_time_get: refuse, environ_get: refuse },
    environ_sizes_get: noVariables,
    proc_exit: exit,
  }
}

const firstBytes = 256 * 1024
const leastBytes = 64 * 1024

/** Reads a small file at once, and others ahead: the further, the longer they are read in order. */
class Pieces {
  readonly #bytes: number
  readonly #read: ReadSync
  #start = 0
  #piece: Uint8Array = new Uint8Array()
  #ahead: number

  constructor(bytes: number, read: ReadSync) {
    this.#bytes = bytes
    this.#read = read
    this.#ahead = bytes <= maxPieceBytes ? maxPieceBytes : firstBytes
  }

  /** At most `size` bytes at an offset; none at the end of the file, null if it cannot be read. */
  read(start: number, size: number): Uint8Array | null {
    if (start >= this.#bytes) return this.#piece.subarray(0, 0)
    const end = this.#start + this.#piece.length
    if (start < this.#start || start >= end) {
      if (end > 0) this.#ahead = start === end ? Math.min(this.#ahead * 2, maxPieceBytes) : leastBytes
      const piece = this.#read(start, Math.min(start + this.#ahead, this.#bytes))
      if (piece === null) return null
      this.#start = start
      this.#piece = piece
    }
    const at = start - this.#start
    return this.#piece.subarray(at, at + size)
  }
}
