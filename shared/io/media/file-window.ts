import type { RangeFile } from './media-file.ts'

const windowBytes = 512 * 1024

/** Reads a file through a window that moves forward. */
export class FileWindow {
  readonly bytes: number
  readonly #file: RangeFile
  #start = 0
  #content = Buffer.alloc(0)

  constructor(file: RangeFile) {
    this.#file = file
    this.bytes = file.bytes
  }

  /** Returns `count` bytes at an offset, fewer at the end of the file. */
  async at(start: number, count: number): Promise<Buffer> {
    const end = Math.min(start + count, this.bytes)
    if (start < this.#start || end > this.#start + this.#content.length) await this.#move(start)
    return this.#content.subarray(start - this.#start, Math.max(0, end - this.#start))
  }

  /** Returns the next position of a byte before `until`; -1 if there is none. */
  async find(byte: number, from: number, until: number): Promise<number> {
    for (let at = from; at < Math.min(until, this.bytes); at = this.#start + this.#content.length) {
      await this.at(at, 1)
      const found = this.#content.indexOf(byte, at - this.#start)
      if (found >= 0) return this.#start + found
    }
    return -1
  }

  async #move(start: number): Promise<void> {
    this.#start = Math.min(start, this.bytes)
    this.#content = Buffer.from(await this.#file.read(this.#start, Math.min(start + windowBytes, this.bytes)))
  }
}
