import type { z } from 'zod'
import { musicRequest } from '../../shared/kinds/music.ts'
import { sfxRequest } from '../../shared/kinds/sfx.ts'
import { soundTypes } from '../../shared/kinds/sound.ts'
import { speechRequest } from '../../shared/kinds/speech.ts'
import {
  maxSampleBytes,
  maxTranscribedBytes,
  type TranscriptionRequest,
  transcriptionRequest,
  translationRequest,
  withAudioUrl,
} from '../../shared/kinds/transcription-request.ts'
import { deliverSound, type SoundKind } from '../../shared/media/sounds.ts'
import { deliverTranscript } from '../../shared/media/transcripts.ts'
import type { Platform } from '../../shared/platform.ts'
import { mergeObjectField, parseFields, uploadUrls } from '../body/form.ts'
import { knownFields } from '../body/known-fields.ts'
import type { Fields } from '../body/multipart.ts'
import {
  type Endpoint,
  endpointWithoutKoa,
  type Form,
  type JsonBody,
  type RequestWithoutKoa,
  type Upload,
} from '../endpoint.ts'
import { type AnswerHeaderName, generationHeaders } from '../schemas/headers.ts'
import { speechEvent, transcriptAnswer } from '../schemas/media.ts'
import { modelErrors } from './model-errors.ts'
import { mediaModelList } from './model-list.ts'
import { timeoutHeader } from './request-headers.ts'
import { runMediaRequest } from './run-media-request.ts'

const tag = 'Audio'
type Body = { model?: string | undefined }
const access = { scope: '*' } as const
const soundAnswer = {
  200: {
    description: 'The audio, streamed as it is generated.',
    headers: [...generationHeaders, 'x-gateway-dropped'] satisfies AnswerHeaderName[],
    contentType: soundTypes.mp3,
    also: [...new Set(Object.values(soundTypes))].filter(type => type !== soundTypes.mp3),
  },
}

/** Generates audio and streams it. */
function createSound(
  kind: SoundKind,
  schema: z.ZodObject,
  request: RequestWithoutKoa<Body>,
  asEvents = false,
): Promise<void> {
  const { body, dropped } = knownFields(schema, request.body)
  return runMediaRequest(request, {
    kind,
    body,
    dropped,
    stream: true,
    events: asEvents,
    deliver: delivery => deliverSound(delivery, asEvents),
  })
}

const createSpeech = endpointWithoutKoa({
  method: 'post',
  path: '/v1/audio/speech',
  operationId: 'createSpeech',
  tag,
  summary: 'Create speech',
  description:
    'Generates audio from text. The bytes are streamed as they are generated; with `stream_format: "sse"`, as events. Billed per character or per token, depending on the model. Other fields are left out and named in `x-gateway-dropped`.',
  access,
  headers: [timeoutHeader],
  body: speechRequest,
  example: { model: 'tts-1', input: 'The quick brown fox jumped over the lazy dog.', voice: 'alloy' },
  answers: { 200: { ...soundAnswer[200], events: speechEvent } },
  errors: [...modelErrors],
  handle: request => createSound('speech', speechRequest, request, request.body.stream_format === 'sse'),
})

/** The form of a request for a transcript: fields under their names in JSON, with the URL of its file or the one that they name. */
async function withSound(fields: Fields, uploads: Upload[], services: Platform): Promise<Record<string, unknown>> {
  const [audio_url] = await uploadUrls(services, uploads, 'file')
  return audio_url === undefined ? (withAudioUrl(fields) as Fields) : { ...fields, audio_url }
}

function hasUrl(fields: Fields): boolean {
  return Object.hasOwn(withAudioUrl(fields) as Fields, 'audio_url')
}

/** JSON with the sound under its name here. */
function readSound({ value, raw }: JsonBody): JsonBody {
  return { value: withAudioUrl(value), raw }
}

/** OpenAI's multipart form: the audio is a file. */
const transcriptionForm: Form = {
  files: [
    { name: 'file', required: true, maxBytes: maxTranscribedBytes, description: 'The audio file, at most 25 MiB.' },
  ],
  lists: [
    ...['timestamp_granularities', 'include', 'keywords', 'languages'],
    ...['known_speaker_names', 'known_speaker_references'],
  ],
  // A hundred keywords, and all other fields.
  maxFields: 160,
  // Speaker samples are `data:` URIs.
  maxFieldBytes: Math.ceil((maxSampleBytes * 4) / 3) + 1_024,
  names: { audio_url: 'file' },
  hasUrl,
  example: { file: 'meeting.wav', model: 'whisper-1' },
  passing: true,
  async toBody(fields, uploads, services) {
    const values = parseFields(await withSound(fields, uploads, services), {
      numbers: ['temperature'],
      flags: ['stream'],
    })
    const numbers = ['prefix_padding_ms', 'silence_duration_ms', 'threshold']
    return mergeObjectField(values, 'chunking_strategy', { numbers })
  },
}

const transcriptHeaders: AnswerHeaderName[] = [...generationHeaders, 'x-gateway-converted', 'x-gateway-dropped']

const createTranscription = endpointWithoutKoa({
  method: 'post',
  path: '/v1/audio/transcriptions',
  operationId: 'createTranscription',
  tag,
  summary: 'Create a transcription',
  description:
    'Transcribes audio, sent as a multipart form with a `file` or as JSON with an `audio_url`. Billed per minute of the measured audio length or per token, depending on the model. Other fields are left out and named in `x-gateway-dropped`.',
  access,
  headers: [timeoutHeader],
  body: transcriptionRequest,
  readBody: readSound,
  example: { model: 'whisper-1', audio_url: 'https://example.com/meeting.wav' },
  form: transcriptionForm,
  answers: {
    200: {
      description: 'The transcript, in the requested format.',
      schema: transcriptAnswer,
      headers: transcriptHeaders,
      also: ['text/plain'],
    },
  },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle: request => transcribe(request, knownFields(transcriptionRequest, request.body)),
})

const createTranslation = endpointWithoutKoa({
  method: 'post',
  path: '/v1/audio/translations',
  operationId: 'createTranslation',
  tag,
  summary: 'Create a translation',
  description:
    'Translates audio of any language into English text. Requires a model whose row has `translates`. Billed like transcriptions. Other fields are left out and named in `x-gateway-dropped`.',
  access,
  headers: [timeoutHeader],
  body: translationRequest,
  readBody: readSound,
  example: { model: 'whisper-1', audio_url: 'https://example.com/meeting.wav' },
  form: {
    files: transcriptionForm.files,
    names: { audio_url: 'file' },
    hasUrl,
    example: { file: 'meeting.wav', model: 'whisper-1' },
    passing: true,
    async toBody(fields, uploads, services) {
      return parseFields(await withSound(fields, uploads, services), { numbers: ['temperature'] })
    },
  },
  answers: {
    200: {
      description: 'The translation, in the requested format.',
      schema: transcriptAnswer,
      headers: transcriptHeaders,
      also: ['text/plain'],
    },
  },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle: request => {
    const { body, dropped } = knownFields(translationRequest, request.body)
    return transcribe(request, { body: { ...body, translate: true }, dropped })
  },
})

/** Transcribes audio and responds with the transcript. */
function transcribe(
  request: RequestWithoutKoa<unknown>,
  { body, dropped }: { body: TranscriptionRequest; dropped: readonly string[] },
): Promise<void> {
  const stream = body.stream === true
  return runMediaRequest(request, {
    kind: 'transcription',
    body,
    dropped,
    stream,
    events: stream,
    deliver: deliverTranscript,
  })
}

const createMusic = endpointWithoutKoa({
  method: 'post',
  path: '/v1/audio/music',
  operationId: 'createMusic',
  tag,
  summary: 'Create music',
  description:
    'Generates a song or an instrumental piece from a prompt. Billed at one price per song. Other fields are left out and named in `x-gateway-dropped`.',
  access,
  headers: [timeoutHeader],
  body: musicRequest,
  example: { prompt: 'A slow waltz for two cellos', duration_s: 30, instrumental: true },
  answers: soundAnswer,
  errors: [...modelErrors],
  handle: request => createSound('music', musicRequest, request),
})

const createSfx = endpointWithoutKoa({
  method: 'post',
  path: '/v1/audio/sfx',
  operationId: 'createSoundEffect',
  tag,
  summary: 'Create a sound effect',
  description:
    'Generates a sound effect from a prompt. Billed per effect if the model has a price, otherwise free. Other fields are left out and named in `x-gateway-dropped`.',
  access,
  headers: [timeoutHeader],
  body: sfxRequest,
  example: { prompt: 'A heavy wooden door creaks open', duration_s: 3 },
  answers: soundAnswer,
  errors: [...modelErrors],
  handle: request => createSound('sfx', sfxRequest, request),
})

export const audioRoutes: Endpoint[] = [
  createSpeech,
  createTranscription,
  createTranslation,
  createMusic,
  mediaModelList('music', tag, 'listMusicModels', 'List music models'),
  createSfx,
  mediaModelList('sfx', tag, 'listSoundEffectModels', 'List sound effect models'),
]
