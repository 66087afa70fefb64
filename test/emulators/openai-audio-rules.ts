import { charactersOf } from '../../shared/kinds/sync-kind.ts'
import { decodedSeconds, lengthIn } from '../support/media/sounds.ts'
import { json, type Recorded, type Reply } from './emulator.ts'
import { failure } from './openai.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape, as they came over the wire
type Body = any

const nineVoices = ['nova', 'shimmer', 'echo', 'onyx', 'fable', 'alloy', 'ash', 'sage', 'coral']
const voicesOf: Record<string, string[]> = {
  'tts-1': nineVoices,
  'tts-1-hd': nineVoices,
  'gpt-4o-mini-tts': [...nineVoices, 'ballad', 'verse', 'marin', 'cedar'],
}
const speechFields = ['model', 'input', 'voice', 'instructions', 'response_format', 'speed', 'stream_format']
export const speechFormats: readonly string[] = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']

/** A wrong value as the audio routes report it: FastAPI's list of places as a text, without `param`. */
export function wrongField(field: string, problem: string): Reply {
  const message = `[{'type': 'value_error', 'loc': ('body', '${field}'), 'msg': "${problem}", 'input': '…'}]`
  return json(400, { error: { message, type: 'invalid_request_error', param: null, code: null } })
}

/** A wrong value as the newer routes report it. */
export function wrongParam(param: string | null, message: string, code: string | null = 'invalid_value'): Reply {
  return json(400, { error: { message, type: 'invalid_request_error', param, code } })
}

/** The refusal of a request for speech that is not right; null for one that is. */
export function speechFault(body: Body): Reply | null {
  if (body === null || typeof body !== 'object') return wrongParam(null, 'Could not parse the JSON body.', null)
  const unknown = Object.keys(body).find(name => !speechFields.includes(name))
  if (unknown) return wrongParam(unknown, `Unknown parameter: '${unknown}'.`, 'unknown_parameter')
  const { model, input, voice, instructions, response_format = 'mp3', speed = 1, stream_format = 'audio' } = body
  for (const [field, value] of Object.entries({ model, input, voice }))
    if (typeof value !== 'string' || value === '') return wrongField(field, 'Field required')
  const voices = voicesOf[model]
  if (!voices) return failure(404, `The model '${model}' does not exist.`, 'invalid_request_error', 'model_not_found')
  if (!voices.includes(voice)) return wrongField('voice', `Input should be ${voices.map(one => `'${one}'`).join(', ')}`)
  if (charactersOf(input) > 4_096) return wrongField('input', 'String should have at most 4096 characters')
  if (!speechFormats.includes(response_format)) return wrongField('response_format', 'Input should be a format')
  if (typeof speed !== 'number' || speed < 0.25 || speed > 4) return wrongField('speed', 'Input should be 0.25 to 4')
  if (!['audio', 'sse'].includes(stream_format)) return wrongField('stream_format', "Input should be 'audio' or 'sse'")
  const isFirst = model.startsWith('tts-1')
  if (isFirst && stream_format === 'sse') return wrongParam('stream_format', `${model} does not support sse.`)
  if (isFirst && instructions !== undefined) return wrongParam('instructions', `${model} takes no instructions.`)
  return null
}

type Rules = {
  formats: string[]
  streams: boolean
  maxSeconds?: number
  diarizes?: true
  /** https://github.com/OpenWhispr/openwhispr/issues/405 */
  maxPromptCharacters?: number
  /** Fields that only some models take. */
  fields?: string[]
}
const whisper: Rules = { formats: ['json', 'text', 'srt', 'verbose_json', 'vtt'], streams: false }
const gpt: Rules = { formats: ['json', 'text'], streams: true, maxSeconds: 1_400, fields: ['include[]'] }
const speakerFields = ['known_speaker_names[]', 'known_speaker_references[]']
const groq: Rules = { formats: ['json', 'text', 'verbose_json'], streams: false, maxPromptCharacters: 896 }
const rulesOf: Record<string, Rules> = {
  '/v1 whisper-1': whisper,
  '/v1 gpt-4o-transcribe': gpt,
  '/v1 gpt-4o-mini-transcribe': gpt,
  '/v1 gpt-4o-transcribe-diarize': {
    ...gpt,
    formats: ['json', 'text', 'diarized_json'],
    diarizes: true,
    fields: speakerFields,
  },
  '/v1 gpt-transcribe': { ...gpt, fields: ['keywords[]', 'languages[]'] },
  '/openai/v1 whisper-large-v3': groq,
  '/openai/v1 whisper-large-v3-turbo': groq,
}

/** A form as it was understood. */
export type Heard = {
  model: string
  format: string
  fileName: string
  seconds: number
  granularities: string[]
  prompt: string
  streams: boolean
  diarizes: boolean
  speakers: string[]
  logprobs: boolean
}

const formFields = ['model', 'file', 'response_format', 'language', 'prompt', 'temperature', 'stream']
const chunkingFields = ['type', 'prefix_padding_ms', 'silence_duration_ms', 'threshold'].map(
  name => `chunking_strategy[${name}]`,
)
const moreFields = ['chunking_strategy', ...chunkingFields, 'timestamp_granularities[]']
const ofSomeModels = ['include[]', 'keywords[]', 'languages[]', ...speakerFields]
const translated = ['model', 'file', 'response_format', 'prompt', 'temperature']
const extensions = /\.(flac|m4a|mp3|mp4|mpeg|mpga|oga|ogg|wav|webm)$/

/** The containers behind these extensions, by FFmpeg's names. */
const containers = ['flac', 'matroska,webm', 'mov,mp4,m4a,3gp,3g2,mj2', 'mp3', 'mpeg', 'ogg', 'wav']

/** The seconds of sound in a file, also of a video; 0 if it cannot be read. */
async function secondsIn(bytes: Buffer): Promise<number> {
  const seconds = await decodedSeconds(bytes).catch(() => 0)
  if (seconds > 0) return seconds
  const length = await lengthIn(bytes)
  return length && containers.includes(length.container) ? length.soundSeconds : 0
}

/** What a request for a transcript asks for, or its refusal. */
export async function heardIn({ raw, headers, path }: Recorded): Promise<Heard | Reply> {
  const type = headers['content-type'] ?? ''
  const form = await new Response(new Uint8Array(raw), { headers: { 'content-type': type } })
    .formData()
    .catch(() => null)
  if (!form) return wrongParam(null, 'Could not parse multipart form', null)
  const isTranslation = path.endsWith('/translations')
  const known = isTranslation ? translated : [...formFields, ...moreFields, ...ofSomeModels]
  const unknown = [...form.keys()].find(name => !known.includes(name))
  if (unknown) return wrongParam(unknown, `Unknown parameter: '${unknown}'.`, 'unknown_parameter')
  const text = (name: string) => form.get(name)?.toString() ?? ''
  const file = form.get('file')
  if (!(file instanceof File)) return wrongField('file', 'Field required')
  const rules = rulesOf[`${path.replace(/\/audio\/trans\w+$/, '')} ${text('model')}`]
  if (!rules) return failure(404, 'The model does not exist.', 'invalid_request_error', 'model_not_found')
  if (file.size > 25 * 1024 * 1024) return failure(413, 'Maximum content size limit exceeded.', 'server_error', null)
  if (!extensions.test(file.name)) return wrongParam('file', 'Unrecognized file format.')
  const seconds = await secondsIn(Buffer.from(await file.arrayBuffer()))
  if (seconds === 0) return wrongParam('file', 'Audio file might be corrupted or unsupported')
  const max = rules.maxSeconds ?? Number.POSITIVE_INFINITY
  if (seconds > max) return wrongParam(null, `audio duration ${seconds} seconds is longer than ${max} seconds`)
  const format = text('response_format') || 'json'
  const granularities = form.getAll('timestamp_granularities[]').map(String)
  const languages = [text('language'), ...form.getAll('languages[]').map(String)]
  const fault = optionsFault(rules, format, granularities, languages, text) ?? (await speakersFault(rules, form))
  if (fault) return fault
  const streams = rules.streams && text('stream') === 'true'
  const { name: fileName } = file
  const diarizes = rules.diarizes === true
  const speakers = form.getAll('known_speaker_names[]').map(String)
  const logprobs = form.has('include[]')
  const prompt = text('prompt')
  return {
    model: text('model'),
    format,
    fileName,
    seconds,
    granularities,
    prompt,
    streams,
    diarizes,
    speakers,
    logprobs,
  }
}

/** Codes of two letters, and those of three of languages that have no other (Whisper's `haw` and `yue`). */
const isoCodes = /^(?:(?!nb$)[a-z]{2}|haw|yue)$/

function optionsFault(
  { formats, diarizes, maxPromptCharacters: max = Number.POSITIVE_INFINITY }: Rules,
  format: string,
  granularities: string[],
  languages: string[],
  text: (name: string) => string,
): Reply | null {
  if (!formats.includes(format))
    return wrongParam('response_format', `response_format '${format}' is not compatible.`, 'unsupported_value')
  if (granularities.some(one => one !== 'word' && one !== 'segment'))
    return wrongParam('timestamp_granularities[]', 'Invalid granularity.')
  if (granularities.length > 0 && format !== 'verbose_json')
    return wrongParam('timestamp_granularities[]', 'timestamp_granularities needs verbose_json.')
  if (diarizes && text('chunking_strategy') === '' && text('chunking_strategy[type]') === '')
    return wrongParam('chunking_strategy', 'chunking_strategy is required for diarization models')
  if (diarizes && text('prompt') !== '') return wrongParam('prompt', 'Prompt is not supported for diarization models')
  const unknown = languages.find(language => language !== '' && !isoCodes.test(language))
  if (unknown) return wrongParam('language', `Invalid language '${unknown}'. It must be in ISO-639-1 format.`)
  const { length } = [...text('prompt')]
  if (length > max)
    return wrongParam(
      null,
      `prompt length must be ${max} characters or fewer, but provided prompt contains ${length} characters`,
      null,
    )
  const temperature = Number(text('temperature') || 0)
  if (!(temperature >= 0 && temperature <= 1)) return wrongParam('temperature', 'Invalid temperature.')
  return null
}

/** Fields that the model does not take, and samples of speakers that are not right. */
async function speakersFault({ fields = [] }: Rules, form: FormData): Promise<Reply | null> {
  const strange = ofSomeModels.find(name => form.has(name) && !fields.includes(name))
  if (strange) return wrongParam(strange.replace('[]', ''), 'Not supported by this model.', 'unsupported_value')
  const samples = form.getAll('known_speaker_references[]').map(String)
  if (samples.length !== form.getAll('known_speaker_names[]').length || samples.length > 4)
    return wrongParam('known_speaker_references', 'Names and references must match.')
  for (const sample of samples) {
    const [, base64] = /^data:audio\/[\w.+-]+;base64,(.+)$/.exec(sample) ?? []
    const seconds = base64 ? await decodedSeconds(new Uint8Array(Buffer.from(base64, 'base64'))).catch(() => 0) : 0
    if (seconds < 2 || seconds > 10) return wrongParam('known_speaker_references', 'A sample has 2 to 10 seconds.')
  }
  return null
}
