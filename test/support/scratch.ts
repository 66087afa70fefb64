import { mkdtemp, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const memory = '/dev/shm'
const minFreeBytes = 4 * 2 ** 30 // PostgreSQL’s log alone may grow to 1 GiB.

/**
 * Creates the folder of everything a run of the tests writes: in memory where the system offers enough of it, else among
 * the temporary files. On a disk, one copy of the template database can take as long as starting a gateway.
 */
export async function makeScratchDir(): Promise<string> {
  const free = await statfs(memory).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0, // Other systems than Linux have none.
  )
  return mkdtemp(join(free >= minFreeBytes ? memory : tmpdir(), 'headgate-test-'))
}
