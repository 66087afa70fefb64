import { lengthIn } from '../support/media/sounds.ts'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

type Json = Record<string, unknown>

const models = ['nova-3', 'nova-3-medical', 'nova-2']
const languages =
  /^(?:multi|[a-z]{2}|da-DK|de-CH|en-(?:AU|GB|IN|NZ|US)|es-419|fr-CA|ko-KR|nl-BE|pt-(?:BR|PT)|sv-SE|th-TH|zh-(?:CN|HK|TW|Han[st]))$/
const flags = ['smart_format', 'punctuate', 'utterances', 'detect_language', 'diarize', 'paragraphs', 'multichannel']

/** What every file says: two sentences with a pause between them. */
const sentences = ['Good morning.', 'How are you today?']
export const said = sentences.join(' ')

/** Deepgram's API of recorded speech on a local port; the API key `invalid` is refused. */
export function startDeepgram(): Promise<Emulator> {
  return Emulator.start(async (request, response) => (await answerTo(request))(request, response))
}

async function answerTo(request: Recorded): Promise<Reply> {
  const { method, path, headers, query, raw } = request
  const [, key] = /^Token (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return error(401, 'INVALID_AUTH', 'Invalid credentials.')
  if (method !== 'POST' || path !== '/v1/listen') return error(404, 'NOT_FOUND', 'Not found.')
  const fault = queryFault(query)
  if (fault) return error(400, 'Bad Request', fault)
  if (!/^(?:audio|video|application)\//.test(headers['content-type'] ?? '') || !(await isSound(raw)))
    return error(400, 'Bad Request', 'Bad Request: failed to process audio: corrupt or unsupported data')
  return json(200, heard(query), { 'dg-request-id': requestId })
}

const requestId = 'a847f427-4ad5-4d67-9b95-db801e58251c'

/** An error as Deepgram reports it. */
export function error(status: number, code: string, message: string): Reply {
  return json(status, { err_code: code, err_msg: message, request_id: requestId })
}

function queryFault(query: URLSearchParams): string | null {
  for (const [name, value] of query) {
    if (name === 'detect_language' && languages.test(value)) continue
    if (flags.includes(name)) {
      if (value !== 'true' && value !== 'false') return `Invalid query string: ${name} must be a boolean`
    } else if (name === 'keyterm') {
      if (query.get('model') === 'nova-2') return 'Keyterms are not supported for this model.'
    } else if (name !== 'model' && name !== 'language') return `Invalid query string: unknown parameter ${name}`
  }
  // Tokens are counted as words here.
  if (query.getAll('keyterm').join(' ').split(/\s+/).length > 500)
    return 'Keyterm limit exceeded. The maximum number of tokens across all keyterms is 500.'
  const model = query.get('model') ?? ''
  const language = query.get('language') ?? 'en'
  const isServed = models.includes(model) && languages.test(language)
  const detects = query.get('detect_language') === 'true'
  if (isServed && !(detects && model === 'nova-3-medical')) return null
  return 'Bad Request: No such model/language/tier combination found.'
}

/** Deepgram detects formats by the bytes, not by their name: those that ffmpeg reads. */
async function isSound(raw: Buffer): Promise<boolean> {
  return (await lengthIn(raw))?.hasAudio === true
}

/** The answer: half a second a word, a tenth between them, and a second between sentences. */
export function heard(query: URLSearchParams = new URLSearchParams()): Json {
  let atMs = 80
  const utterances = sentences.map((transcript, i) => {
    const words = transcript.split(' ').map(punctuated_word => {
      const start = atMs / 1_000
      atMs += 600
      const word = punctuated_word.toLowerCase().replace(/\W/g, '')
      return { word, start, end: (atMs - 100) / 1_000, confidence: 0.99, punctuated_word }
    })
    atMs += 1_000
    const speaker = query.get('diarize') === 'true' ? { speaker: 1 - i } : {}
    const times = { start: words[0]!.start, end: words.at(-1)!.end }
    return { ...times, ...speaker, confidence: 0.98, channel: 0, transcript, words, id: `utterance-${i}` }
  })
  const best = { transcript: said, confidence: 0.99, words: utterances.flatMap(({ words }) => words) }
  const isMulti = query.get('language') === 'multi'
  const detected = query.has('detect_language') && { detected_language: 'en', language_confidence: 0.97 }
  const channel = { alternatives: [{ ...best, ...(isMulti && { languages: ['en'] }) }], ...detected }
  return {
    metadata: { request_id: requestId, sha256: '0', created: '2026-11-20T00:00:00.000Z', duration: 4.2, channels: 1 },
    results: { channels: [channel], ...(query.get('utterances') === 'true' && { utterances }) },
  }
}
