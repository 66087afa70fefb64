import type { MusicInput } from '../../../shared/kinds/music.ts'
import type { SfxInput } from '../../../shared/kinds/sfx.ts'
import type { SpeechInput } from '../../../shared/kinds/speech.ts'
import type { TranscriptionInput } from '../../../shared/kinds/transcription.ts'
import { elevenlabs } from '../../../shared/providers/adapters/elevenlabs/protocol.ts'
import { error, startElevenLabs, voices } from '../../emulators/elevenlabs.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { plainTranscription } from '../../support/media/openai-audio-calls.ts'
import { sound } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'

const subject = {
  provider: 'elevenlabs',
  protocol: elevenlabs,
  start: startElevenLabs,
  error: (status: number, message: string) => error(status, 'refused', message),
}

const speech: SpeechInput = {
  text: 'Good morning. How are you today?',
  voice: voices[0]!,
  format: 'mp3',
  speed: 1,
  instructions: null,
}
const speechCall = (changes: Partial<SpeechInput> = {}) =>
  syncCallOf<'speech'>('elevenlabs', 'eleven-flash-v2.5', { ...speech, ...changes })
conforms(test, {
  ...subject,
  name: 'ElevenLabs speech',
  kind: 'speech',
  call: speechCall,
  others: {
    'as Opus': () => speechCall({ format: 'opus' }),
    'as samples': () => speechCall({ format: 'pcm' }),
    faster: () => speechCall({ speed: 1.2 }),
  },
})
conforms(test, {
  ...subject,
  name: 'ElevenLabs speech as WAV',
  kind: 'speech',
  call: () => speechCall({ format: 'wav' }),
})

const music: MusicInput = { prompt: 'A waltz', lyrics: null, durationS: 3, instrumental: true, format: 'mp3' }
conforms(test, {
  ...subject,
  name: 'ElevenLabs music',
  kind: 'music',
  call: () => syncCallOf<'music'>('elevenlabs', 'eleven-music-v2', music),
  others: {
    'with lyrics': () =>
      syncCallOf<'music'>('elevenlabs', 'eleven-music-v2', { ...music, lyrics: 'La la', instrumental: false }),
  },
})

const sfx: SfxInput = { prompt: 'A door', durationS: 1, format: 'mp3' }
conforms(test, {
  ...subject,
  name: 'ElevenLabs sound effects',
  kind: 'sfx',
  call: () => syncCallOf<'sfx'>('elevenlabs', 'eleven-sfx-v2', sfx),
})

const file = sourceOf('https://files.example/hello.wav', 'audio/wav', 3, Buffer.from(await sound('wav', 3)))
const transcription: TranscriptionInput = {
  ...plainTranscription,
  format: 'verbose_json',
  segments: true,
  words: true,
  seconds: 3,
}
const transcriptionCall = (changes: Partial<TranscriptionInput> = {}) =>
  syncCallOf<'transcription'>('elevenlabs', 'scribe-v2', { ...transcription, ...changes }, { audio_url: file })
conforms(test, {
  ...subject,
  name: 'ElevenLabs transcription',
  kind: 'transcription',
  call: transcriptionCall,
  others: {
    'without times': () => transcriptionCall({ format: 'text', segments: false, words: false, language: 'en' }),
  },
})
