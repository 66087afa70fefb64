import { clip, image as png, audio as sound } from '../support/jobs/gateway.ts'
import { type AgentKind, agentRequest, type Ending, readMessages } from './agents.ts'

/** Work that is answered on its own connection. */
export type DirectKind =
  | 'chat'
  | 'stream'
  | 'embedding'
  | 'image'
  | 'response'
  | 'gemini'
  | 'speech'
  | 'transcription'
  | 'music'
  | 'sfx'
  | 'ranking'
  | 'moderation'
  | AgentKind

/** Work that is accepted, and told of by a webhook. */
export type SlowKind = 'video' | 'lipsync' | 'face swap' | 'avatar' | 'mesh' | 'job' | 'batch'

type DirectWork = {
  /** How many clients ask for it at once. */
  clients: number
  request(mark: string, turn: number): { path: string; body: object }
  /** Reads a whole 200. */
  read(text: string, headers: Headers): Ending
}

const chatModels = ['gpt-5.6-luna', 'gpt-oss-120b', 'llama-3.3-70b-instruct', 'auto']

function chatRequest(mark: string, turn: number, more: object = {}) {
  const messages = [{ role: 'user', content: `mark=${mark} hello` }]
  const model = chatModels[turn % chatModels.length]
  return { path: '/v1/chat/completions', body: { model, max_tokens: 200, messages, ...more } }
}

function wholeOf({ usage }: { usage: { cost: number } }): Ending {
  return { outcome: 'whole', costNano: Math.round(usage.cost * 1e9) }
}

function readStream(text: string): Ending {
  const events = text
    .split('\n\n')
    .filter(event => event.startsWith('data: {'))
    .map(event => JSON.parse(event.slice('data: '.length)))
  const fault = events.find(({ error }) => error)
  if (fault) return { outcome: 'error event', code: fault.error.code }
  const usage = events.findLast(event => event.usage)?.usage
  return usage && text.endsWith('data: [DONE]\n\n') ? wholeOf({ usage }) : { outcome: 'cut' }
}

/** A JSON answer whose cost is in a header. */
function readPriced(text: string, headers: Headers): Ending {
  JSON.parse(text)
  return readBytes(text, headers)
}

/** An answer of bytes, which are billed by what was asked for. */
function readBytes(_text: string, headers: Headers): Ending {
  const usd = headers.get('x-gateway-cost-usd')
  return { outcome: 'whole', costNano: usd === null ? null : Math.round(Number(usd) * 1e9) }
}

const readUsage = (text: string) => wholeOf(JSON.parse(text))

function agentWork(kind: AgentKind): DirectWork {
  return {
    clients: 4,
    request: mark => agentRequest(kind, mark),
    read: (text, headers) => readMessages(kind, headers.get('x-gateway-provider')!, text),
  }
}

const voiceNote = sound(2)

/** The kinds that are asked for in every run under load. */
export const basicKinds: DirectKind[] = ['chat', 'stream', 'embedding', 'image', 'messages', 'messages over chat']

export const directWorks: Record<DirectKind, DirectWork> = {
  chat: { clients: 4, request: chatRequest, read: readUsage },
  stream: {
    clients: 4,
    request: (mark, turn) => chatRequest(mark, turn, { stream: true, stream_options: { include_usage: true } }),
    read: readStream,
  },
  embedding: {
    clients: 3,
    request: mark => ({ path: '/v1/embeddings', body: { model: 'text-embedding-3-small', input: [mark, 'second'] } }),
    read: readUsage,
  },
  image: {
    clients: 1,
    request: mark => ({ path: '/v1/images', body: { model: 'gpt-image-2', prompt: mark } }),
    read: readUsage,
  },
  messages: agentWork('messages'),
  'messages over chat': agentWork('messages over chat'),
  response: {
    clients: 2,
    request: mark => ({
      path: '/v1/responses',
      body: { model: 'gpt-oss-120b', input: `mark=${mark} hello`, max_output_tokens: 200, store: true },
    }),
    read: readPriced,
  },
  gemini: {
    clients: 1,
    request: mark => ({
      path: '/v1beta/models/gpt-oss-120b:generateContent',
      body: {
        contents: [{ role: 'user', parts: [{ text: `mark=${mark} hello` }] }],
        generationConfig: { maxOutputTokens: 200 },
      },
    }),
    read: readPriced,
  },
  speech: {
    clients: 1,
    request: mark => ({
      path: '/v1/audio/speech',
      body: { model: 'tts-1', input: `mark=${mark} hello`, voice: 'alloy' },
    }),
    read: readBytes,
  },
  transcription: {
    clients: 1,
    request: () => ({ path: '/v1/audio/transcriptions', body: { model: 'whisper-1', audio_url: voiceNote } }),
    read: readPriced,
  },
  music: {
    clients: 1,
    request: mark => ({ path: '/v1/audio/music', body: { prompt: `mark=${mark} a waltz`, duration_s: 10 } }),
    read: readBytes,
  },
  sfx: {
    clients: 1,
    request: mark => ({ path: '/v1/audio/sfx', body: { prompt: `mark=${mark} a door`, duration_s: 2 } }),
    read: readBytes,
  },
  ranking: {
    clients: 1,
    request: mark => ({ path: '/v1/rerank', body: { model: 'rerank-v3.5', query: mark, documents: ['one', 'two'] } }),
    read: readPriced,
  },
  moderation: {
    clients: 1,
    request: mark => ({ path: '/v1/moderations', body: { model: 'omni-moderation-latest', input: mark } }),
    read: readPriced,
  },
}

type SlowWork = { everyMs: number; request(mark: string): { path: string; body: object } }

const linesPerBatch = 50
const film = await clip(2)

function chatLine(mark: string) {
  return { model: 'gpt-oss-120b', max_tokens: 50, messages: [{ role: 'user', content: `mark=${mark}` }] }
}

/** The slow kinds of every run under load. */
export const basicSlowKinds: SlowKind[] = ['video', 'job', 'batch']

export const slowWorks: Record<SlowKind, SlowWork> = {
  video: {
    everyMs: 2_500,
    request: mark => ({
      path: '/v1/videos',
      body: { model: 'runway-gen4.5', prompt: `mark=${mark}`, seconds: 2 },
    }),
  },
  lipsync: {
    everyMs: 10_000,
    request: () => ({ path: '/v1/lipsync', body: { model: 'lipsync-2', video_url: film, audio_url: voiceNote } }),
  },
  'face swap': {
    everyMs: 10_000,
    request: () => ({
      path: '/v1/face-swap',
      body: { video_url: film, face_image_url: png, source_face_consent: true },
    }),
  },
  avatar: {
    everyMs: 10_000,
    request: mark => ({
      path: '/v1/avatars/videos',
      body: { avatar_id: 'look_0', script: `Good morning, ${mark}.`, voice_id: 'voice_0' },
    }),
  },
  mesh: {
    everyMs: 10_000,
    request: mark => ({ path: '/v1/meshes', body: { model: 'meshy-6', prompt: `mark=${mark} a chest` } }),
  },
  job: {
    everyMs: 1_500,
    request: mark => ({ path: '/v1/jobs', body: { body: chatLine(mark), completion_window: '1h' } }),
  },
  batch: {
    everyMs: 12_000,
    request: mark => {
      const requests = Array.from({ length: linesPerBatch }, (_, i) => ({
        custom_id: `${mark}-${i}`,
        method: 'POST',
        url: '/v1/chat/completions',
        body: chatLine(`${mark}-${i}`),
      }))
      return { path: '/v1/batches', body: { requests, batch_routing: 'gateway' } }
    },
  },
}
