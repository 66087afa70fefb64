// The first part of `npm run build`: the dashboard's pages with compressed copies of each file.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'vite'
import { compressFiles } from '../compress-files.ts'

const web = join(import.meta.dirname, 'web')
const built = join(import.meta.dirname, 'dist')

await build({ configFile: join(web, 'vite.config.ts'), logLevel: 'warn' })
await compressFiles(built)
// Written last: without it, the build is incomplete.
await writeFile(join(built, 'built'), '')
