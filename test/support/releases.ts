import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A statement that contracts the schema, and the first release whose processes do without what it removes. */
export type ListedContraction = { statement: string; unused_since: string }

export type Releases = {
  /** The release before the next one: its version, and its newest migration. */
  previous: { version: string; migration: string }
  /** By migration. */
  contractions: Record<string, ListedContraction[]>
}

/** What `prisma/releases.json` says (docs/decisions/rolling-deploys.md). */
export function readReleases(): Releases {
  return JSON.parse(readFileSync(join(import.meta.dirname, '../../prisma/releases.json'), 'utf8'))
}
