import { setTimeout as sleep } from 'node:timers/promises'
import { events, type Reply } from '../../emulators/emulator.ts'

/** What a provider charges in USD per million tokens, and what it counts for every whole answer. */
export const prices = { p1: { input: 10, output: 20 }, p2: { input: 30, output: 40 } } as const
export type ProviderName = keyof typeof prices
const counted = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }

/** The prompt of every request, and the tokens it has where the gateway must count by itself. */
export const prompt = { text: 'Tell me a story', tokens: 12 }

/** How a story begins, and its tokens by the o200k vocabulary. */
export const beginning = { text: 'p1 tells', tokens: 3 }
const rest = [' a', ' story']
export const wholeTokens = 5

export function storyOf(provider: ProviderName): string {
  return `${provider} tells a story`
}

/** What tokens cost at a provider, margin included, in whole nano-dollars. */
export function costNano(provider: ProviderName, promptTokens = 11, completionTokens = 7): number {
  const { input, output } = prices[provider]
  return (promptTokens * input + completionTokens * output) * 1_050
}

/** Departures from a whole answer. */
export type Departure = { finish?: string; usage?: false; done?: false; contentType?: string }

/** A whole answer of a provider: JSON, or events where the request asks for a stream. */
export function whole(provider: ProviderName, departure: Departure = {}): Reply {
  return (request, response) => {
    const { stream } = request.body
    const contentType = departure.contentType ?? (stream ? 'text/event-stream' : 'application/json')
    response.writeHead(200, { 'content-type': contentType })
    response.end(stream ? eventsOf(provider, departure) : jsonOf(provider, departure))
  }
}

export function jsonOf(provider: ProviderName, { finish = 'stop', usage }: Departure = {}): string {
  const message = { role: 'assistant', content: storyOf(provider) }
  const choices = [{ index: 0, message, finish_reason: finish }]
  const answer = { id: 'chatcmpl-f', object: 'chat.completion', created: 7, model: 'm', choices }
  return JSON.stringify({ ...answer, ...(usage !== false && { usage: counted }) })
}

export function eventsOf(provider: ProviderName, { finish = 'stop', usage, done }: Departure = {}): string {
  const pieces = [`${provider} tells`, ...rest].map(content => chunk({ content }))
  const end = [chunk({}, finish)]
  if (usage !== false) end.push(data({ ...head, choices: [], usage: counted }))
  if (done !== false) end.push('data: [DONE]\n\n')
  return [chunk({ role: 'assistant', content: '' }), ...pieces, ...end].join('')
}

const head = { id: 'chatcmpl-f', object: 'chat.completion.chunk', created: 7, model: 'm' }

function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

export function chunk(delta: object, finish_reason: string | null = null): string {
  return data({ ...head, choices: [{ index: 0, delta, finish_reason }] })
}

/** What a stream says before its story breaks off. */
export const begun = [chunk({ role: 'assistant', content: '' }), chunk({ content: beginning.text })]

/** Begins the story, then says or does something else. */
export function begins(then: string[], end: 'close' | 'cut' | 'hang' = 'close'): Reply {
  return events([...begun, ...then], { intervalMs: 10, end })
}

/** Any bytes as they are. */
export function bytes(status: number, contentType: string, body: string, headers: Record<string, string> = {}): Reply {
  return (_request, response) => void response.writeHead(status, { 'content-type': contentType, ...headers }).end(body)
}

/** Promises more than it sends, then breaks the connection. */
export const halfBody: Reply = async (_request, response) => {
  const text = jsonOf('p1')
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length })
  response.write(text.slice(0, text.length / 2))
  await sleep(10)
  response.socket?.resetAndDestroy()
}

/** A whole answer in so many pieces of the same size, with pauses between them; by default one byte at a time. */
export function drip(pieces = Number.POSITIVE_INFINITY, intervalMs = 0): Reply {
  return async (request, response) => {
    const { stream } = request.body
    response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
    const text = Buffer.from(stream ? eventsOf('p1') : jsonOf('p1'))
    const size = Math.ceil(text.length / Math.min(pieces, text.length))
    for (let at = 0; at < text.length && !response.destroyed; at += size) {
      response.write(text.subarray(at, at + size))
      await sleep(intervalMs)
    }
    response.end()
  }
}

/** The head of an answer at once, then nothing. */
export const headOnly: Reply = (request, response) => {
  response.writeHead(200, { 'content-type': request.body.stream ? 'text/event-stream' : 'application/json' })
  response.flushHeaders()
}
