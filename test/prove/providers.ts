import { setTimeout as sleep } from 'node:timers/promises'
import { messageEvents, sse } from '../emulators/anthropic.ts'
import { startElevenLabs } from '../emulators/elevenlabs.ts'
import { Emulator, json, type Recorded, type Reply, reset, text } from '../emulators/emulator.ts'
import { startHeygen } from '../emulators/heygen.ts'
import { startMagicHour } from '../emulators/magic-hour.ts'
import { startMeshy } from '../emulators/meshy.ts'
import { reply as openAiReply } from '../emulators/openai.ts'
import { openAiAudio } from '../emulators/openai-audio.ts'
import { rerankForms, startRankings } from '../emulators/rankings.ts'
import { startRunway } from '../emulators/runway.ts'
import type { WorkEmulator } from '../emulators/slow-work.ts'
import { startSync } from '../emulators/sync.ts'
import { png } from '../support/media/png.ts'

/** What share of the calls of a provider goes wrong, and how. */
export type Mood = {
  /** Cuts answers in the middle. */
  truncates: number
  /** Never answers. */
  hangs: number
  /** Refuses with 429, 500, 503 or a reset. */
  refuses: number
  /** Answers 200 with what is no answer, or with a usage that cannot be. */
  lies: number
}
export const goodMood: Mood = { truncates: 0, hangs: 0, refuses: 0, lies: 0 }

export type Providers = {
  /** The environment that points the gateway's processes here. */
  env: Record<string, string>
  setMood(mood: Partial<Mood>): void
  /** How many calls have carried each `mark=…` so far. */
  callsByMark(): ReadonlyMap<string, number>
  /** The `mark=…` of calls that were answered with what is no answer. */
  unanswerable: ReadonlySet<string>
  close(): Promise<void>
}

const chatProviders = ['openai', 'groq', 'together', 'fireworks'] as const
const latencyMs = 60
const maxJitterMs = 120
const streamChunks = 15
const chunkEveryMs = 30
/** A video is finished at this poll. */
const videoPolls = 4
const usage = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 }
const imageUsage = { input_tokens: 10, output_tokens: 200, total_tokens: 210 }
const toolCall = { index: 0, id: 'call_1', type: 'function', function: { name: 'Read', arguments: '{"path":"a"}' } }
/** Thinking, text and a tool call. */
const agentEvents = messageEvents({
  ...({ id: 'msg_chaos', type: 'message', role: 'assistant', model: 'chaos' } as const),
  content: [
    { type: 'thinking', thinking: 'A thought of some words. ', signature: 'c2lnbmVk' },
    { type: 'text', text: 'Let me look at that file. ' },
    { type: 'tool_use', id: 'toolu_chaos', name: 'Read', input: { path: 'a' } },
  ],
  stop_reason: 'tool_use',
  stop_sequence: null,
  stop_details: null,
  usage: { input_tokens: 20, cache_read_input_tokens: 500, output_tokens: 30 },
})
const image = png(64).toString('base64')

/**
 * Starts the emulated providers of a run: OpenAI-shaped chat, embeddings and images, Messages, and Runway's videos; with
 * `every`, of all other kinds of work, too.
 */
export async function startProviders(random: () => number, { every = false } = {}): Promise<Providers> {
  const calls = new Map<string, number>()
  const unanswerable = new Set<string>()
  let mood = goodMood
  const count = (mark: string | undefined) => {
    if (mark !== undefined) calls.set(mark, (calls.get(mark) ?? 0) + 1)
  }
  const chat: Reply = async (request, response) => {
    const { model, stream, messages } = request.body
    const text = String(messages.at(-1).content)
    const mark = markOf(text)
    count(mark)
    await sleep(latencyMs + random() * maxJitterMs)
    const isCut = random() < mood.truncates
    const isLie = random() < mood.lies
    if (isLie && random() < 0.5) {
      if (mark !== undefined) unanswerable.add(mark)
      return lieOf(random)(request, response)
    }
    const told = isLie ? impossibleUsages[Math.floor(random() * impossibleUsages.length)] : { usage }
    const isAgent = request.body.tools !== undefined
    const head = { id: 'chatcmpl-chaos', created: 1_795_132_800, model }
    if (!stream) {
      const message = { role: 'assistant', content: `echo: ${text}`, refusal: null }
      const choices = [{ index: 0, message, finish_reason: 'stop', logprobs: null }]
      const body = JSON.stringify({ ...head, object: 'chat.completion', choices, ...told })
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
      if (!isCut) return void response.end(body)
      response.write(body.slice(0, body.length / 2), () => response.destroy())
      return
    }
    const send = (choices: unknown[], more = {}) =>
      response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const thought = isAgent && { reasoning_content: 'A thought of some words.' }
    send([{ index: 0, delta: { role: 'assistant', content: '', ...thought }, finish_reason: null }])
    for (let i = 0; i < streamChunks && !response.destroyed; i++) {
      if (isCut && i === streamChunks >> 1) return void response.destroy()
      send([{ index: 0, delta: { content: `word${i} ` }, finish_reason: null }])
      await sleep(chunkEveryMs)
    }
    if (isAgent) send([{ index: 0, delta: { tool_calls: [toolCall] }, finish_reason: null }])
    send([{ index: 0, delta: {}, finish_reason: isAgent ? 'tool_calls' : 'stop' }])
    if (told) send([], told)
    response.end('data: [DONE]\n\n')
  }
  const messages: Reply = async (_request, response) => {
    await sleep(latencyMs + random() * maxJitterMs)
    const isCut = random() < mood.truncates
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [i, event] of agentEvents.entries()) {
      if (response.destroyed || (isCut && i === agentEvents.length >> 1)) return void response.destroy()
      response.write(sse(event))
      await sleep(chunkEveryMs)
    }
    response.end()
  }
  const openai = await Emulator.start(async (request, response) => {
    openai.requests.length = 0 // The marks are what is kept of them.
    if (random() < mood.hangs) return
    if (random() < mood.refuses) return refusalOf(random)(request, response)
    if (request.path.endsWith('/chat/completions')) return chat(request, response)
    if (request.path === '/v1/messages') return messages(request, response)
    await sleep(latencyMs + random() * maxJitterMs)
    return directAnswer(request)(request, response)
  })
  const runway = await startRunway({ autoFinish: videoPolls })
  const others = every ? await startOthers() : []
  return {
    env: {
      ...Object.fromEntries(
        chatProviders.flatMap(name => [
          [`${name.toUpperCase()}_API_KEY`, 'upstream'],
          [`${name.toUpperCase()}_BASE_URL`, `${openai.url}/v1`],
        ]),
      ),
      ANTHROPIC_API_KEY: 'upstream',
      ANTHROPIC_BASE_URL: openai.url,
      RUNWAY_API_KEY: 'upstream',
      RUNWAY_BASE_URL: `${runway.url}/v1`,
      ...Object.fromEntries(
        others.flatMap(({ name, url }) => [
          [`${name}_API_KEY`, 'upstream'],
          [`${name}_BASE_URL`, url],
        ]),
      ),
    },
    setMood(changed) {
      mood = { ...mood, ...changed }
    },
    unanswerable,
    callsByMark() {
      const all = new Map(calls)
      for (const { body } of runway.works.values()) {
        const mark = markOf(String(body.promptText))
        if (mark !== undefined) all.set(mark, (all.get(mark) ?? 0) + 1)
      }
      return all
    },
    async close() {
      await Promise.all([openai.close(), runway.close(), ...others.map(({ provider }) => provider.close())])
    },
  }
}

type Other = { name: string; url: string; provider: Emulator | WorkEmulator }

/** Providers of single kinds of work. */
async function startOthers(): Promise<Other[]> {
  const finishing = { autoFinish: videoPolls }
  const [sync, heygen, magicHour, meshy, elevenLabs, cohere] = await Promise.all([
    startSync(finishing),
    startHeygen(finishing),
    startMagicHour(finishing),
    startMeshy(finishing),
    startElevenLabs(),
    startRankings(rerankForms.cohere),
  ])
  return [
    { name: 'SYNC', url: sync.url, provider: sync },
    { name: 'HEYGEN', url: heygen.url, provider: heygen },
    { name: 'MAGIC_HOUR', url: magicHour.url, provider: magicHour },
    { name: 'MESHY', url: `${meshy.url}/openapi`, provider: meshy },
    { name: 'ELEVENLABS', url: elevenLabs.url, provider: elevenLabs },
    { name: 'COHERE', url: cohere.url, provider: cohere },
  ]
}

const impossibleUsages = [
  {},
  { usage: null },
  { usage: { prompt_tokens: -5, completion_tokens: 10, total_tokens: 5 } },
  { usage: { prompt_tokens: 'many', completion_tokens: 1.5, total_tokens: null } },
  { usage: { prompt_tokens: 20, completion_tokens: 1e12, total_tokens: 1e12 } },
]

function refusalOf(random: () => number): Reply {
  const refusal = { error: { message: 'Try again.', type: 'server_error', param: null, code: null } }
  const replies: Reply[] = [json(429, refusal, { 'retry-after': '1' }), json(500, refusal), json(503, refusal), reset]
  return replies[Math.floor(random() * replies.length)]!
}

/** A 200 that is no answer of a model. */
function lieOf(random: () => number): Reply {
  const html = '<html><body>Down for maintenance</body></html>'
  const replies: Reply[] = [
    text(200, html, { 'content-type': 'text/html' }),
    text(200, '{"choices":', { 'content-type': 'application/json' }),
    text(200, '', { 'content-type': 'application/json' }),
    json(200, { error: { message: 'Internal error', type: 'server_error', code: null } }),
    text(200, 'data: {"choices":[{\n\ndata: [DONE]\n\n', { 'content-type': 'text/event-stream' }),
  ]
  return replies[Math.floor(random() * replies.length)]!
}

function directAnswer({ path, body }: Recorded): Reply {
  if (path.startsWith('/v1/audio/')) return openAiAudio
  if (path === '/v1/moderations' || path === '/v1/responses') return openAiReply
  if (path.endsWith('/embeddings')) {
    const vector =
      body.encoding_format === 'base64'
        ? Buffer.from(new Float32Array([0.25, -0.5, 1]).buffer).toString('base64')
        : [0.25, -0.5, 1]
    const data = [body.input].flat().map((_, index) => ({ object: 'embedding', index, embedding: vector }))
    const tokens = 3 * data.length
    return json(200, {
      object: 'list',
      model: body.model,
      data,
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    })
  }
  return json(200, { created: 1_795_132_800, data: [{ b64_json: image }], usage: imageUsage })
}

function markOf(text: string): string | undefined {
  return /mark=(\S+)/.exec(text)?.[1]
}
