import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startDeepgram } from '../emulators/deepgram.ts'
import { startElevenLabs } from '../emulators/elevenlabs.ts'
import { startOpenAiAudio } from '../emulators/openai-audio.ts'
import { formOf, formType, partOf } from '../support/io/raw-requests.ts'
import { adts, adtsFrameS, movie, mp3, mp3FrameS } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const emulators = use(test, async () => ({
  openai: await startOpenAiAudio(),
  deepgram: await startDeepgram(),
  elevenlabs: await startElevenLabs(),
}))
const gateway = useGateway(test, () => {
  const { openai, deepgram, elevenlabs } = emulators
  return {
    ...{ OPENAI_API_KEY: 'secret', OPENAI_BASE_URL: `${openai.url}/v1` },
    ...{ GROQ_API_KEY: 'secret', GROQ_BASE_URL: `${openai.url}/openai/v1` },
    ...{ DEEPGRAM_API_KEY: 'secret', DEEPGRAM_BASE_URL: deepgram.url },
    ...{ ELEVENLABS_API_KEY: 'secret', ELEVENLABS_BASE_URL: elevenlabs.url },
  }
})
const account = use(test, () => gateway.account())
test.beforeEach(() => {
  for (const emulator of Object.values(emulators)) emulator.reset()
})
test.after.always(async () => {
  for (const emulator of Object.values(emulators ?? {})) await emulator.close()
})

async function transcribe(model: string, bytes: Buffer, name: string, type = 'application/octet-stream') {
  const body = formOf(partOf('model', model), partOf('file', bytes, name, type))
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
  const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body })
  // biome-ignore lint/suspicious/noExplicitAny: what the route answers is what is tested
  const json = (await response.json()) as any
  return { status: response.status, json, seconds: json.usage?.seconds as number | undefined }
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
  ['part.mp3', cutMp3, 399 * mp3FrameS, all],
  ['gap.mp3', () => Buffer.concat([Buffer.alloc(2_000), mp3(400)]), 400 * mp3FrameS, all],
  ['clip.mov', () => recorded('trimmed.mov'), 0.274, notOpenAi],
  ['obs.mkv', () => movie('mkv', { videoS: 1, audioS: 2 }), 2, notOpenAi],
  ['camera.avi', () => recorded('camera.avi'), 1.152, notOpenAi],
  ['apple.aiff', () => recorded('apple.aiff'), 1, notOpenAi],
  ['part.aac', () => adts(200).subarray(50), 199 * adtsFrameS, notOpenAi],
  ['apple.caf', () => recorded('apple.caf'), 1, ['nova-3']],
  ['sony.w64', () => recorded('sony.w64'), 1, ['nova-3']],
  ['dictaphone.wma', () => recorded('dictaphone.wma'), 0.992, ['nova-3']],
  ['dolby.ac3', () => recorded('dolby.ac3'), 1.008, ['nova-3']],
  ['broadcast.ts', () => recorded('broadcast.mpegts'), 1.152, ['nova-3']],
]
for (const [file, bytes, seconds, models] of taken) {
  test.serial(`200 for the sound of ${file}, by its length, of each model whose provider takes it`, async t => {
    const content = await bytes()
    for (const model of models) {
      const answer = await transcribe(model, content, file)
      t.is(answer.status, 200, `${model}: ${answer.json.error?.message}`)
      t.true(Math.abs(answer.seconds! - seconds) < 0.04, `${model}: ${answer.seconds} s`)
    }
    for (const model of all.filter(one => !models.includes(one))) {
      const { status, json } = await transcribe(model, content, file)
      t.is(status, 400, model)
      t.like(json.error, { code: 'unsupported_capability', param: 'file' })
      t.regex(json.error.message, /takes no (?:audio|video)\/\S+, but files of these formats: .*wav/)
    }
    const sent = Object.values(emulators).flatMap(({ requests }) => requests)
    t.is(sent.length, models.length, 'what a provider does not list is not sent')
  })
}

test.serial('200 under a name by which the provider knows the format, whatever its own is', async t => {
  for (const [bytes, name, sentAs] of [
    [await movie('mp4', { videoS: 1, audioS: 1 }), 'a.m4v', 'a.m4v.mp4'],
    [await movie('mp4', { audioS: 1 }), 'a.mp4', 'a.mp4.m4a'],
    [await movie('webm', { videoS: 1, audioS: 1 }), 'recording', 'recording.webm'],
    [recorded('disc.mpg'), 'disc.mpg', 'disc.mpg.mpeg'],
    [recorded('rf64.wav'), 'long.rf64', 'long.rf64.wav'],
  ] as const) {
    emulators.openai.reset()
    t.is((await transcribe('whisper-1', bytes, name)).status, 200)
    t.regex(emulators.openai.requests[0]!.raw.toString('latin1'), new RegExp(`filename="${sentAs}"`))
  }
})

test.serial('415 for a video without sound, and for a sound that is none', async t => {
  for (const bytes of [await movie('webm', { videoS: 1 }), await movie('mp4', { videoS: 1 })])
    t.is((await transcribe('whisper-1', bytes, 'silent')).status, 415)
  t.is((await transcribe('nova-3', Buffer.from('no sound at all '.repeat(2_000)), 'text.mp3')).status, 415)
})
