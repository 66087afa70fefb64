import { startDeepgram } from '../../emulators/deepgram.ts'
import { startElevenLabs } from '../../emulators/elevenlabs.ts'
import { Emulator } from '../../emulators/emulator.ts'
import { startFal } from '../../emulators/fal.ts'
import { startGeminiMedia } from '../../emulators/gemini-media.ts'
import { openAiAudio, startOpenAiAudio } from '../../emulators/openai-audio.ts'
import { openAiImages } from '../../emulators/openai-images.ts'
import { startOpenRouterImages } from '../../emulators/openrouter-images.ts'
import { startReplicate } from '../../emulators/replicate.ts'
import { startRunway } from '../../emulators/runway.ts'
import type { Json, WorkEmulator } from '../../emulators/slow-work.ts'

/** Every provider of images and sound on a local port. */

export const upstreamSecret = 'upstream-secret-0123456789'

/** Work that is looked at is finished at once. */
const autoFinish = 1
const soundsOf = (files: string, { duration = 2, seconds, output_format = 'mp3' }: Json) =>
  seconds ? { noise: `${files}/sound-${seconds}.mp3` } : `${files}/sound-${duration}.${output_format}`

const startOpenAi = () =>
  Emulator.start((request, response) =>
    (request.path.startsWith('/v1/images/') ? openAiImages : openAiAudio)(request, response),
  )

/** How each is started, and the path of its base URL. */
const starts: Record<string, [start: () => Promise<Emulator | WorkEmulator>, path: string]> = {
  openai: [startOpenAi, '/v1'],
  groq: [startOpenAiAudio, '/openai/v1'],
  openrouter: [startOpenRouterImages, '/api/v1'],
  gemini: [startGeminiMedia, ''],
  elevenlabs: [startElevenLabs, ''],
  deepgram: [startDeepgram, ''],
  fal: [() => startFal({ autoFinish }), ''],
  replicate: [() => startReplicate({ autoFinish, output: soundsOf }), '/v1'],
  runway: [() => startRunway({ autoFinish }), '/v1'],
}

export type Providers = {
  emulators: ReadonlyMap<string, Emulator>
  /** Environment variables of a gateway that knows them. */
  env: Record<string, string>
  close(): Promise<void>
}

export async function startProviders(): Promise<Providers> {
  const emulators = new Map<string, Emulator>()
  const env: Record<string, string> = { ALLOW_PRIVATE_URLS: 'true' }
  for (const [name, [start, path]] of Object.entries(starts)) {
    const started = await start()
    emulators.set(name, 'emulator' in started ? started.emulator : started)
    env[`${name.toUpperCase()}_API_KEY`] = name === 'fal' ? `id:${upstreamSecret}` : upstreamSecret
    // Files have another origin than the API, as they do there.
    env[`${name.toUpperCase()}_BASE_URL`] = started.url.replace('127.0.0.1', 'localhost') + path
  }
  const close = async () => {
    for (const emulator of emulators.values()) await emulator.close()
  }
  return { emulators, env, close }
}
