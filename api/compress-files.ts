import { globSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import zlib from 'node:zlib'

const gzip = promisify(zlib.gzip)
const brotli = promisify(zlib.brotliCompress)
const minBytes = 1_024

/** Writes compressed copies of the text files of a built folder beside them, as the static file server expects them. */
export async function compressFiles(folder: string): Promise<void> {
  for (const path of globSync('**/*.{js,css,html,svg,json,md,txt}', { cwd: folder })) {
    const bytes = await readFile(join(folder, path))
    if (bytes.length < minBytes) continue
    await writeFile(join(folder, `${path}.gz`), await gzip(bytes, { level: 9 }))
    const quality = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 9 } }
    await writeFile(join(folder, `${path}.br`), await brotli(bytes, quality))
  }
}
