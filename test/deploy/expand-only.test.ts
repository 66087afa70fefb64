import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { listMigrations } from '../../shared/io/migrations.ts'
import { findContractions } from '../support/expand-only.ts'
import { readReleases } from '../support/releases.ts'
import { test } from '../support/test.ts'

const folder = join(import.meta.dirname, '../../prisma/migrations')
const { previous, contractions } = readReleases()

test('migrations since the previous release only expand the schema, or contract what that release does not use', async t => {
  const names = await listMigrations(folder)
  t.true(names.includes(previous.migration), previous.migration)
  const unlisted = names
    .filter(name => name > previous.migration)
    .flatMap(name => {
      const listed = contractions[name] ?? []
      const found = findContractions(readFileSync(join(folder, name, 'migration.sql'), 'utf8'))
      const isAllowed = (statement: string) =>
        listed.some(one => one.statement === statement && isAtMost(one.unused_since, previous.version))
      return found
        .filter(({ statement }) => !isAllowed(statement))
        .map(({ statement, reason }) => ({ name, statement, reason }))
    })
  t.deepEqual(unlisted, [])
})

/** Whether a version is another one or an earlier one. */
function isAtMost(version: string, other: string): boolean {
  return version.localeCompare(other, 'en', { numeric: true }) <= 0
}

const contracting = [
  'DROP TABLE "notes";',
  'ALTER TABLE "notes" DROP COLUMN "text";',
  'ALTER TABLE "notes" ALTER COLUMN "text" DROP DEFAULT;',
  'ALTER TABLE "notes" RENAME COLUMN "text" TO "body";',
  'ALTER TABLE "notes" ALTER COLUMN "text" SET NOT NULL;',
  'ALTER TABLE "notes" ALTER COLUMN "count" TYPE BIGINT;',
  'ALTER TABLE "notes" ADD COLUMN "a" TEXT, ADD COLUMN "b" NUMERIC(10, 2) NOT NULL;',
  'ALTER TABLE "notes" ADD CONSTRAINT "notes_check" CHECK ("count" > 0);',
  'CREATE UNIQUE INDEX "notes_text_key" ON "notes"("text");',
  'ALTER TABLE "notes" ADD COLUMN "a" TEXT; CREATE UNIQUE INDEX "notes_key" ON "notes"("a", "text");',
  "ALTER TYPE \"kind\" RENAME VALUE 'a' TO 'b';",
]
for (const sql of contracting) test(`contracts: ${sql}`, t => t.is(findContractions(sql).length, 1))

const expanding = [
  'CREATE TABLE "notes" ("text" TEXT NOT NULL); CREATE UNIQUE INDEX "notes_text_key" ON "notes"("text");',
  'ALTER TABLE "notes" ADD COLUMN "a" TEXT, ALTER COLUMN "text" DROP NOT NULL;',
  'ALTER TABLE "notes" ADD COLUMN "a" INTEGER NOT NULL DEFAULT 0;',
  'ALTER TABLE "notes" ADD COLUMN "a" TEXT; ALTER TABLE "notes" ADD CONSTRAINT "fk" FOREIGN KEY ("a") REFERENCES "b"("id");',
  'ALTER TABLE "notes" ADD COLUMN "a" TEXT; CREATE UNIQUE INDEX "notes_a_key" ON "notes"("a");',
  'CREATE INDEX "notes_text_idx" ON "notes"("text"); DROP INDEX "notes_old_idx";',
  'ALTER TYPE "kind" ADD VALUE \'c\';',
  '-- DROP TABLE "notes";\nCREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP TABLE x; END $$;',
]
for (const sql of expanding) test(`expands: ${sql.slice(0, 100)}`, t => t.deepEqual(findContractions(sql), []))
