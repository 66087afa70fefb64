import type { InputAudioTrack, InputTrack } from 'mediabunny'
import { editedSeconds } from './edit-lists.ts'
import { isFlacLengthPlausible } from './flac-frames.ts'
import type { MediaLength, RangeFile } from './media-file.ts'
import { isPlainOgg } from './ogg.ts'
import { packetSeconds } from './packet-samples.ts'

const maxCachedBytes = 4 * 1024 * 1024
const maxPackets = 2_000_000

/**
 * Measures an audio or video file by its packets; null if it has none. A malicious file can keep the processor busy for
 * minutes. Throws if the file cannot be parsed, and what `file.read` throws.
 */
export async function lengthByPackets(file: RangeFile): Promise<MediaLength | null> {
  const { ALL_FORMATS, CustomSource, HLS, Input } = await import('mediabunny')
  const source = new CustomSource({
    getSize: () => file.bytes,
    read: file.read,
    maxCacheSize: maxCachedBytes,
    prefetchProfile: 'network',
    handleUnhandledError: () => {}, // Errors of prefetches, which are not awaited.
  })
  // HLS is excluded: a playlist would lead to other files.
  if (!(await isPlainOgg(file))) return null
  using input = new Input({ source, formats: ALL_FORMATS.filter(format => format !== HLS) })
  const length: MediaLength = { seconds: 0, hasVideo: false, hasAudio: false }
  for (const track of await input.getTracks()) {
    if (!track.isVideoTrack() && !track.isAudioTrack()) continue
    length.hasVideo ||= track.isVideoTrack()
    length.hasAudio ||= track.isAudioTrack()
    length.seconds = Math.max(length.seconds, await trackLength(track))
  }
  // A video is as long as its video track; its audio is not decoded.
  if (!length.hasVideo)
    for (const track of await input.getAudioTracks())
      length.seconds = Math.max(length.seconds, await decodedSeconds(track))
  length.seconds = Math.max(length.seconds, await editedSeconds(file))
  if (!(await isFlacLengthPlausible(file, length.seconds))) return null
  return length.seconds > 0 ? length : null
}

/** The time from the first packet to the end of the last, or the sum of all packets, whichever is longer. */
async function trackLength(track: InputTrack): Promise<number> {
  const { EncodedPacketSink } = await import('mediabunny')
  const sink = new EncodedPacketSink(track)
  const first = await sink.getFirstPacket()
  if (!first) return 0
  let [start, end, sum, packets] = [first.timestamp, 0, 0, 0]
  let last = first
  for await (const packet of sink.packets(undefined, undefined, { metadataOnly: true })) {
    if (++packets > maxPackets) throw new Error('too many packets')
    start = Math.min(start, packet.timestamp)
    if (packet.timestamp + packet.duration >= end) last = packet
    end = Math.max(end, packet.timestamp + packet.duration)
    sum += packet.duration
  }
  // Checks that the last packet is present: a truncated file cannot be decoded to its end.
  const whole = await sink.getPacket(last.timestamp)
  if (!whole || whole.data.length === 0) throw new Error('the last packet is missing')
  // Matroska states only start times: the last packet gets the average duration.
  if (last.duration === 0 && packets > 1) end += (end - start) / (packets - 1)
  return Math.round(Math.max(end - Math.max(start, 0), sum) * 1e6) / 1e6
}

/** Measures a track by the samples its packets decode to; 0 if they do not tell. */
async function decodedSeconds(track: InputAudioTrack): Promise<number> {
  const config = await track.getDecoderConfig()
  const { description } = config ?? {}
  const bytes = description instanceof Uint8Array ? description : undefined
  const secondsOf = config && packetSeconds({ ...config, description: bytes })
  if (!secondsOf) return 0
  const { EncodedPacketSink } = await import('mediabunny')
  let seconds = 0
  for await (const { data } of new EncodedPacketSink(track).packets()) seconds += secondsOf(data) ?? 0
  return Math.round(seconds * 1e6) / 1e6
}
