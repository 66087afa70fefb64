import { newId } from '../../base/ids.ts'
import type { Usage } from '../../base/usage.ts'
import type { ChatChunk, ChatCompletion, ChatDelta, ChatRequest, FinishReason, ToolCall } from '../../kinds/chat.ts'
import type { Tokenizer } from '../../kinds/tokenizer.ts'
import { type Answer, badRequest, eventStream, fault, json, roomFor, untilStop, words } from './answer.ts'
import { wordsOfMedia } from './heard.ts'
import { instanceOf } from './instance.ts'
import { png } from './media.ts'
import { soundFile } from './sounds.ts'
import { argumentPieces, argumentsOf, calledTool, type FunctionTool, newCallId } from './tools.ts'

type Message = ChatCompletion['choices'][number]['message']
/** What every choice says. `tokens` counts one of them. */
type Output = { message: Message; finish: FinishReason; tokens: number; audioTokens: number; imageTokens: number }

const imageSide = 64
export const imageTokens = 258
export const spokenCharactersPerSecond = 15
export const audioTokensPerSecond = 20
/** Of all choices together: their base64 is in the answer. */
const mostAudioSeconds = 60
/** Base64 characters of sound in one event: whole samples, and whole groups of four. */
const audioPieceCharacters = 64_000
/** What OpenAI's format adds to each message, and to the whole. */
const framingTokens = 3

/** A chat answer: an echo of the last user message, unless the request makes a model call a tool or write JSON. */
export async function chat(body: ChatRequest, tokenizer: Tokenizer): Promise<Answer> {
  const text = (await wordsOfMedia(body)) || lastUserText(body)
  const tool = toolOf(body, text)
  if (tool === 'unknown') return badRequest('The tool choice names no function of the list of tools.', 'tool_choice')
  const format = soundFormatOf(body)
  if (body.stream && format && format !== 'pcm16') return unstreamable(format)
  const output = tool ? toolOutput(tool, body, tokenizer) : textOutput(text, body, tokenizer)
  const copies = body.n ?? 1
  const usage = usageOf(body, output, copies, tokenizer)
  const head = { id: newId('chatcmpl'), created: Math.floor(Date.now() / 1000), model: body.model }
  if (body.stream) return eventStream(chunks(head, output, body, usage, tokenizer))
  const told = body.logprobs ? logprobs(output.message.content ?? '', body, tokenizer) : null
  const choices = Array.from({ length: copies }, (_, index) => ({
    index,
    message: output.message,
    logprobs: told,
    finish_reason: output.finish,
  }))
  return json({ ...head, object: 'chat.completion', choices, usage })
}

/** The text of the last user message. */
export function lastUserText({ messages }: ChatRequest): string {
  const message = messages.findLast(({ role }) => role === 'user')
  return message ? textOf(message) : ''
}

function textOf({ content }: ChatRequest['messages'][number]): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(part => (part.type === 'text' ? String(part.text) : '')).join('')
}

/** The function that the request wants called, or that `sandbox:tool` asks for before any tool has answered. */
function toolOf(
  { tools = [], tool_choice: choice, messages }: ChatRequest,
  text: string,
): FunctionTool | 'unknown' | null {
  const functions = tools.filter(tool => tool.type === 'function').map(tool => tool.function)
  const asked = text.includes('sandbox:tool') && messages.at(-1)?.role === 'user'
  if (typeof choice !== 'object') return calledTool(functions, choice, asked)
  const named = choice.type === 'function' ? { named: (choice.function as FunctionTool).name } : undefined
  return calledTool(functions, named, asked)
}

function toolOutput(tool: FunctionTool, body: ChatRequest, tokenizer: Tokenizer): Output {
  const written = argumentsOf(tool)
  const args = limited(written, body, tokenizer)
  const call: ToolCall = { id: newCallId('call'), type: 'function', function: { name: tool.name, arguments: args } }
  return {
    message: { role: 'assistant', content: null, refusal: null, tool_calls: [call] },
    finish: args.length < written.length ? 'length' : 'tool_calls',
    tokens: tokenizer.count(tool.name) + tokenizer.count(args),
    audioTokens: 0,
    imageTokens: 0,
  }
}

function textOutput(text: string, body: ChatRequest, tokenizer: Tokenizer): Output {
  const whole = structured(text, body) ?? untilStop(text, body.stop)
  const content = limited(whole, body, tokenizer)
  const output: Output = {
    message: { role: 'assistant', content, refusal: null },
    finish: content.length < whole.length ? 'length' : 'stop',
    tokens: tokenizer.count(content),
    audioTokens: 0,
    imageTokens: 0,
  }
  if (body.modalities?.includes('image')) draw(output)
  const format = soundFormatOf(body)
  if (format) speak(output, format, body.n ?? 1)
  return output
}

function draw(output: Output): void {
  const url = `data:image/png;base64,${png(imageSide).toString('base64')}`
  output.message.images = [{ type: 'image_url', image_url: { url } }]
  output.tokens += imageTokens
  output.imageTokens = imageTokens
}

type ChatSoundFormat = NonNullable<ChatRequest['audio']>['format']

/** The format in which an answer is spoken; null where it is not. */
function soundFormatOf({ modalities, audio }: ChatRequest): ChatSoundFormat | null {
  return modalities?.includes('audio') && audio ? audio.format : null
}

/** OpenAI streams raw samples only. */
function unstreamable(format: ChatSoundFormat): Answer {
  const message = `audio.format does not support '${format}' when stream=true. Supported values are: 'pcm16'.`
  return fault(400, message, { type: 'invalid_request_error', code: 'unsupported_value', param: 'audio.format' })
}

/** Puts the text of an answer into sound, of which it becomes the transcript. */
function speak(output: Output, format: ChatSoundFormat, choices: number): void {
  const { message } = output
  const transcript = message.content ?? ''
  const seconds = Math.min(transcript.length / spokenCharactersPerSecond, mostAudioSeconds / choices)
  const data = soundFile(format === 'pcm16' ? 'pcm' : format, seconds).toString('base64')
  const expires = Math.floor(Date.now() / 1000) + 3600
  message.audio = { id: newCallId('audio'), data, expires_at: expires, transcript }
  message.content = null
  output.audioTokens = Math.ceil(seconds * audioTokensPerSecond)
  output.tokens += output.audioTokens
}

/** JSON, where the request asks for it. */
function structured(text: string, { response_format: format }: ChatRequest): string | null {
  if (format?.type === 'json_object') return JSON.stringify({ echo: text })
  if (format?.type !== 'json_schema') return null
  return JSON.stringify(instanceOf(format.json_schema.schema ?? {}) ?? {})
}

function limited(text: string, body: ChatRequest, tokenizer: Tokenizer): string {
  const most = body.max_completion_tokens ?? body.max_tokens
  const cut = most ? tokenizer.first(text, most) : text
  return cut.slice(0, roomFor(body.n ?? 1, body.logprobs === true))
}

function usageOf(body: ChatRequest, output: Output, copies: number, tokenizer: Tokenizer): Usage {
  const prompt = body.messages.reduce(
    (sum, message) => sum + framingTokens + tokenizer.count(textOf(message)),
    framingTokens,
  )
  const completion = output.tokens * copies
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: output.audioTokens * copies,
      ...(output.imageTokens > 0 && { image_tokens: output.imageTokens * copies }),
    },
  }
}

/** Every token is certain: its logarithm of probability is 0, and it is its own only alternative. */
function logprobs(text: string, body: ChatRequest, tokenizer: Tokenizer) {
  const content = tokenizer.split(text).map(token => {
    const entry = { token, bytes: [...Buffer.from(token)], logprob: 0 }
    return { ...entry, top_logprobs: body.top_logprobs ? [entry] : [] }
  })
  return { content, refusal: null }
}

type Head = { id: string; created: number; model: string }

function* chunks(
  head: Head,
  output: Output,
  body: ChatRequest,
  usage: Usage,
  tokenizer: Tokenizer,
): Generator<ChatChunk> {
  const asked = body.stream_options?.include_usage === true
  const chunk = (choices: ChatChunk['choices']): ChatChunk => {
    return { ...head, object: 'chat.completion.chunk', choices, ...(asked && { usage: null }) }
  }
  for (let index = 0; index < (body.n ?? 1); index++) {
    for (const delta of deltas(output.message)) {
      const told = body.logprobs && delta.content ? logprobs(delta.content, body, tokenizer) : null
      yield chunk([{ index, delta, logprobs: told, finish_reason: null }])
    }
    yield chunk([{ index, delta: {}, logprobs: null, finish_reason: output.finish }])
  }
  if (asked) yield { ...chunk([]), usage }
}

function* deltas({ content, tool_calls: calls = [], images, audio }: Message): Generator<ChatDelta> {
  yield { role: 'assistant', content: content === null ? null : '', refusal: null }
  for (const word of words(content ?? '')) yield { content: word }
  for (const [index, { id, type, function: called }] of calls.entries()) {
    yield { tool_calls: [{ index, id, type, function: { name: called.name, arguments: '' } }] }
    for (const piece of argumentPieces(called.arguments)) {
      yield { tool_calls: [{ index, function: { arguments: piece } }] }
    }
  }
  if (images) yield { images }
  if (audio) {
    yield { audio: { id: audio.id } }
    for (const transcript of words(audio.transcript)) yield { audio: { transcript } }
    for (let at = 0; at < audio.data.length; at += audioPieceCharacters)
      yield { audio: { data: audio.data.slice(at, at + audioPieceCharacters) } }
    yield { audio: { expires_at: audio.expires_at } }
  }
}
