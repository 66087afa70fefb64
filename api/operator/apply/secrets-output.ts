import { chmod, readFile, rename, writeFile } from 'node:fs/promises'
import { isObject } from '../../../shared/base/is-object.ts'

/**
 * The file that receives the secrets of the keys that an apply creates: JSON, by the place of the key. A secret is written before
 * its key is created, so that none is lost when the process is killed in between; the next run uses it.
 */
export class SecretsOutput {
  readonly #path: string
  readonly #secrets: Map<string, string>

  private constructor(path: string, secrets: Map<string, string>) {
    this.#path = path
    this.#secrets = secrets
  }

  /** Opens the file, which may not be there yet. Throws an Error if it is something else. */
  static async open(path: string): Promise<SecretsOutput> {
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '{}'
      throw error
    })
    let found: unknown = null
    try {
      found = JSON.parse(text)
    } catch {}
    if (!isObject(found) || Object.values(found).some(value => typeof value !== 'string'))
      throw new Error(`${path} is not a file of secrets of an earlier run. Name another one.`)
    return new SecretsOutput(path, new Map(Object.entries(found as Record<string, string>)))
  }

  get(address: string): string | undefined {
    return this.#secrets.get(address)
  }

  async set(address: string, secret: string): Promise<void> {
    this.#secrets.set(address, secret)
    const next = `${this.#path}.next`
    await writeFile(next, `${JSON.stringify(Object.fromEntries(this.#secrets), null, 2)}\n`, {
      mode: 0o600,
      flush: true,
    })
    await chmod(next, 0o600)
    await rename(next, this.#path)
  }
}
