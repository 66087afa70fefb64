import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as media from 'mediabunny'
import type { SlotOwner } from '../../shared/io/fair-slots.ts'
import type { RangeFile } from '../../shared/io/media/media-file.ts'
import { measureMedia } from '../../shared/io/media/media-processes.ts'
import {
  adts,
  adtsFrameS,
  flac,
  flacFrameS,
  movie,
  mp3,
  mp3FrameS,
  mp4Of,
  png,
  wav,
} from '../support/media/media-files.ts'
import { mp4Stating } from '../support/media/sample-tables.ts'
import { test } from '../support/test.ts'

const timeoutMs = 20_000
const owner = { organisationId: 'org', environment: 'live' } as const

function fileOf(bytes: Buffer): RangeFile {
  return { bytes: bytes.length, read: async (start, end) => bytes.subarray(start, end) }
}
const measure = (bytes: Buffer) => measureMedia(fileOf(bytes), timeoutMs, owner)

const files: [name: string, file: () => Promise<Buffer> | Buffer, seconds: number, video: boolean, audio: boolean][] = [
  ['an MP4 video, its sound shorter', () => movie('mp4', { videoS: 3, audioS: 2 }), 3, true, true],
  ['an MP4 video, its sound longer', () => movie('mp4', { videoS: 1, audioS: 2 }), 2, true, true],
  ['a silent QuickTime video', () => movie('mov', { videoS: 2 }), 2, true, false],
  ['a WebM video', () => movie('webm', { videoS: 3, audioS: 1 }), 3, true, true],
  ['a Matroska video', () => movie('mkv', { videoS: 1.2 }), 1.2, true, false],
  ['sound in MP4', () => movie('mp4', { audioS: 2.5 }), 2.5, false, true],
  ['sound in WebM', () => movie('webm', { audioS: 2.5 }), 2.5, false, true],
  ['Opus in Ogg', () => movie('ogg', { audioS: 2.5 }), 2.5, false, true],
  ['MP3 of one bitrate', () => mp3(100), 100 * mp3FrameS, false, true],
  ['MP3 of several bitrates', () => mp3(100, [128, 320, 64]), 100 * mp3FrameS, false, true],
  ['MP3 of several bitrates with a Xing header', () => mp3(100, [128, 320], 100), 100 * mp3FrameS, false, true],
  ['AAC in ADTS', () => adts(100), 100 * adtsFrameS, false, true],
  ['FLAC', () => flac(50), 50 * flacFrameS, false, true],
  ['WAV', () => wav(2), 2, false, true],
]
for (const [name, file, seconds, hasVideo, hasAudio] of files) {
  test(`measured: ${name}`, async t => {
    const length = await measure(await file())
    t.is(length?.seconds, Math.round(seconds * 1e6) / 1e6)
    t.like(length, { hasVideo, hasAudio })
  })
}

/** Files of recorders and editors, with the seconds of sound that ffmpeg decodes. `make.sh` beside them makes them. */
const recorded: [file: string, seconds: number][] = [
  ['adpcm.wav', 1.0205],
  ['apple.aiff', 1],
  ['apple.caf', 1],
  ['broadcast.mpegts', 1.152],
  ['camera.avi', 1.152],
  ['dictaphone.wma', 0.992],
  ['disc.mpg', 1.008],
  ['dolby.ac3', 1.008],
  ['gsm.wav', 1],
  ['mp3-in.wav', 1.152],
  ['rf64.wav', 1],
  ['sony.w64', 1],
  ['speex.ogg', 1],
  ['trimmed.mov', 0.274],
]
for (const [file, seconds] of recorded) {
  test(`measured by what is heard: ${file}`, async t => {
    const length = await measure(readFileSync(join(import.meta.dirname, '../fixtures/media', file)))
    t.true(Math.abs(length!.soundSeconds - seconds) < 0.04, `${length!.soundSeconds} s`)
    t.true(length!.seconds >= length!.soundSeconds)
  })
}

test('shorter, never longer than the whole: the length of a file that is cut anywhere', async t => {
  const sounds = await Promise.all((['webm', 'ogg'] as const).map(container => movie(container, { audioS: 2 })))
  for (const file of [...sounds, wav(2), mp3(100), flac(50), adts(100)]) {
    const whole = (await measure(file))!.seconds
    let last = 0
    for (const share of [0.3, 0.6, 0.9, 1]) {
      const length = await measure(file.subarray(0, Math.floor(file.length * share)))
      const seconds = length?.seconds ?? 0
      // The packets are about equally long; a container without a length of its own has a header as well.
      t.true(seconds >= last && seconds <= whole, `${seconds} of ${whole} s`)
      last = seconds
    }
    t.is(last, whole)
  }
})

/** A file of Matroska whose packets have so many frames of a stream each, though their times are those of single ones. */
async function merged(file: string, codec: 'aac' | 'ac3' | 'flac', frameS: number, count: number): Promise<Buffer> {
  const bytes = readFileSync(join(import.meta.dirname, '../fixtures/media', file))
  const output = new media.Output({ format: new media.MkvOutputFormat(), target: new media.BufferTarget() })
  const source = new media.EncodedAudioPacketSource(codec)
  output.addAudioTrack(source)
  await output.start()
  const frames = framesIn[codec](bytes)
  const decoderConfig = { ...configs[codec], ...(codec === 'flac' && { description: bytes.subarray(0, 42) }) }
  for (let i = 0; i * count < frames.length; i++) {
    const data = Buffer.concat(frames.slice(i * count, (i + 1) * count))
    await source.add(new media.EncodedPacket(data, 'key', i * frameS, frameS), { decoderConfig })
  }
  await output.finalize()
  return Buffer.from(output.target.buffer!)
}

/** LC at 8 kHz, one channel. */
const configs = {
  aac: { codec: 'mp4a.40.2', numberOfChannels: 1, sampleRate: 8_000, description: new Uint8Array([0x15, 0x88]) },
  ac3: { codec: 'ac-3', numberOfChannels: 1, sampleRate: 32_000 },
  flac: { codec: 'flac', numberOfChannels: 1, sampleRate: 8_000 },
}
const framesIn = {
  aac: (bytes: Buffer) => {
    const frames: Buffer[] = []
    for (let at = 0; at < bytes.length; ) {
      const end = at + ((bytes.readUInt32BE(at + 3) >>> 13) & 0x1fff)
      frames.push(bytes.subarray(at + 7, end))
      at = end
    }
    return frames
  },
  /** All have the same size. */
  ac3: (bytes: Buffer) => Array.from({ length: bytes.length / 192 }, (_, i) => bytes.subarray(i * 192, i * 192 + 192)),
  /** All have the same sync word, size, rate and channel. */
  flac: (bytes: Buffer) => {
    const starts = [...bytes.keys()].filter(
      at => bytes.readUIntBE(Math.min(at, bytes.length - 2), 2) === 0xfff8 && bytes[at + 3] === 8,
    )
    return starts.map((start, i) => bytes.subarray(start, starts[i + 1]))
  },
}

for (const [file, codec, frameS] of [
  ['voice.aac', 'aac', 1_024 / 8_000],
  ['dolby.ac3', 'ac3', 1_536 / 32_000],
  ['voice.flac', 'flac', 512 / 8_000],
] as const) {
  test(`measured by all frames of a packet: ${codec}`, async t => {
    const whole = (await measure(await merged(file, codec, frameS, 1)))!.soundSeconds
    t.true(whole > 0.99 && whole < 1.3, `${whole} s`)
    for (const count of [2, 3, 20]) {
      const { soundSeconds } = (await measure(await merged(file, codec, frameS, count)))!
      t.true(Math.abs(soundSeconds - whole) < 1e-3, `${soundSeconds} s with ${count} in a packet`)
    }
  })
}

/** Overwrites what follows a mark in a file. */
function patched(file: Buffer, mark: string | Buffer, offset: number, bytes: number[]): Buffer {
  const at = file.indexOf(mark)
  if (at < 0) throw new Error('the file has no such mark')
  file.set(bytes, at + Buffer.byteLength(mark) + offset)
  return file
}
const oneTick = [0, 0, 0, 1]
const liars: [name: string, file: () => Promise<Buffer> | Buffer, seconds: number][] = [
  ['the Xing header counts 5 frames', () => mp3(100, [128], 5), 100 * mp3FrameS],
  ['the FLAC header counts one frame', () => flac(50, 4096), 50 * flacFrameS],
  ['the FLAC header counts a thousand frames', () => flac(50, 4_096_000), 50 * flacFrameS],
  ['the WAV header states a rate and a block that are not', () => wav(2, { byteRate: 1e6, blockAlign: 200 }), 2],
  ['the WAV header states a smaller file', () => wav(2, { riffBytes: 100 }), 2],
  ['the WAV header was written before the length was known', () => wav(2, { dataBytes: 0xffffffff }), 2],
  ['the WAV header states no bytes', () => wav(2, { dataBytes: 0 }), 2],
  ['the WAV file has a second chunk of samples', () => twoParts(wav(2), 4), 2],
  ['the WAV file has other chunks between its samples', () => twoParts(wav(2), 4, chunk('LIST', 40)), 2],
  ['the WAV file has other bytes behind its samples', () => Buffer.concat([wav(2), Buffer.alloc(16_000)]), 2],
  ['the WAV file has a second, slower format', () => Buffer.concat([wav(2), format(8_000, 8)]), 2],
  ['two MP3 files follow each other', () => Buffer.concat([mp3(50, [128], 50), mp3(50, [64], 50)]), 101 * mp3FrameS],
  ['its AAC frames have other bytes between them', () => between(adts(100), 1_000, 50), 100 * adtsFrameS],
  ['its AAC frames state several blocks, but have one', () => stating(adts(100), 4), 100 * adtsFrameS],
  ['its AAC frames hold several blocks each', () => blocks(adts(100), 4), 400 * adtsFrameS],
  ['the first AAC frame states another rate', () => fasterFirst(adts(100)), 99 * adtsFrameS + 1_024 / 96_000],
  [
    'the FLAC header states too large frames',
    () => patched(flac(200), 'fLaC', 8, [0xff, 0xff, 0xff]),
    200 * flacFrameS,
  ],
  ['an MP4 video was cut off', async () => (await movie('mp4', { videoS: 3 })).subarray(0, -3000), 2.4],
  ['an Ogg file follows another', async () => twice(await movie('ogg', { audioS: 1 })), 2],
  ['a WebM file follows another', async () => twice(await movie('webm', { audioS: 1 })), 2],
  ['the MP4 header states one tick', async () => patched(await movie('mp4', { videoS: 3 }), 'mvhd', 16, oneTick), 3],
  ['the MP4 track states one tick', async () => patched(await movie('mp4', { videoS: 3 }), 'mdhd', 16, oneTick), 3],
  [
    'the WebM header states an hour',
    async () => {
      const hour = Buffer.alloc(8)
      hour.writeDoubleBE(3_600_000)
      return patched(await movie('webm', { videoS: 3 }), Buffer.from([0x44, 0x89, 0x88]), 0, [...hour])
    },
    3,
  ],
]

function chunk(name: string, bytes: number): Buffer {
  const made = Buffer.alloc(8 + bytes)
  made.write(name)
  made.writeUInt32LE(bytes, 4)
  return made
}

/** A first `data` chunk of so many bytes before the file's own. */
function twoParts(file: Buffer, bytes: number, between: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([file.subarray(0, 36), chunk('data', bytes), between, file.subarray(36)])
}

function twice(file: Buffer): Buffer {
  return Buffer.concat([file, file])
}

/** So many bytes after every so many of a file. */
function between(file: Buffer, every: number, bytes: number): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < file.length; at += every) parts.push(file.subarray(at, at + every), Buffer.alloc(bytes, 0x11))
  return Buffer.concat(parts)
}

function blocks(file: Buffer, count: number): Buffer {
  const silent = Array.from({ length: count }, () => [0, 0, 0, 7]).flat()
  for (let at = 6; at < file.length; at += 100) file.set([0xfc | (count - 1), ...silent], at)
  return file
}

function stating(file: Buffer, count: number): Buffer {
  for (let at = 6; at < file.length; at += 100) file[at] = 0xfc | (count - 1)
  return file
}

function fasterFirst(file: Buffer): Buffer {
  file[2] = file[2]! & 0xc3
  return file
}

function format(rateHz: number, bits: number): Buffer {
  const made = chunk('fmt ', 16)
  for (const [value, at] of [
    [1, 8],
    [1, 10],
    [rateHz, 12],
    [bits, 22],
  ] as const)
    made.writeUInt16LE(value, at)
  return made
}
for (const [name, file, seconds] of liars) {
  test(`measured by its packets when ${name}`, async t => {
    t.is((await measure(await file()))?.seconds, Math.round(seconds * 1e6) / 1e6)
  })
}

const broken: [name: string, file: () => Promise<Buffer> | Buffer][] = [
  ['nothing', () => Buffer.alloc(0)],
  ['text', () => Buffer.from('no media at all '.repeat(100))],
  ['a picture', () => png()],
  ['an MP4 file with nothing in it', () => mp4Of(1000)],
  ['a WAV file without samples', () => wav(0)],
  ['a WAV file of an unknown codec', () => patched(wav(1), 'fmt ', 4, [0x34, 0x12])],
  ['a WAV header alone', () => wav(1).subarray(0, 20)],
  ['a playlist', () => Buffer.from('#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n')],
]
for (const [name, file] of broken) {
  test(`null for ${name}`, async t => {
    t.is(await measure(await file()), null)
  })
}

test('null when time is up', async t => {
  const never: RangeFile = { bytes: 1000, read: () => new Promise(() => {}) }
  const mp4 = await movie('mp4', { videoS: 1 })
  const slow: RangeFile = {
    ...never,
    read: async (start, end) => (start < 12 ? mp4.subarray(start, end) : never.read(0, 1)),
  }
  t.is(await measureMedia(slow, 2_000, owner), null)
  t.is(await measureMedia(never, 2_000, owner), null)
})

test('the error of the storage when reading fails', async t => {
  const away = { bytes: 1000, read: () => Promise.reject(new Error('storage is away')) }
  await t.throwsAsync(measureMedia(away, timeoutMs, owner), { message: 'storage is away' })
})

test('no more than a part of a large file is read for its tables', async t => {
  const file = await movie('mp4', { videoS: 2 })
  // The tables are in front; what follows them is free space.
  const free = Buffer.alloc(30_000_000)
  free.writeUInt32BE(free.length, 0)
  free.write('free', 4)
  const large = Buffer.concat([file, free])
  let bytesRead = 0
  const read = async (start: number, end: number) => {
    bytesRead += end - start
    return large.subarray(start, end)
  }
  t.is((await measureMedia({ bytes: large.length, read }, timeoutMs, owner))?.seconds, 2)
  t.true(bytesRead < 5_000_000, `${bytesRead} bytes read`)
})

test('measured on another thread when it is large: the same length', async t => {
  t.is((await measure(mp3(5_000)))?.seconds, Math.round(5_000 * mp3FrameS * 1e6) / 1e6)
  const lengths = await Promise.all(Array.from({ length: 6 }, (_, i) => measure(mp3(1_000 + i))))
  t.deepEqual(
    lengths.map(length => length?.seconds),
    lengths.map((_, i) => Math.round((1_000 + i) * mp3FrameS * 1e6) / 1e6),
  )
  const away = { bytes: 1_000_000, read: () => Promise.reject(new Error('storage is away')) }
  await t.throwsAsync(measureMedia(away, timeoutMs, owner), { message: 'storage is away' })
})

test('null for a file that was made to take forever, while everything else goes on', async t => {
  const endless = measureMedia(fileOf(mp4Stating('ctts', 0xffff_fff0)), 2_000, owner)
  let turns = 0
  let turning = setImmediate(function turn() {
    turns++
    turning = setImmediate(turn)
  })
  t.is(await endless, null)
  clearImmediate(turning)
  t.true(turns > 10, `${turns} turns`)
  t.is((await measure(mp3(2_000)))?.seconds, Math.round(2_000 * mp3FrameS * 1e6) / 1e6)
})

test('null at once for a file that ended its process before, whoever sends it, and not for others of its size', async t => {
  const bomb = mp4Stating('ctts', 0xffff_ffff)
  const reads: [start: number, end: number][] = []
  const file: RangeFile = {
    bytes: bomb.length,
    read: async (start, end) => {
      reads.push([start, end])
      return bomb.subarray(start, end)
    },
  }
  t.is(await measureMedia(file, timeoutMs, owner), null)
  reads.length = 0
  const others = ['live', 'test'].map(environment => ({ organisationId: 'another', environment }) as SlotOwner)
  for (const other of others) t.is(await measureMedia(file, timeoutMs, other), null)
  t.deepEqual(reads, Array(2).fill([0, bomb.length]), 'read for its digest alone')
  const harmless = mp4Stating('ctts', 2)
  t.is(harmless.length, bomb.length)
  t.is((await measure(harmless))?.seconds, 1.02322)
})
