import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { maxPieceBytes } from './shared-piece.ts'

/** Reads a part of the file of a module, and waits for it; null if it cannot be read. `end` is exclusive. */
export type ReadSync = (start: number, end: number) => Uint8Array | null

/** What is used of WebAssembly, whose types are those of browsers. */
type Imports = Record<string, Record<string, (...values: number[]) => number>>
type Exports = { memory: { buffer: ArrayBuffer }; _initialize(): void }
export type Module = { readonly module: unique symbol }
const { WebAssembly: wasm } = globalThis as unknown as {
  WebAssembly: {
    compile(bytes: Uint8Array): Promise<Module>
    Instance: new (module: Module, imports: Imports) => { exports: Exports }
  }
}

/** Compiles one of the modules that `ffmpeg/build.sh` makes. */
export async function loadModule(name: 'measure' | 'convert'): Promise<Module> {
  return wasm.compile(await readFile(fileURLToPath(new URL(`./ffmpeg/${name}.wasm`, import.meta.url))))
}

/** An instance of a module for one file, with its own memory. `E`: the functions that the module exports. */
export class MediaInstance<E> {
  readonly exports: Exports & E
  #file = new Pieces(0, () => null)

  constructor(module: Module) {
    const memory = () => this.exports.memory.buffer
    const read = (start = 0, at = 0, size = 0): number => {
      const piece = this.#file.read(start, size)
      if (piece === null) return -1
      new Uint8Array(memory()).set(piece, at)
      return piece.length
    }
    const imports = { file: { read }, wasi_snapshot_preview1: noSystem(memory) }
    this.exports = new wasm.Instance(module, imports).exports as Exports & E
    this.exports._initialize()
  }

  open(bytes: number, read: ReadSync): void {
    this.#file = new Pieces(bytes, read)
  }

  /** Its memory from an address on. */
  viewAt(at: number): DataView {
    return new DataView(this.exports.memory.buffer, at)
  }
}

const badDescriptor = 8

/** The functions of the system interface (WASI) that a module names: no file, clock or variable is there. */
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
    path_open: refuse,
    poll_oneoff: refuse,
    clock_time_get: refuse,
    environ_get: refuse,
    environ_sizes_get: noVariables,
    proc_exit: exit,
  }
}

const firstBytes = 256 * 1024
const minAheadBytes = 64 * 1024

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
      if (end > 0) this.#ahead = start === end ? Math.min(this.#ahead * 2, maxPieceBytes) : minAheadBytes
      const piece = this.#read(start, Math.min(start + this.#ahead, this.#bytes))
      if (piece === null) return null
      this.#start = start
      this.#piece = piece
    }
    const at = start - this.#start
    return this.#piece.subarray(at, at + size)
  }
}
