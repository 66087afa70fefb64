import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { measureMedia } from '../../shared/io/media/media-processes.ts'
import { crc } from '../../shared/providers/sandbox/media/crc.ts'
import { startDeepgram } from '../emulators/deepgram.ts'
import { startElevenLabs } from '../emulators/elevenlabs.ts'
import { startOpenAiAudio } from '../emulators/openai-audio.ts'
import { startGateway } from '../support/gateway.ts'
import { formOf, formType, partOf } from '../support/io/raw-requests.ts'
import { movie, mp3, mp3FrameS } from '../support/media/media-files.ts'
import { sound } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

const openai = use(test, startOpenAiAudio)
const deepgram = use(test, startDeepgram)
const elevenlabs = use(test, startElevenLabs)
const emulators = [openai, deepgram, elevenlabs]
const stores = useStores(test)
const gateway = useGateway(
  test,
  () => ({
    OPENAI_API_KEY: 'secret',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    GROQ_API_KEY: 'secret',
    GROQ_BASE_URL: `${openai.url}/openai/v1`,
    DEEPGRAM_API_KEY: 'secret',
    DEEPGRAM_BASE_URL: deepgram.url,
    ELEVENLABS_API_KEY: 'secret',
    ELEVENLABS_BASE_URL: elevenlabs.url,
  }),
  { stores },
)
const account = use(test, () => gateway.account())
test.beforeEach(() => {
  for (const emulator of emulators) emulator.reset()
})

async function transcribe(
  model: string,
  bytes: Buffer,
  name: string,
  type = 'application/octet-stream',
  { url } = gateway,
) {
  const body = formOf(partOf('model', model), partOf('file', bytes, name, type))
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
  const response = await fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', headers, body })
  // biome-ignore lint/suspicious/noExplicitAny: what the route answers is what is tested
  const json = (await response.json()) as any
  const converted = response.headers.get('x-gateway-converted')
  return { status: response.status, json, seconds: json.usage?.seconds as number | undefined, converted }
}

const recorded = (file: string) => readFileSync(join(import.meta.dirname, '../fixtures/media', file))
const cutMp3 = () => mp3(400).subarray(300)
const all = ['whisper-1', 'whisper-large-v3', 'nova-3', 'scribe-v2']
const notOpenAi = ['nova-3', 'scribe-v2']

const taken: [file: string, bytes: () => Buffer | Promise<Buffer>, seconds: number, models: string[]][] = [
  ['screen.webm', () => movie('webm', { videoS: 2, audioS: 3 }), 3, all],
  ['video.mp4', () => movie('mp4', { videoS: 3, audioS: 2 }), 2, all],
  ['voice.mp4', () => movie('mp4', { audioS: 2 }), 2, all],
  ['disc.mpg', () => recorded('disc.mpg'), 1.008, all],
  ['telephone.wav', () => recorded('gsm.wav'), 1, all],
  ['dictation.wav', () => recorded('adpcm.wav'), 1.0205, all],
  ['layer.wav', () => recorded('mp3-in.wav'), 1.152, all],
  ['broadcast.wav', () => recorded('rf64.wav'), 1, all],
  ['speex.ogg', () => recorded('speex.ogg'), 1, all],
  ['skeleton.oga', withSkeleton, 1, all],
  ['part.mp3', cutMp3, 399 * mp3FrameS, all],
  ['gap.mp3', () => Buffer.concat([Buffer.alloc(2_000), mp3(400)]), 400 * mp3FrameS, all],
  ['clip.mov', () => recorded('trimmed.mov'), 0.274, notOpenAi],
  ['obs.mkv', () => movie('mkv', { videoS: 1, audioS: 2 }), 2, notOpenAi],
  ['camera.avi', () => recorded('camera.avi'), 1.152, notOpenAi],
  ['apple.aiff', () => recorded('apple.aiff'), 1, notOpenAi],
  ['part.aac', () => recorded('voice.aac').subarray(50), 1.024, notOpenAi],
  ['apple.caf', () => recorded('apple.caf'), 1, ['nova-3']],
  ['sony.w64', () => recorded('sony.w64'), 1, ['nova-3']],
  ['dictaphone.wma', () => recorded('dictaphone.wma'), 0.992, ['nova-3']],
  ['dolby.ac3', () => recorded('dolby.ac3'), 1.008, ['nova-3']],
  ['broadcast.ts', () => recorded('broadcast.mpegts'), 1.152, ['nova-3']],
]

/** Opus whose file begins with a skeleton, which describes the tracks (nothings/stb#678). */
async function withSkeleton(): Promise<Buffer> {
  const opus = await sound('opus', 1)
  const fishead = Buffer.alloc(64)
  fishead.write('fishead\0\u0003', 'latin1')
  const firstPageBytes = opus.indexOf('OggS', 1)
  const [begin, end] = [2, 4]
  return Buffer.concat([
    skeletonPage(0, begin, fishead),
    opus.subarray(0, firstPageBytes),
    skeletonPage(1, end, Buffer.alloc(0)),
    opus.subarray(firstPageBytes),
  ])
}

function skeletonPage(number: number, flags: number, packet: Buffer): Buffer {
  const page = Buffer.concat([Buffer.alloc(27), Buffer.of(packet.length), packet])
  page.write('OggS', 'latin1')
  page[5] = flags
  page.writeUInt32LE(99, 14)
  page.writeUInt32LE(number, 18)
  page[26] = 1
  page.writeUInt32LE(crc(page, 32, 0x04c1_1db7), 22)
  return page
}

for (const [file, bytes, seconds, models] of taken) {
  test.serial(`200 for the sound of ${file}, by its length, converted for providers that do not take it`, async t => {
    const content = await bytes()
    for (const model of models) {
      const answer = await transcribe(model, content, file)
      t.is(answer.status, 200, `${model}: ${answer.json.error?.message}`)
      t.true(Math.abs(answer.seconds! - seconds) < 0.04, `${model}: ${answer.seconds} s`)
      t.is(answer.converted, null, model)
    }
    for (const model of all.filter(one => !models.includes(one))) {
      for (const emulator of emulators) emulator.reset()
      const answer = await transcribe(model, content, file)
      t.is(answer.status, 200, `${model}: ${answer.json.error?.message}`)
      t.true(Math.abs(answer.seconds! - seconds) < 0.04, `${model}: billed by the file that was sent to the gateway`)
      t.regex(answer.converted ?? '', /^(?:audio|video)\/[\w.-]+; to=audio\/flac$/)
      const [sent] = emulators.flatMap(({ requests }) => requests)
      const flac = fileIn(sent!.raw, `${file}.flac`)
      const length = await measureMedia(
        { bytes: flac.length, read: async (start, end) => flac.subarray(start, end) },
        ...[10_000, { organisationId: 'org', environment: 'live' as const }],
      )
      t.like(length, { container: 'flac', codec: 'flac', hasVideo: false })
      t.true(Math.abs(length!.seconds - seconds) < 0.06, `${model}: ${length!.seconds} s were sent`)
    }
  })
}

/** The file of a form. */
function fileIn(raw: Buffer, name: string): Buffer {
  const head = raw.indexOf(`filename="${name}"\r\n`)
  const type = raw.toString('latin1', head).match(/content-type: (\S+)\r\n\r\n/i)!
  if (head < 0 || type[1] !== 'audio/flac') throw new Error(`no ${name}`)
  const start = head + type.index! + type[0].length
  return raw.subarray(start, raw.indexOf('\r\n--', start))
}

test.serial('400 for a format that the provider does not take: its sound cannot be decoded', async t => {
  const charges = () => gateway.services.db.ledgerEntry.count({ where: { kind: 'charge' } })
  const file = Buffer.from(recorded('apple.caf'))
  file.write('QDM2', file.indexOf('ulaw'), 'latin1')
  await gateway.settled()
  const before = await charges()
  const { status, json } = await transcribe('whisper-1', file, 'apple.caf')
  t.is(status, 400)
  t.like(json.error, { code: 'unsupported_capability', param: 'file' })
  t.regex(json.error.message, /takes no audio\/x-caf, and its sound cannot be decoded/)
  t.is(openai.requests.length, 0)
  await gateway.settled()
  t.is(await charges(), before)
})

test.serial('400 for a format that the provider does not take, with CONVERT_MEDIA=false', async t => {
  const plain = await startGateway(stores, {
    OPENAI_API_KEY: 'secret',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    CONVERT_MEDIA: 'false',
  })
  t.teardown(() => plain.close())
  for (const file of ['apple.caf', 'camera.avi', 'dictaphone.wma']) {
    const { status, json, converted } = await transcribe('whisper-1', recorded(file), file, undefined, plain)
    t.is(status, 400)
    t.is(converted, null)
    t.like(json.error, { code: 'unsupported_capability', param: 'file' })
    t.regex(json.error.message, /takes no (?:audio|video)\/\S+, but files of these formats: .*wav/)
  }
  t.is(openai.requests.length, 0, 'what a provider does not list is not sent')
})

test.serial('200 under a name by which the provider knows the format, whatever its own is', async t => {
  for (const [bytes, name, sentAs] of [
    [await movie('mp4', { videoS: 1, audioS: 1 }), 'a.m4v', 'a.m4v.mp4'],
    [await movie('mp4', { audioS: 1 }), 'a.mp4', 'a.mp4.m4a'],
    [await movie('webm', { videoS: 1, audioS: 1 }), 'recording', 'recording.webm'],
    [recorded('disc.mpg'), 'disc.mpg', 'disc.mpg.mpeg'],
    [recorded('rf64.wav'), 'long.rf64', 'long.rf64.wav'],
  ] as const) {
    openai.reset()
    t.is((await transcribe('whisper-1', bytes, name)).status, 200)
    t.regex(openai.requests[0]!.raw.toString('latin1'), new RegExp(`filename="${sentAs}"`))
  }
})

test.serial('415 for a video without sound, and for a sound that is none', async t => {
  for (const bytes of [await movie('webm', { videoS: 1 }), await movie('mp4', { videoS: 1 })])
    t.is((await transcribe('whisper-1', bytes, 'silent')).status, 415)
  t.is((await transcribe('nova-3', Buffer.from('no sound at all '.repeat(2_000)), 'text.mp3')).status, 415)
})
