import { GatewayError } from '../base/errors.ts'
import type { Quotas } from '../base/quotas.ts'
import type { File } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'

/** The owner of files: test keys see files of test keys, live keys those of live keys. */
export type FileOwner = Pick<File, 'organisationId' | 'environment'>

type Usage = { files: number; bytes: number }

/**
 * The storage quota of an organisation: uploads, references, inputs, results and stored answers. Database triggers count
 * usage in the transaction of each change (see docs/decisions/quotas.md); uploads in progress are counted in this process.
 */
export class StorageQuota {
  readonly #db: Database
  readonly #quotas: Pick<Quotas, 'live' | 'test'>
  /** Bytes of uploads in progress, by owner. */
  readonly #underWay = new Map<string, number>()

  constructor(db: Database, quotas: Pick<Quotas, 'live' | 'test'>) {
    this.#db = db
    this.#quotas = quotas
  }

  /** Throws 403 `quota_exceeded` when the owner's quota is used up. */
  async assertRoom(owner: FileOwner): Promise<void> {
    const { files, bytes } = await this.#usage(this.#db, owner)
    const { storedBytes, storedFiles } = this.#quotas[owner.environment]
    if (files >= storedFiles || bytes >= storedBytes) throw this.#exceeded(owner)
  }

  /** Whether `bytes` more are within the quota. */
  async hasRoom(owner: FileOwner, bytes: number): Promise<boolean> {
    return (await this.#usage(this.#db, owner)).bytes + bytes <= this.#quotas[owner.environment].storedBytes
  }

  /** Whether less than a part of the quota is used, both of its bytes and of its files. */
  async isBelow(owner: FileOwner, part: number): Promise<boolean> {
    const { files, bytes } = await this.#usage(this.#db, owner)
    const { storedBytes, storedFiles } = this.#quotas[owner.environment]
    return files < storedFiles * part && bytes < storedBytes * part
  }

  /** Throws 403 `quota_exceeded` when the transaction's writes exceed the quota. */
  async assertWithin(tx: Connection, owner: FileOwner): Promise<void> {
    const { files, bytes } = await this.#usage(tx, owner)
    const { storedBytes, storedFiles } = this.#quotas[owner.environment]
    if (files > storedFiles || bytes > storedBytes) throw this.#exceeded(owner)
  }

  /** Passes a body through while its owner's quota allows. Throws 403 `quota_exceeded` at the first chunk beyond it. */
  async *metered(body: AsyncIterable<Uint8Array>, owner: FileOwner): AsyncGenerator<Uint8Array> {
    const { bytes } = await this.#usage(this.#db, owner)
    const leftBytes = this.#quotas[owner.environment].storedBytes - bytes
    const name = `${owner.organisationId} ${owner.environment}`
    const add = (length: number) => this.#underWay.set(name, (this.#underWay.get(name) ?? 0) + length)
    let passedBytes = 0
    try {
      for await (const part of body) {
        passedBytes += part.length
        add(part.length)
        if (this.#underWay.get(name)! > leftBytes) throw this.#exceeded(owner)
        yield part
      }
    } finally {
      add(-passedBytes)
      if (this.#underWay.get(name) === 0) this.#underWay.delete(name)
    }
  }

  async #usage(db: Connection, { organisationId, environment }: FileOwner): Promise<Usage> {
    const where = { organisationId_environment: { organisationId, environment } }
    const row = await db.storageUsage.findUnique({ where })
    return { files: Number(row?.files ?? 0n), bytes: Number(row?.bytes ?? 0n) }
  }

  #exceeded({ environment }: FileOwner): GatewayError {
    const { storedBytes, storedFiles } = this.#quotas[environment]
    const whose = environment === 'test' ? 'the test keys of your organisation' : 'your organisation'
    const max = `${storedBytes / 1e9} GB in ${storedFiles.toLocaleString('en')} files`
    const message = `The files of ${whose} take up all that they may (${max}). Delete some, or wait until they expire.`
    return new GatewayError('quota_exceeded', message, { headers: { connection: 'close' } })
  }
}
