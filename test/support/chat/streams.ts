import OpenAI from 'openai'
import type { ChatChunk } from '../../../shared/kinds/chat.ts'
import { type Message, messageEvents } from '../../emulators/anthropic.ts'
import { framed, type Reply } from '../../emulators/emulator.ts'
import { piece } from '../../emulators/gemini.ts'
import { chatChunk } from '../../emulators/openai.ts'
import { saying, type World } from './gateway.ts'

export type Dialect = 'openai' | 'anthropic' | 'gemini'
export type Payloads = (object | string)[]

/** The usage of every answer here. */
export const counts = { prompt_tokens: 1_000, completion_tokens: 10, total_tokens: 1_010 }
export const geminiCounts = { promptTokenCount: 1_000, candidatesTokenCount: 10, totalTokenCount: 1_010 }

const message: Message = {
  ...({ id: 'msg_1', type: 'message', role: 'assistant', model: 'up', content: [] } as const),
  stop_reason: 'end_turn',
  stop_sequence: null,
  stop_details: null,
  usage: { input_tokens: 1_000, output_tokens: 10 },
}

/** A whole answer of these texts in each dialect: its events in order, from the first to the terminator. */
export const answers: Record<Dialect, (texts: string[]) => Payloads> = {
  openai: texts => [
    chatChunk({ role: 'assistant', content: '' }),
    ...texts.map(content => chatChunk({ content })),
    chatChunk({}, 'stop'),
    { ...chatChunk({}), choices: [], usage: counts },
    '[DONE]',
  ],
  anthropic: texts => messageEvents({ ...message, content: [{ type: 'text', text: texts.join('') }] }, () => texts),
  gemini: texts =>
    texts.map((text, index) =>
      piece(text, index === texts.length - 1 ? 'STOP' : undefined, { usageMetadata: geminiCounts }),
    ),
}

/** A model for each dialect that the provider of this name serves. */
export const models: Record<Dialect, string> = {
  openai: 'gpt-5',
  anthropic: 'claude-opus-4-6',
  gemini: 'gemini-3.1-flash-lite',
}

/** A stream of these payloads, all in one packet. */
export function streaming(payloads: Payloads, end: 'close' | 'hang' = 'close'): Reply {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(framed(payloads))
    if (end === 'close') response.end()
  }
}

/** Asks for a stream from the dialect's own provider and reads it with the official SDK; `error` is what the SDK threw, `onChunk` hears of every chunk. */
export async function readStream(
  { gateway }: World,
  key: string,
  dialect: Dialect,
  more: object = {},
  onChunk: (chunks: ChatChunk[]) => void = () => {},
) {
  const received = { text: '', headers: new Headers(), chunks: [] as ChatChunk[], error: null as unknown }
  let text: Promise<string> | undefined
  const fetching: typeof fetch = async (url, init) => {
    // The SDK hangs up at an error event; we want all that comes.
    const response = await fetch(url, { ...init, signal: null })
    received.headers = response.headers
    const [ours, theirs] = response.body!.tee()
    text = new Response(ours).text()
    return new Response(theirs, response)
  }
  const sdk = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0, fetch: fetching })
  const body = saying(models[dialect], 'Tell me a story', { stream: true, provider: { only: [dialect] }, ...more })
  try {
    const stream = await sdk.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsStreaming)
    for await (const chunk of stream) {
      received.chunks.push(chunk as ChatChunk)
      onChunk(received.chunks)
    }
  } catch (error) {
    received.error = error
  }
  received.text = (await text) ?? ''
  return received
}

export function contentOf(chunks: ChatChunk[]): string {
  return chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? '')).join('')
}

/** The finish reasons of all choices, in the order in which they came. */
export function finishesOf(chunks: ChatChunk[]): string[] {
  return chunks.flatMap(({ choices }) => choices.flatMap(({ finish_reason }) => finish_reason ?? []))
}
