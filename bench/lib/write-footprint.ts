// Loaded by `--import` before a program: on SIGUSR2 it writes what the process holds to the file that FOOTPRINT_FILE names:
// V8's heap by space, after a full collection, and each module or script it has compiled, with its characters.
import { renameSync, writeFileSync } from 'node:fs'
import { type Debugger, Session } from 'node:inspector/promises'
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8'

export type Footprint = {
  spaces: { name: string; usedBytes: number; bytes: number }[]
  usage: NodeJS.MemoryUsage
  mallocedBytes: number
  scripts: { url: string; length: number }[]
}

process.on('SIGUSR2', async () => {
  const session = new Session()
  session.connect()
  await session.post('HeapProfiler.collectGarbage')
  const spaces = getHeapSpaceStatistics().map(space => ({
    name: space.space_name,
    usedBytes: space.space_used_size,
    bytes: space.physical_space_size,
  }))
  const usage = process.memoryUsage()
  const mallocedBytes = getHeapStatistics().malloced_memory
  const scripts: Footprint['scripts'] = []
  session.on('Debugger.scriptParsed', ({ params }: { params: Debugger.ScriptParsedEventDataType }) => {
    scripts.push({ url: params.url, length: params.length ?? 0 })
  })
  await session.post('Debugger.enable')
  session.disconnect()
  const file = process.env.FOOTPRINT_FILE!
  writeFileSync(`${file}.part`, JSON.stringify({ spaces, usage, mallocedBytes, scripts } satisfies Footprint))
  renameSync(`${file}.part`, file)
})
