import { setTimeout as sleep } from 'node:timers/promises'
import { gate } from './gate.ts'
import { lengthByPackets, type MediaLength, type RangeFile } from './media-packets.ts'
import { measureApart } from './media-threads.ts'
import { mp3Length } from './mp3.ts'
import { waveLength } from './wave.ts'

/** A file of this size cannot be made to keep the processor busy for long. */
const smallBytes = 256 * 1024
/** Each has a part of its file in memory. */
const measuring = gate(8)

/**
 * Measures an audio or video file by its packets, whatever its header says of its length. Null when it cannot be
 * understood, has no packets, or takes longer than `timeoutMs`. Throws what `file.read` throws, and a GatewayError
 * `service_unavailable` when too many others are being measured.
 */
export async function measureMedia(file: RangeFile, timeoutMs: number): Promise<MediaLength | null> {
  let fault: { error: unknown } | null = null
  const read = async (start: number, end: number) => {
    try {
      return await file.read(start, end)
    } catch (error) {
      fault = { error }
      throw error
    }
  }
  const length = await lengthOf({ bytes: file.bytes, read }, timeoutMs)
  if (fault) throw (fault as { error: unknown }).error
  return length
}

async function lengthOf(file: RangeFile, timeoutMs: number): Promise<MediaLength | null> {
  const over = new AbortController()
  const late = sleep(timeoutMs, null, { signal: over.signal }).catch(() => null)
  try {
    for (const plain of [waveLength, mp3Length]) {
      const length = await Promise.race([measuring(() => plain(file).catch(() => null)), late])
      if (length !== undefined) return length
    }
    if (file.bytes > smallBytes) return await measureApart(file, timeoutMs)
    return await Promise.race([lengthByPackets(file).catch(() => null), late])
  } finally {
    over.abort()
  }
}
