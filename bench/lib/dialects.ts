import { chatPath, messagesPath, stampText } from './request.ts'

/** The APIs of providers; the emulated upstream distinguishes them by path. */
export const dialects = ['openai', 'anthropic', 'gemini'] as const
export type Dialect = (typeof dialects)[number]

/** The two sides of a text around its stamp. */
export type Split = readonly [string, string]

/** What the emulated upstream answers for a model: a whole answer, or the first, repeated and last chunk of a stream. */
export type Answers = { whole: string; first: string; chunk: string; last: string }

/** What a request's path says; `slug` and `stream` are null where the body says them. */
export type Asked = { dialect: Dialect; slug: string | null; stream: boolean | null }

export const emptyStamp = stampText(0, 0)
const sentence = 'A gateway takes a request, checks who sends it and what it may cost, and passes it on to a provider. '
const wholeText = emptyStamp + sentence.repeat(2)
const chunkText = `${emptyStamp} word`
const tokens = { input: 211, output: 42 }

/** Which API a path belongs to; null for none. */
export function askedBy(path: string): Asked | null {
  if (path === chatPath) return { dialect: 'openai', slug: null, stream: null }
  if (path === messagesPath) return { dialect: 'anthropic', slug: null, stream: null }
  const [, slug, method] = /^\/v1beta\/models\/([^:/]+):(g|streamG)enerateContent/.exec(path) ?? []
  return slug === undefined ? null : { dialect: 'gemini', slug, stream: method === 'streamG' }
}

/** The answers of a model in each dialect, each text with an empty stamp in it. Those of streams are framed as HTTP chunks. */
export const answersOf: Record<Dialect, (slug: string) => Answers> = { openai, anthropic, gemini }

function event(data: unknown, type?: string): string {
  const json = typeof data === 'string' ? data : JSON.stringify(data)
  const text = `${type === undefined ? '' : `event: ${type}\n`}data: ${json}\n\n`
  return `${text.length.toString(16)}\r\n${text}\r\n`
}

function openai(slug: string): Answers {
  const common = {
    id: 'chatcmpl-emulated',
    created: 1767225600,
    service_tier: 'default',
    system_fingerprint: 'fp_emulated',
  }
  const usage = {
    prompt_tokens: tokens.input,
    completion_tokens: tokens.output,
    total_tokens: tokens.input + tokens.output,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  }
  const choice = { index: 0, logprobs: null }
  const message = { role: 'assistant', content: wholeText, refusal: null }
  const choices = [{ ...choice, message, finish_reason: 'stop' }]
  const piece = (choices: unknown[], usage: unknown) =>
    event({ ...common, object: 'chat.completion.chunk', model: slug, choices, usage })
  const ended = piece([{ ...choice, delta: {}, finish_reason: 'stop' }], null)
  return {
    whole: JSON.stringify({ ...common, object: 'chat.completion', model: slug, choices, usage }),
    first: '',
    chunk: piece([{ ...choice, delta: { content: chunkText }, finish_reason: null }], null),
    last: `${ended}${piece([], usage)}${event('[DONE]')}`,
  }
}

function anthropic(slug: string): Answers {
  const common = { id: 'msg_emulated', type: 'message', role: 'assistant', model: slug, stop_sequence: null }
  const usage = { input_tokens: tokens.input, output_tokens: tokens.output, cache_read_input_tokens: 0 }
  const typed = (data: { type: string }) => event(data, data.type)
  const started = { ...common, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } }
  const block = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }
  const delta = { stop_reason: 'end_turn', stop_sequence: null }
  const ended = [
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta, usage },
    { type: 'message_stop' },
  ]
  return {
    whole: JSON.stringify({ ...common, content: [{ type: 'text', text: wholeText }], stop_reason: 'end_turn', usage }),
    first: typed({ type: 'message_start', message: started } as { type: string }) + typed(block),
    chunk: typed({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: chunkText } } as {
      type: string
    }),
    last: ended.map(typed).join(''),
  }
}

function gemini(slug: string): Answers {
  const usageMetadata = {
    promptTokenCount: tokens.input,
    candidatesTokenCount: tokens.output,
    totalTokenCount: tokens.input + tokens.output,
  }
  const common = { usageMetadata, modelVersion: slug, responseId: 'emulated' }
  const candidates = (text: string, finish: object) => [
    { content: { parts: [{ text }], role: 'model' }, index: 0, ...finish },
  ]
  return {
    whole: JSON.stringify({ candidates: candidates(wholeText, { finishReason: 'STOP' }), ...common }),
    first: '',
    chunk: event({ candidates: candidates(chunkText, {}), ...common }),
    last: event({ candidates: candidates('', { finishReason: 'STOP' }), ...common }),
  }
}
