// Loaded by `--import` before a program: from one SIGUSR2 to the next it samples what is allocated, also what is collected
// again meanwhile, and writes the profile to the file that ALLOCATIONS_FILE names.
import { renameSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'

const samplingInterval = 8_192
const session = new Session()
session.connect()
let sampling = false

process.on('SIGUSR2', async () => {
  sampling = !sampling
  if (sampling) {
    const collected = { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true }
    await session.post('HeapProfiler.startSampling', { samplingInterval, ...collected })
    return
  }
  const { profile } = await session.post('HeapProfiler.stopSampling')
  const file = process.env.ALLOCATIONS_FILE!
  writeFileSync(`${file}.part`, JSON.stringify(profile))
  renameSync(`${file}.part`, file)
})
