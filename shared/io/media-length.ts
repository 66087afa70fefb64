import { setTimeout as sleep } from 'node:timers/promises'
import type { InputTrack } from 'mediabunny'

/** A file to be measured, read in pieces. `end` is exclusive. */
export type RangeFile = { bytes: number; read(start: number, end: number): Promise<Uint8Array> }

/** What a media file is made of. `seconds` is the longest of its tracks, by their packets. */
export type MediaLength = { seconds: number; hasVideo: boolean; hasAudio: boolean }

const mostCachedBytes = 4 * 1024 * 1024
const mostPackets = 2_000_000

/**
 * Measures an audio or video file by its packets, whatever its header says of its length. Null when it cannot be
 * understood, has no packets, or takes longer than `timeoutMs`. Throws what `file.read` throws.
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
  const over = new AbortController()
  const late = sleep(timeoutMs, null, { signal: over.signal }).catch(() => null)
  try {
    return await Promise.race([lengthOf({ ...file, read }, over.signal), late])
  } catch {
    if (fault) throw (fault as { error: unknown }).error
    return null
  } finally {
    over.abort()
  }
}

async function lengthOf(file: RangeFile, over: AbortSignal): Promise<MediaLength | null> {
  const wave = await waveLength(file)
  return wave === undefined ? byPackets(file, over) : wave
}

async function byPackets(file: RangeFile, over: AbortSignal): Promise<MediaLength | null> {
  const { ALL_FORMATS, CustomSource, HLS, Input } = await import('mediabunny')
  const source = new CustomSource({
    getSize: () => file.bytes,
    read: file.read,
    maxCacheSize: mostCachedBytes,
    prefetchProfile: 'network',
    handleUnhandledError: () => {}, // A prefetch nobody waits for.
  })
  // A playlist would lead to other files.
  const input = new Input({ source, formats: ALL_FORMATS.filter(format => format !== HLS) })
  over.addEventListener('abort', () => input.dispose(), { once: true })
  const length: MediaLength = { seconds: 0, hasVideo: false, hasAudio: false }
  for (const track of await input.getTracks()) {
    if (!track.isVideoTrack() && !track.isAudioTrack()) continue
    length.hasVideo ||= track.isVideoTrack()
    length.hasAudio ||= track.isAudioTrack()
    length.seconds = Math.max(length.seconds, await trackLength(track))
  }
  return length.seconds > 0 ? length : null
}

/** From the first packet to the end of the last, or all packets one after the other, whichever is longer. */
async function trackLength(track: InputTrack): Promise<number> {
  const { EncodedPacketSink } = await import('mediabunny')
  const sink = new EncodedPacketSink(track)
  const first = await sink.getFirstPacket()
  if (!first) return 0
  let [start, end, sum, packets] = [first.timestamp, 0, 0, 0]
  let last = first
  for await (const packet of sink.packets(undefined, undefined, { metadataOnly: true })) {
    if (++packets > mostPackets) throw new Error('too many packets')
    start = Math.min(start, packet.timestamp)
    if (packet.timestamp + packet.duration >= end) last = packet
    end = Math.max(end, packet.timestamp + packet.duration)
    sum += packet.duration
  }
  // The end is really there: a file that was cut off cannot be decoded to its end.
  const whole = await sink.getPacket(last.timestamp)
  if (!whole || whole.data.length === 0) throw new Error('the last packet is missing')
  // Matroska states when packets begin: the last one is as long as the others are.
  if (last.duration === 0 && packets > 1) end += (end - start) / (packets - 1)
  return Math.round(Math.max(end - Math.max(start, 0), sum) * 1e6) / 1e6
}

const mostChunks = 64
const formatBytes = 40
const codecs: Readonly<Record<number, readonly number[]>> = { 1: [8, 16, 24, 32], 3: [32, 64], 6: [8], 7: [8] }
const extensible = 0xfffe

/**
 * The length of a WAV file by the samples that are there. Its header states the sizes of the file and of a block, and a
 * rate, which players ignore and which therefore may be anything. Undefined when it is no WAV file; null when it is broken.
 */
async function waveLength(file: RangeFile): Promise<MediaLength | null | undefined> {
  if (file.bytes < 12) return undefined
  const riff = Buffer.from(await file.read(0, 12))
  if (riff.toString('latin1', 0, 4) !== 'RIFF' || riff.toString('latin1', 8, 12) !== 'WAVE') return undefined
  let bytesPerSecond = 0
  let at = 12
  for (let chunks = 0; at + 8 <= file.bytes && chunks < mostChunks; chunks++) {
    const header = Buffer.from(await file.read(at, at + 8))
    const [name, size] = [header.toString('latin1', 0, 4), header.readUInt32LE(4)]
    const start = at + 8
    if (name === 'fmt ')
      bytesPerSecond = waveRate(Buffer.from(await file.read(start, Math.min(start + formatBytes, file.bytes))))
    if (name === 'data') {
      // A stream's header was written before its length was known.
      const there = file.bytes - start
      const bytes = size === 0 ? there : Math.min(size, there)
      if (bytes === 0 || bytesPerSecond === 0) return null
      return { seconds: Math.round((bytes / bytesPerSecond) * 1e6) / 1e6, hasVideo: false, hasAudio: true }
    }
    at = start + size + (size % 2)
  }
  return null
}

/** Bytes per second of a `fmt ` chunk; 0 for a codec that is not plain samples. */
function waveRate(format: Buffer): number {
  if (format.length < 16) return 0
  const tag = format.readUInt16LE(0)
  const codec = tag === extensible && format.length >= 26 ? format.readUInt16LE(24) : tag
  const [channels, rate, bits] = [format.readUInt16LE(2), format.readUInt32LE(4), format.readUInt16LE(14)]
  return codecs[codec]?.includes(bits) ? (rate * channels * bits) / 8 : 0
}
