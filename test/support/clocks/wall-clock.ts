import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, open, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../dev/run.ts'

const source = join(import.meta.dirname, 'clock-shim.c')
const libraries = join(import.meta.dirname, '../../../.data/clock-shim')
const advice = 'Clock tests need Linux and a C compiler named cc (for example: apt-get install gcc).'

/** The wall clock of some processes, which a test moves while they run. Their monotonic clocks stay real. */
export class WallClock {
  /** The environment with which the processes are started. */
  readonly env: { LD_PRELOAD: string; CLOCK_OFFSET_FILE: string }
  #offsetMs = 0

  private constructor(library: string, file: string) {
    this.env = { LD_PRELOAD: library, CLOCK_OFFSET_FILE: file }
  }

  /** A clock that is right, with its offset in a new file of `folder`. Throws an Error saying what is missing. */
  static async create(folder: string): Promise<WallClock> {
    const library = await compileShim()
    const file = join(folder, `clock-${randomUUID()}`)
    await writeFile(file, Buffer.alloc(8))
    await chmod(folder, 0o711) // PostgreSQL runs under an account of its own.
    return new WallClock(library, file)
  }

  get offsetMs(): number {
    return this.#offsetMs
  }

  /** Sets how far the clock is ahead of the real time, at once; negative if behind. */
  async set(offsetMs: number): Promise<void> {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(offsetMs) * 1_000_000n)
    const file = await open(this.env.CLOCK_OFFSET_FILE, 'r+')
    await file.write(bytes, 0, bytes.length, 0)
    await file.close()
    this.#offsetMs = offsetMs
  }

  now(): number {
    return Date.now() + this.#offsetMs
  }
}

/** Compiles the library once per version of its source; gives its path. */
async function compileShim(): Promise<string> {
  if (process.platform !== 'linux') throw new Error(advice)
  const version = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
    .slice(0, 16)
  const library = join(libraries, `${version}.so`)
  if (existsSync(library)) return library
  await mkdir(libraries, { recursive: true })
  const unfinished = `${library}.${randomUUID()}`
  await run('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', unfinished, source]).catch(cause => {
    throw new Error(cause.code === 'ENOENT' ? advice : `The clock shim was not compiled: ${cause.stderr}`, { cause })
  })
  await rename(unfinished, library) // Another process may have compiled it meanwhile.
  return library
}
