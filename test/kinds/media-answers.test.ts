import type { SpeechInput } from '../../shared/kinds/speech.ts'
import { elevenlabs } from '../../shared/providers/adapters/elevenlabs/protocol.ts'
import { gemini } from '../../shared/providers/adapters/gemini/protocol.ts'
import { openai } from '../../shared/providers/adapters/openai/protocol.ts'
import type { ProviderConnection, SyncAdapter, SyncCall } from '../../shared/providers/contract.ts'
import { startElevenLabs } from '../emulators/elevenlabs.ts'
import { type Emulator, framed, json, type Reply, text } from '../emulators/emulator.ts'
import { streamed } from '../emulators/gemini-interactions.ts'
import { startGeminiMedia } from '../emulators/gemini-media.ts'
import { startOpenAiAudio } from '../emulators/openai-audio.ts'
import { connectionTo, providerFault } from '../support/jobs/queued-adapter.ts'
import { syncCallOf } from '../support/media/adapter.ts'
import { taken } from '../support/media/output.ts'
import { speechCall } from '../support/providers/gemini-sound.ts'
import { test } from '../support/test.ts'

/** Answers that are no sound, which of samples without a header only the adapter can tell. */

const protocols = { openai, elevenlabs, gemini }
type Provider = keyof typeof protocols
const starts: Record<Provider, () => Promise<Emulator>> = {
  openai: startOpenAiAudio,
  elevenlabs: startElevenLabs,
  gemini: startGeminiMedia,
}

function spoken(provider: 'openai' | 'elevenlabs', model: string, voice: string): SyncCall<'speech'> {
  const input: SpeechInput = { text: 'Good day.', voice, format: 'pcm', speed: 1, instructions: null }
  return syncCallOf<'speech'>(provider, model, input)
}

/** What becomes of a call for samples that is answered so. */
async function faultOf(provider: Provider, call: SyncCall<'speech'>, reply: Reply) {
  const emulator = await starts[provider]()
  emulator.next(reply)
  const adapter = protocols[provider].synchronous!.speech as SyncAdapter<'speech'>
  const make = (connection: ProviderConnection) =>
    'make' in adapter ? adapter.make(call, connection) : Promise.reject(new Error('slow'))
  try {
    return await providerFault(
      make(connectionTo(provider, protocols[provider], emulator.url)).then(output => taken(output, 'pcm')),
    )
  } finally {
    await emulator.close()
  }
}

const tts = () => spoken('openai', 'tts-1', 'nova')
const words: [what: string, reply: Reply][] = [
  ['JSON', json(200, { audio: 'none today' })],
  ['a page', text(200, '<html>Welcome</html>')],
]
for (const [what, reply] of words)
  for (const [provider, call] of [
    ['openai', tts],
    ['elevenlabs', () => spoken('elevenlabs', 'eleven-v3', 'JBFqnCBsd6RMkjVDRZzb')],
  ] as const)
    test(`invalid_response: ${provider} gives ${what} for samples`, async t => {
      t.is((await faultOf(provider, call(), reply)).reason, 'invalid_response')
    })

const garbage = '<html>Welcome</html>'
const pieces: [what: string, provider: Provider, call: () => SyncCall<'speech'>, reply: Reply][] = [
  [
    'an event of OpenAI’s',
    'openai',
    () => spoken('openai', 'gpt-4o-mini-tts', 'nova'),
    text(200, framed([{ type: 'speech.audio.delta', audio: garbage }, { type: 'speech.audio.done' }])),
  ],
  [
    'an interaction',
    'gemini',
    () => speechCall({ format: 'pcm' }),
    streamed([
      { event_type: 'step.delta', delta: { type: 'audio', mime_type: 'audio/l16', data: garbage } },
      { event_type: 'interaction.completed', interaction: { status: 'completed' } },
    ]),
  ],
  [
    'generated content',
    'gemini',
    () => speechCall({ format: 'pcm' }, 'generateContent'),
    text(
      200,
      framed([
        {
          candidates: [
            { content: { parts: [{ inlineData: { mimeType: 'audio/L16', data: garbage } }] }, finishReason: 'STOP' },
          ],
        },
      ]),
    ),
  ],
]
for (const [what, provider, call, reply] of pieces)
  test(`invalid_response: the sound in ${what} is no base64`, async t => {
    t.is((await faultOf(provider, call(), reply)).reason, 'invalid_response')
  })
