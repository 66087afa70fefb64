import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const busy = 5

/** Keeps the lock's database from being garbage-collected, which would close it. */
const held: DatabaseSync[] = []

/**
 * Locks a folder until this process ends, even by a crash: SQLite uses the operating system's file locks on every platform.
 * Returns false if another process holds the lock. Throws an Error if the folder is not writable.
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
