import { soundFormats } from '../../../shared/kinds/sound.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { failure } from '../../emulators/openai.ts'
import { startOpenAiAudio } from '../../emulators/openai-audio.ts'
import { conforms } from '../../support/media/adapter.ts'
import { spoken, transcribed } from '../../support/media/openai-audio-calls.ts'
import { test } from '../../support/test.ts'

const common = {
  provider: 'openai',
  protocol: openai,
  start: startOpenAiAudio,
  error: (status: number, message: string) => failure(status, message, 'error', null),
}

for (const model of ['tts-1', 'gpt-4o-mini-tts']) {
  const others = Object.fromEntries(soundFormats.map(format => [format, () => spoken(model, { format })]))
  conforms(test, { ...common, name: model, kind: 'speech', call: () => spoken(model), others })
}

const verbose = { segments: true, words: true, format: 'verbose_json' } as const
const transcripts = {
  'whisper-1': { json: {}, text: { format: 'text' }, srt: { segments: true, format: 'srt' } },
  'gpt-4o-transcribe': { text: { format: 'text' } },
  'gpt-4o-transcribe-diarize': { speakers: { segments: true, format: 'vtt' }, pieces: { stream: true } },
} as const
for (const [model, others] of Object.entries(transcripts)) {
  const more = model === 'whisper-1' ? verbose : {}
  conforms(test, {
    ...common,
    name: model,
    kind: 'transcription',
    call: () => transcribed(model, more),
    others: Object.fromEntries(Object.entries(others).map(([what, input]) => [what, () => transcribed(model, input)])),
  })
}
conforms(test, {
  ...common,
  name: 'gpt-4o-transcribe in pieces',
  kind: 'transcription',
  call: () => transcribed('gpt-4o-transcribe', { stream: true }),
})
conforms(test, {
  ...common,
  name: 'whisper-large-v3 at Groq',
  provider: 'groq',
  kind: 'transcription',
  call: () => transcribed('whisper-large-v3', verbose, undefined, 'groq'),
})
