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
 * understood, has no packets, or would take longer than `timeoutMs`. Throws what `file.read` throws, and a GatewayError
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
  const length = await measuring(() => within(timeoutMs, plainLength(file)))
  if (length !== undefined) return length
  return file.bytes > smallBytes ? measureApart(file, timeoutMs) : within(timeoutMs, lengthByPackets(file))
}

/** What work comes to; null when it fails or takes longer. */
async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | null> {
  const over = new AbortController()
  const late = sleep(timeoutMs, null, { signal: over.signal }).catch(() => null)
  return Promise.race([work.catch(() => null), late]).finally(() => over.abort())
}

/** Of files whose every byte is looked at once, which takes as long as reading them. Undefined for others. */
async function plainLength(file: RangeFile): Promise<MediaLength | null | undefined> {
  const wave = await waveLength(file)
  return wave === undefined ? mp3Length(file) : wave
}
