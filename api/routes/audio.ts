import { runInstant } from '../../shared/instant/run.ts'
import { deliverSound, type SoundKind } from '../../shared/instant/sounds.ts'
import { deliverTranscript } from '../../shared/instant/transcripts.ts'
import { musicRequest } from '../../shared/kinds/music.ts'
import { sfxRequest } from '../../shared/kinds/sfx.ts'
import { soundTypes } from '../../shared/kinds/sound.ts'
import { speechRequest } from '../../shared/kinds/speech.ts'
import {
  maxSampleBytes,
  mostTranscribedBytes,
  type TranscriptionRequest,
  transcriptionRequest,
  translationRequest,
} from '../../shared/kinds/transcription-request.ts'
import { generationHeaders } from '../answer-headers.ts'
import { type Direct, direct, type Endpoint, type Form } from '../endpoint.ts'
import { speechEvent, transcriptAnswer } from '../instant-answers.ts'
import { addressesOf, typed, withObject } from '../middleware/form.ts'
import { instantModels } from './instant.ts'
import { modelErrors } from './model-errors.ts'

const tag = 'Audio'
type Body = { model?: string | undefined }
const access = { scope: '*' } as const
const soundAnswer = {
  200: {
    description: 'The sound, as it is made.',
    headers: generationHeaders,
    contentType: soundTypes.mp3,
    also: [...new Set(Object.values(soundTypes))].filter(type => type !== soundTypes.mp3),
  },
}

/** Has sound made and sent. */
async function play(kind: SoundKind, request: Direct<Body>, asEvents = false): Promise<void> {
  const { services, known, body, requestId, client, wide } = request
  const order = { kind, known, requestId, body, stream: true, events: asEvents }
  const report = await runInstant(services, { ...order, deliver: delivery => deliverSound(delivery, asEvents) }, client)
  Object.assign(wide, report)
}

const createSpeech = direct({
  method: 'post',
  path: '/v1/audio/speech',
  operationId: 'createSpeech',
  tag,
  summary: 'Create speech',
  description:
    'The bytes are sent as they are made; with `stream_format: "sse"` as events. Billed per character or per token, as the model is priced.',
  access,
  body: speechRequest,
  example: { model: 'tts-1', input: 'The quick brown fox jumped over the lazy dog.', voice: 'alloy' },
  answers: { 200: { ...soundAnswer[200], events: speechEvent } },
  errors: [...modelErrors],
  handle: request => play('speech', request, request.body.stream_format === 'sse'),
})

/** OpenAI's multipart form: the sound is a file. */
const transcriptionForm: Form = {
  files: [
    { name: 'file', required: true, mostBytes: mostTranscribedBytes, description: 'The sound, of at most 25 MiB.' },
  ],
  lists: [
    ...['timestamp_granularities', 'include', 'keywords', 'languages'],
    ...['known_speaker_names', 'known_speaker_references'],
  ],
  // A hundred keywords, and all the others.
  maxFields: 160,
  // Samples of speakers are `data:` URIs.
  maxFieldBytes: Math.ceil((maxSampleBytes * 4) / 3) + 1_024,
  names: { audio_url: 'file' },
  example: { file: 'meeting.wav', model: 'whisper-1' },
  passing: true,
  async toBody(fields, uploads, services) {
    const [audio_url] = await addressesOf(services, uploads, 'file')
    const values = withObject(typed(fields, { numbers: ['temperature'], flags: ['stream'] }), 'chunking_strategy', {
      numbers: ['prefix_padding_ms', 'silence_duration_ms', 'threshold'],
    })
    return { ...values, audio_url }
  },
}

const createTranscription = direct({
  method: 'post',
  path: '/v1/audio/transcriptions',
  operationId: 'createTranscription',
  tag,
  summary: 'Create a transcription',
  description:
    'A multipart form with a `file`, or JSON with an `audio_url`. Billed per minute of the sound’s measured length, or per token, as the model is priced.',
  access,
  body: transcriptionRequest,
  example: { model: 'whisper-1', audio_url: 'https://example.com/meeting.wav' },
  form: transcriptionForm,
  answers: {
    200: {
      description: 'The transcript, in the format that was asked for.',
      schema: transcriptAnswer,
      headers: generationHeaders,
      also: ['text/plain'],
    },
  },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle: request => writeDown(request, request.body),
})

const createTranslation = direct({
  method: 'post',
  path: '/v1/audio/translations',
  operationId: 'createTranslation',
  tag,
  summary: 'Create a translation',
  description:
    'The text in English, whatever language is spoken; for models whose row has `translates`. Billed as transcriptions are.',
  access,
  body: translationRequest,
  example: { model: 'whisper-1', audio_url: 'https://example.com/meeting.wav' },
  form: {
    files: transcriptionForm.files,
    names: { audio_url: 'file' },
    example: { file: 'meeting.wav', model: 'whisper-1' },
    passing: true,
    async toBody(fields, uploads, services) {
      const [audio_url] = await addressesOf(services, uploads, 'file')
      return { ...typed(fields, { numbers: ['temperature'] }), audio_url }
    },
  },
  answers: {
    200: {
      description: 'The text, in the format that was asked for.',
      schema: transcriptAnswer,
      headers: generationHeaders,
      also: ['text/plain'],
    },
  },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle: request => writeDown(request, { ...request.body, translate: true }),
})

/** Has sound written down and answers with it. */
async function writeDown(
  { services, known, requestId, client, wide }: Direct<unknown>,
  body: TranscriptionRequest,
): Promise<void> {
  const events = body.stream === true
  const order = { kind: 'transcription' as const, known, requestId, body, stream: events, events }
  const report = await runInstant(services, { ...order, deliver: deliverTranscript }, client)
  Object.assign(wide, report)
}

const createMusic = direct({
  method: 'post',
  path: '/v1/audio/music',
  operationId: 'createMusic',
  tag,
  summary: 'Create music',
  description: 'A song or a piece of music from a prompt; one price per song.',
  access,
  body: musicRequest,
  example: { prompt: 'A slow waltz for two cellos', duration_s: 30, instrumental: true },
  answers: soundAnswer,
  errors: [...modelErrors],
  handle: request => play('music', request),
})

const createSfx = direct({
  method: 'post',
  path: '/v1/audio/sfx',
  operationId: 'createSoundEffect',
  tag,
  summary: 'Create a sound effect',
  description: 'One price per effect where the catalog has one, else free.',
  access,
  body: sfxRequest,
  example: { prompt: 'A heavy wooden door creaks open', duration_s: 3 },
  answers: soundAnswer,
  errors: [...modelErrors],
  handle: request => play('sfx', request),
})

export const audioRoutes: Endpoint[] = [
  createSpeech,
  createTranscription,
  createTranslation,
  createMusic,
  instantModels('music', tag, 'listMusicModels', 'List music models'),
  createSfx,
  instantModels('sfx', tag, 'listSoundEffectModels', 'List sound effect models'),
]
