import { open } from 'node:fs/promises'
import type { Bytes } from './bytes.ts'

/**
 * Writes a new file, one part at a time: a part is asked for once the one before is written. `mode` is that of the file, `sync`
 * whether it must be on the disk at the end. Gives its length in bytes. Throws what `body` throws, and when there is a file
 * already; a file that was begun stays.
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
