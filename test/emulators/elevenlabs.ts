import { type SoundFormat, soundTypes } from '../../shared/kinds/sound.ts'
import { sound } from '../support/media/sounds.ts'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import { fieldsOf } from './openai-videos.ts'

type Json = Record<string, unknown>
/** Where a body is wrong, as ElevenLabs' validation reports it. */
type Fault = { loc: (string | number)[]; msg: string; type: string }

export const voices = ['JBFqnCBsd6RMkjVDRZzb', '21m00Tcm4TlvDq8ikWAM']
/** A voice of the library, which an account without a plan cannot use. */
export const libraryVoice = 'HuLbOdhRlvQQN8oPP0AJ'
/** Another one, which it does not include either. */
export const professionalVoice = 'ProfessionalVoice001'
/** The most characters of one request. */
const speechModels: Record<string, number> = {
  eleven_v3: 5_000,
  eleven_multilingual_v2: 10_000,
  eleven_flash_v2_5: 40_000,
}
/** Without the telephone formats, which are not generated here. */
const outputFormats =
  /^(?:mp3_(?:22050_32|24000_48|44100_(?:32|64|96|128|192))|pcm_(?:8000|16000|22050|24000|32000|44100|48000)|opus_48000_(?:32|64|96|128|192))$/
const musicFormats = new RegExp(`^mp3_48000_(?:128|192|240|320)$|${outputFormats.source}`)
const charactersPerSecond = 15

/** What every file says. */
export const said = { text: 'Good morning. How are you today?', language: 'eng' }

/** ElevenLabs' API on a local port; the API key `invalid` is refused. */
export function startElevenLabs(): Promise<Emulator> {
  return Emulator.start(async (request, response) => {
    const reply = keyFault(request) ?? (await answerTo(request))
    return reply(request, response)
  })
}

function keyFault({ headers }: Recorded): Reply | null {
  const key = headers['xi-api-key']
  if (!key) return error(401, 'needs_authorization', 'Neither authorization header nor xi-api-key received.')
  return key === 'invalid' ? error(401, 'invalid_api_key', 'Invalid API key') : null
}

async function answerTo(request: Recorded): Promise<Reply> {
  const { method, path } = request
  if (method === 'GET' && path === '/v2/voices') return voicesPage(request)
  if (method !== 'POST') return json(404, { detail: 'Not Found' })
  const [, voice] = /^\/v1\/text-to-speech\/([^/]+)(?:\/stream)?$/.exec(path) ?? []
  if (voice) return speech(request, decodeURIComponent(voice))
  if (path === '/v1/sound-generation') return effect(request)
  if (path === '/v1/music') return music(request)
  if (path === '/v1/speech-to-text') return transcript(request)
  return json(404, { detail: 'Not Found' })
}

/** An error as ElevenLabs reports it. */
export function error(status: number, code: string, message: string): Reply {
  return json(status, { detail: { status: code, message } }, { 'request-id': 'req_emulated' })
}

/** A request that ElevenLabs' validation refuses. */
export function invalid(...detail: Fault[]): Reply {
  return json(422, { detail })
}

function voicesPage({ query }: Recorded): Reply {
  const size = Number(query.get('page_size') ?? 10)
  const from = Number(query.get('next_page_token') ?? 0)
  const names = ['George', 'Rachel']
  const all = voices.map((voice_id, i) => ({ voice_id, name: names[i], category: 'premade', labels: {} }))
  const hasMore = from + size < all.length
  const page = { voices: all.slice(from, from + size), has_more: hasMore, total_count: all.length }
  return json(200, { ...page, next_page_token: hasMore ? String(from + size) : null })
}

function speech({ body, query }: Recorded, voice: string): Reply {
  const fault = fieldFault(body, {
    text: isText,
    model_id: isOneOf(...Object.keys(speechModels)),
    language_code: isText,
    voice_settings: () => null,
    seed: isNumber(0, 4_294_967_295),
    previous_text: isText,
    next_text: isText,
  })
  if (fault || body.text === undefined) return invalid(fault ?? missing('text'))
  const settingFault = fieldFault(body.voice_settings ?? {}, settings, ['body', 'voice_settings'])
  if (settingFault) return invalid(settingFault)
  if (voice === libraryVoice) return planRequired
  if (voice === professionalVoice) return tierRequired
  if (!/^[a-z\d]+$/i.test(voice)) return error(400, 'invalid_uid', `An invalid ID has been received: '${voice}'.`)
  if (!voices.includes(voice)) return error(404, 'voice_not_found', `A voice with voice_id ${voice} was not found.`)
  const characters = [...body.text].length
  const max = speechModels[body.model_id ?? 'eleven_multilingual_v2']!
  const excess = `This request's text has ${characters} characters and exceeds the character limit of ${max}.`
  if (characters > max) return error(400, 'max_character_limit_exceeded', excess)
  return soundReply(query, characters / charactersPerSecond, { 'character-cost': String(characters) })
}

const planRequired = json(402, {
  detail: {
    type: 'payment_required',
    code: 'paid_plan_required',
    message: 'Free users cannot use library voices via the API. Please upgrade your subscription to use this voice.',
    status: 'payment_required',
    request_id: 'req_emulated',
  },
})

const tierRequired = json(403, {
  detail: {
    type: 'authorization_error',
    code: 'subscription_required',
    message: 'Professional voices require a Creator tier subscription or above.',
    status: 'only_for_creator+',
  },
})

const settings: Record<string, Check> = {
  stability: isNumber(0, 1),
  similarity_boost: isNumber(0, 1),
  style: isNumber(0, 1),
  use_speaker_boost: isFlag,
  speed: isNumber(0.7, 1.2),
}

function effect({ body, query }: Recorded): Reply {
  const fault = fieldFault(body, {
    text: isText,
    loop: isFlag,
    duration_seconds: isNumber(0.5, 30),
    prompt_influence: isNumber(0, 1),
    model_id: isOneOf('eleven_text_to_sound_v2'),
  })
  if (fault || body.text === undefined) return invalid(fault ?? missing('text'))
  return soundReply(query, body.duration_seconds ?? 2)
}

function music({ body, query }: Recorded): Reply {
  const fault = fieldFault(body, {
    prompt: isText,
    composition_plan: value => (Array.isArray((value as Json | null)?.chunks) ? null : 'Input should have chunks'),
    music_length_ms: value => (Number.isInteger(value) ? isNumber(3_000, 600_000)(value) : 'should be an integer'),
    model_id: isOneOf('music_v1', 'music_v2', 'music_v2_5'),
    force_instrumental: isFlag,
    seed: isNumber(0, 2_147_483_647),
  })
  const isEither = (body?.prompt === undefined) !== (body?.composition_plan === undefined)
  if (fault || !isEither) return invalid(fault ?? missing('prompt'))
  return soundReply(query, (body.music_length_ms ?? 10_000) / 1_000, { 'song-id': 'song_emulated' }, musicFormats)
}

/** Sound in the format that the query names, in several pieces. */
function soundReply(
  query: URLSearchParams,
  seconds: number,
  headers: Record<string, string> = {},
  formats = outputFormats,
): Reply {
  const format = query.get('output_format') ?? 'mp3_44100_128'
  if (!formats.test(format)) return invalid({ loc: ['query', 'output_format'], msg: 'unknown format', type: 'enum' })
  const codec = format.split('_')[0] as SoundFormat
  return async (_request, response) => {
    const bytes = await sound(codec, seconds)
    response.writeHead(200, { 'content-type': soundTypes[codec], 'request-id': 'req_emulated', ...headers })
    for (let at = 0; at < bytes.length && !response.destroyed; at += pieceBytes)
      await new Promise(resolve => response.write(bytes.subarray(at, at + pieceBytes), resolve))
    response.end()
  }
}
const pieceBytes = 1_111

function isBoolean(value: unknown): string | null {
  return value === 'true' || value === 'false' ? null : 'Input should be a boolean'
}

/** The formats listed at skills.sh/vanman2024/ai-dev-marketplace/stt-integration, whatever the file's name. */
const fileTypes =
  / (?:audio\/(?:aac|aiff|flac|mp4|mpeg|ogg|opus|wav|webm)|video\/(?:3gpp|mp4|mpeg|quicktime|webm|vnd.avi|x-flv|x-matroska|x-ms-wmv)) \d+$/

async function transcript(request: Recorded): Promise<Reply> {
  const fields = await fieldsOf(request).catch(() => null)
  const fault = fieldFault(fields, {
    model_id: isOneOf('scribe_v1', 'scribe_v2'),
    file: value => (/^file \S.* [1-9]\d*$/.test(String(value)) ? null : 'Expected a file'),
    source_url: isText,
    cloud_storage_url: isText,
    language_code: value => (/^[a-z]{2,3}$/.test(String(value)) ? null : 'Input should be a language code'),
    timestamps_granularity: isOneOf('none', 'word', 'character'),
    tag_audio_events: isBoolean,
    diarize: isBoolean,
    keyterms: value => (fields?.model_id === 'scribe_v2' ? isKeyterm(value) : 'Only scribe_v2 takes keyterms'),
    temperature: value => isNumber(0, 2)(Number(value)),
  })
  if (!fields || fault || !fields.model_id) return invalid(fault ?? missing('model_id'))
  const { file, source_url, cloud_storage_url } = fields
  if ([file, source_url, cloud_storage_url].filter(Boolean).length !== 1)
    return error(400, 'invalid_parameters', 'Exactly one of file or source_url is needed.')
  if (file && !fileTypes.test(String(file))) return error(400, 'invalid_audio', 'The file format is not supported.')
  return json(200, heard(fields.timestamps_granularity, fields.diarize === 'true'))
}

/** The answer of a transcription: half a second a word, a tenth between them. */
export function heard(granularity: unknown = 'word', diarized = false): Json {
  const words = said.text.split(' ').flatMap((text, i) => {
    const start = Math.round(i * 600) / 1_000
    const end = Math.round(i * 600 + 500) / 1_000
    const space = { text: ' ', start: Math.round(i * 600 - 100) / 1_000, end: start, type: 'spacing', logprob: 0 }
    // The first sentence is the other’s.
    const speaker = diarized ? { speaker_id: `speaker_${i < 2 ? 1 : 0}` } : {}
    const word = { text, start, end, type: 'word', logprob: -0.01, ...speaker }
    return i === 0 ? [word] : [space, word]
  })
  return {
    language_code: said.language,
    language_probability: 0.98,
    text: said.text,
    words: granularity === 'none' ? words.map(({ text, type, logprob }) => ({ text, type, logprob })) : words,
    transcription_id: 'trs_emulated',
    audio_duration_secs: 3.5,
  }
}

/** Less than 50 characters and at most 5 words (elevenlabs-js, BodySpeechToTextV1SpeechToTextPost). */
function isKeyterm(value: unknown): string | null {
  for (const term of [value].flat().map(String))
    if (term.length >= 50 || term.split(/\s+/).length > 5 || /[<>{}[\]\\]/.test(term)) return 'Keyterm is not valid'
  return null
}

type Check = (value: unknown) => string | null

/** The first field that is unknown or wrong. */
function fieldFault(body: unknown, checks: Record<string, Check>, place: string[] = ['body']): Fault | null {
  if (typeof body !== 'object' || body === null)
    return { loc: place, msg: 'Input should be an object', type: 'model_attributes_type' }
  for (const [name, value] of Object.entries(body)) {
    const loc = [...place, name]
    const check = Object.hasOwn(checks, name) && checks[name]
    if (!check) return { loc, msg: 'Extra inputs are not permitted', type: 'extra_forbidden' }
    const msg = check(value)
    if (msg) return { loc, msg, type: 'value_error' }
  }
  return null
}

function missing(name: string): Fault {
  return { loc: ['body', name], msg: 'Field required', type: 'missing' }
}

function isText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? null : 'String should have at least 1 character'
}

function isFlag(value: unknown): string | null {
  return typeof value === 'boolean' ? null : 'Input should be a valid boolean'
}

function isNumber(min: number, max: number): Check {
  return value =>
    typeof value === 'number' && value >= min && value <= max
      ? null
      : `Input should be greater than or equal to ${min} and less than or equal to ${max}`
}

function isOneOf(...values: string[]): Check {
  return value => (values.includes(value as string) ? null : `Input should be ${values.join(', ')}`)
}
