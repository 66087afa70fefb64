import { open } from 'node:fs/promises'
import type { Bytes } from './bytes.ts'

/**
 * Writes a new file, one chunk at a time: the next chunk is requested after the previous one is written. `mode` is the
 * file mode, `sync` flushes it to disk at the end. Returns its length in bytes. Throws what `body` throws, and if the
 * file already exists; does not remove a partly written file.
 */
export async function writeFile(
  path: string,
  body: Bytes,
  { mode, sync = false }: { mode?: number; sync?: boolean } = {},
): Promise<number> {
  const file = await open(path, 'wx', mode)
  let bytes = 0
  try {
    for await (const part of body) {
      const { length } = part
      for (let at = 0; at < length; ) at += (await file.write(part, at)).bytesWritten
      bytes += length
    }
    if (sync) await file.sync()
    return bytes
  } finally {
    await file.close()
  }
}
