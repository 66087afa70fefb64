import type { ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import type { SoundFormat } from '../../shared/kinds/sound.ts'
import { charactersOf } from '../../shared/kinds/sync-kind.ts'
import { sound } from '../support/media/sounds.ts'
import { Emulator, json, type Reply } from './emulator.ts'
import { failure, invalidKey, tokensIn } from './openai.ts'
import { type Heard, heardIn, speechFault } from './openai-audio-rules.ts'

/** OpenAI's audio routes, and Groq's beside them, on a free port of loopback; `url` is without the `/v1`. */
export function startOpenAiAudio(): Promise<Emulator> {
  return Emulator.start(openAiAudio)
}

/** What the audio routes answer. */
export const openAiAudio: Reply = (request, response) => {
  if (!/^Bearer \S+/.test(request.headers.authorization ?? '')) return invalidKey(request, response)
  const { method, path } = request
  if (method === 'POST' && path === '/v1/audio/speech') return speechReply()(request, response)
  if (method === 'POST' && /^(\/openai)?\/v1\/audio\/(transcriptions|translations)$/.test(path))
    return transcriptReply()(request, response)
  return failure(404, 'Unknown URL.', 'invalid_request_error', 'unknown_url')(request, response)
}

/** Departures of an answer that is sent in pieces from the ordinary one. */
export type AudioReplyOptions = {
  /** Wait after this many pieces. */
  hold?: { after: number; until: Promise<void> }
  /** Break the connection after this many pieces. */
  cutAfter?: number
  /** Report an error after this many pieces, and end. */
  errorAfter?: number
  /** End without the last event. */
  done?: false
  /** Leave out the usage. */
  usage?: false
  /** Events in packets of one byte. */
  bytewise?: true
}

/** At fifteen characters a second. */
export function spokenSeconds(text: string): number {
  return Math.max(0.5, charactersOf(text) / 15)
}

/** The usage of a text's speech. */
export function speechTokens(text: string) {
  const [input_tokens, output_tokens] = [tokensIn(text), Math.ceil(spokenSeconds(text) * 20)]
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
}

const pieceBytes = 3_000
const contentTypes: Record<string, string> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

/** Answers a request for speech; without options as OpenAI does. */
export function speechReply(options: AudioReplyOptions = {}): Reply {
  return async (request, response) => {
    const { body } = request
    const fault = speechFault(body)
    if (fault) return fault(request, response)
    const format: SoundFormat = body.response_format ?? 'mp3'
    const bytes = await sound(format, spokenSeconds(body.input) / (body.speed ?? 1))
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes))
    if (body.stream_format !== 'sse') {
      response.writeHead(200, { 'content-type': contentTypes[format]!, 'x-request-id': 'req_emulated' })
      return written(response, pieces, null, options)
    }
    const events = pieces.map(piece => ({ type: 'speech.audio.delta', audio: piece.toString('base64') }))
    const usage = options.usage === false ? {} : { usage: speechTokens(body.input) }
    await streamed(response, events, { type: 'speech.audio.done', ...usage }, options)
  }
}

async function streamed(response: ServerResponse, events: object[], last: object, options: AudioReplyOptions) {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': 'req_emulated' })
  const textOf = (event: object) => Buffer.from(`data: ${JSON.stringify(event)}\n\n`)
  await written(response, events.map(textOf), textOf(last), options)
}

/** Sends pieces one by one, each once the one before has left; `options` bend them. */
async function written(response: ServerResponse, pieces: Buffer[], last: Buffer | null, options: AudioReplyOptions) {
  const write = async (bytes: Buffer) => {
    const size = options.bytewise ? 1 : bytes.length
    for (let at = 0; at < bytes.length && !response.destroyed; at += size) {
      await new Promise(resolve => response.write(bytes.subarray(at, at + size), resolve))
      await turn()
    }
  }
  for (const [position, piece] of pieces.entries()) {
    if (position === options.hold?.after) await options.hold.until
    if (position === options.cutAfter) return void response.destroy()
    if (position === options.errorAfter) {
      const error = { message: 'The server had an error.', type: 'server_error', param: null, code: null }
      await write(Buffer.from(`event: error\ndata: ${JSON.stringify({ error })}\n\n`))
      return void response.end()
    }
    await write(piece)
  }
  if (last && options.done !== false) await write(last)
  response.end()
}

/** What is heard in a file of this name. */
export function heardText(fileName: string): string {
  return `This is what ${fileName} says.`
}

/** The usage of a transcript of this length. */
export function transcriptTokens(seconds: number, text: string, prompt = '') {
  const [audio_tokens, text_tokens] = [Math.ceil(seconds * 10), tokensIn(prompt)]
  const [input_tokens, output_tokens] = [audio_tokens + text_tokens, tokensIn(text)]
  const input_token_details = { audio_tokens, text_tokens }
  return {
    type: 'tokens',
    input_tokens,
    input_token_details,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
  }
}

/** Answers a request for a transcript; without options as OpenAI does. */
export function transcriptReply(options: AudioReplyOptions = {}): Reply {
  return async (request, response) => {
    const heard = await heardIn(request)
    if (typeof heard === 'function') return heard(request, response)
    if (heard.streams) return inPieces(heard, response, options)
    const { format } = heard
    if (format.endsWith('json')) return json(200, wholeOf(heard))(request, response)
    const text = format === 'text' ? `${heardText(heard.fileName)}\n` : captions(heard)
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
  }
}

async function inPieces(heard: Heard, response: ServerResponse, options: AudioReplyOptions): Promise<void> {
  const text = heardText(heard.fileName)
  const ids = heard.diarizes ? { segment_id: 'seg_001' } : {}
  const deltas = (text.match(/\s?\S+/g) ?? []).map(delta => {
    return { type: 'transcript.text.delta', delta, ...ids, ...(heard.logprobs && { logprobs: [probabilityOf(delta)] }) }
  })
  const segments = heard.format === 'diarized_json' ? speakersOf(heard) : []
  const usage = options.usage === false ? {} : { usage: usageOf(heard) }
  await streamed(
    response,
    [...deltas, ...segments],
    { type: 'transcript.text.done', text, ...logprobsOf(heard), ...usage },
    options,
  )
}

function probabilityOf(token: string) {
  return { token, logprob: -0.02, bytes: [...Buffer.from(token)] }
}

function logprobsOf({ logprobs, fileName }: Heard) {
  return logprobs ? { logprobs: heardText(fileName).split(' ').map(probabilityOf) } : {}
}

function usageOf({ model, seconds, fileName, prompt }: Heard) {
  if (model.startsWith('whisper') || model === 'gpt-transcribe')
    return { type: 'duration', seconds: Math.ceil(seconds) }
  return transcriptTokens(seconds, heardText(fileName), prompt)
}

function wholeOf(heard: Heard): object {
  const { format, seconds: duration, fileName, granularities, model } = heard
  // Groq adds its own mark, and counts nothing.
  const more = model.startsWith('whisper-large') ? { x_groq: { id: 'req_emulated' } } : { usage: usageOf(heard) }
  const text = heardText(fileName)
  if (format === 'json') return { text, ...logprobsOf(heard), ...more }
  if (format === 'diarized_json') return { task: 'transcribe', duration, text, segments: speakersOf(heard), ...more }
  const wantsSegments = granularities.length === 0 || granularities.includes('segment')
  return {
    task: 'transcribe',
    language: 'english',
    duration,
    text,
    ...(wantsSegments && { segments: segmentsOf(heard) }),
    ...(granularities.includes('word') && { words: wordsOf(heard) }),
    ...more,
  }
}

function wordsOf({ fileName, seconds }: Heard) {
  const words = heardText(fileName).split(' ')
  const at = (position: number) => Number(((seconds * position) / words.length).toFixed(3))
  return words.map((word, i) => ({ word, start: at(i), end: at(i + 1) }))
}

/** Two: the first three words, and the others. */
function partsOf(heard: Heard) {
  const words = wordsOf(heard)
  return [words.slice(0, 3), words.slice(3)].map(part => ({
    start: part[0]!.start,
    end: part.at(-1)!.end,
    text: part.map(({ word }) => word).join(' '),
  }))
}

function segmentsOf(heard: Heard) {
  const details = { seek: 0, tokens: [50_364, 1], temperature: 0, avg_logprob: -0.3, compression_ratio: 1.2 }
  return partsOf(heard).map((part, id) => ({ id, ...part, ...details, no_speech_prob: 0.01 }))
}

function speakersOf(heard: Heard) {
  return partsOf(heard).map((part, i) => {
    return { type: 'transcript.text.segment', id: `seg_00${i}`, ...part, speaker: heard.speakers[i] ?? 'AB'[i] }
  })
}

function captions(heard: Heard): string {
  const isVtt = heard.format === 'vtt'
  const clock = (seconds: number) =>
    new Date(seconds * 1000)
      .toISOString()
      .slice(11, 23)
      .replace('.', isVtt ? '.' : ',')
  const parts = partsOf(heard).map(({ start, end, text }, i) => {
    return `${isVtt ? '' : `${i + 1}\n`}${clock(start)} --> ${clock(end)}\n${text}\n\n`
  })
  return (isVtt ? 'WEBVTT\n\n' : '') + parts.join('')
}
