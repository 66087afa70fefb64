import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const busy = 5

/** Keeps the lock's database from being collected, and so closed. */
const held: DatabaseSync[] = []

/**
 * Locks a folder for this process until it ends, in whatever way: SQLite locks its file by the operating system, on every
 * platform. False where another process holds the lock. Throws an Error where the folder cannot be written to.
 */
export function lockFolder(folder: string): boolean {
  const file = join(folder, 'dev.lock')
  try {
    const database = new DatabaseSync(file, { timeout: 0 })
    held.push(database)
    database.exec('BEGIN EXCLUSIVE')
    return true
  } catch (error) {
    if ((error as { errcode?: number }).errcode === busy) return false
    throw new Error(`${file} cannot be locked: ${(error as Error).message}`)
  }
}
