import { join } from 'node:path'
import { defineConfig } from 'prisma/config'

// The CLI asks these variables itself: our engine instead of a downloaded one, no update checks.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= join(import.meta.dirname, 'dev/schema-engine.mjs')
process.env.CHECKPOINT_DISABLE ??= '1'

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
  // Generating the client needs no database, so none is asked for here.
  datasource: { url: process.env.DATABASE_URL ?? '' },
})
