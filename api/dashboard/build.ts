// `npm run build`: builds the dashboard's pages with compressed copies of each file.

import { globSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { build } from 'vite'

const gzip = promisify(zlib.gzip)
const brotli = promisify(zlib.brotliCompress)
const web = join(import.meta.dirname, 'web')
const built = join(import.meta.dirname, 'dist')
const minBytes = 1_024

await build({ configFile: join(web, 'vite.config.ts'), logLevel: 'warn' })
for (const path of globSync('**/*.{js,css,html,svg}', { cwd: built })) {
  const bytes = await readFile(join(built, path))
  if (bytes.length < minBytes) continue
  await writeFile(join(built, `${path}.gz`), await gzip(bytes, { level: 9 }))
  const quality = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 9 } }
  await writeFile(join(built, `${path}.br`), await brotli(bytes, quality))
}
// Written last: without it, the build is incomplete.
await writeFile(join(built, 'built'), '')
