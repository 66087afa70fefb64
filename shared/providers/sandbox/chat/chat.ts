import { newId } from '../../../base/ids.ts'
import { unixNow } from '../../../base/time.ts'
import type { Usage } from '../../../base/usage.ts'
import { imageTokens } from '../../../catalog/image-tokens.ts'
import { measureSound } from '../../../io/media/measure.ts'
import type { ChatChunk, ChatCompletion, ChatDelta, ChatRequest, FinishReason, ToolCall } from '../../../kinds/chat.ts'
import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { compactionPrompt } from '../../toolkit/compaction.ts'
import { textureFile } from '../media/mesh-files.ts'
import { soundFile } from '../media/sounds.ts'
import {
  badRequest,
  cutAtStop,
  errorResponse,
  eventStream,
  jsonResponse,
  maxCharacters,
  minPieceCharacters,
  type SandboxResponse,
  splitWords,
} from './response.ts'
import { fakeInstance } from './schema-faker.ts'
import { argumentPieces, argumentsOf, calledTool, type FunctionTool, newCallId } from './tools.ts'

type Message = ChatCompletion['choices'][number]['message']
/** The output of every choice. `tokens` counts one of them. */
type Output = { message: Message; finish: FinishReason; tokens: number; audioTokens: number; imageTokens: number }

export const spokenCharactersPerSecond = 15
export const audioTokensPerSecond = 20
/** For all choices together: the response contains their base64. */
const maxAudioSeconds = 60
/** Base64 characters of audio per event: whole samples, and whole groups of four. */
const audioPieceCharacters = 64_000
/** Tokens that OpenAI's format adds to each message, and to the prompt as a whole. */
const framingTokens = 3

/** A chat response: an echo of the last user message, unless the request forces a tool call or JSON. */
export async function chat(body: ChatRequest, tokenizer: Tokenizer): Promise<SandboxResponse> {
  const text = (await describeMedia(body)) || lastUserText(body)
  const tool = toolOf(body, text)
  if (tool === 'unknown') return badRequest('The tool choice names no function of the list of tools.', 'tool_choice')
  const format = soundFormatOf(body)
  if (body.stream && format && format !== 'pcm16') return unstreamable(format)
  const output = tool ? toolOutput(tool, body, tokenizer) : textOutput(text, body, tokenizer)
  const copies = body.n ?? 1
  const usage = usageOf(body, output, copies, tokenizer)
  const head = { id: newId('chatcmpl'), created: unixNow(), model: body.model }
  const top = body.logprobs ? { isListed: Boolean(body.top_logprobs), tokenizer } : null
  // Without the body: the response is kept until its client has read it.
  if (body.stream) return eventStream(chunks(head, output, { copies, top, usage: shownUsage(body, usage) }))
  const logprobsField = top && logprobs(output.message.content ?? '', top)
  const choices = Array.from({ length: copies }, (_, index) => ({
    index,
    message: output.message,
    logprobs: logprobsField,
    finish_reason: output.finish,
  }))
  return jsonResponse({ ...head, object: 'chat.completion', choices, usage })
}

/** The text of the last user message. */
export function lastUserText({ messages }: ChatRequest): string {
  const texts = messages.filter(({ role }) => role === 'user').map(textOf)
  const last = texts.at(-1) ?? ''
  if (!last.endsWith(compactionPrompt)) return last
  // The summary of a conversation is what was said last in it; of one without words, that they are absent.
  return last.slice(0, -compactionPrompt.length) || texts.at(-2) || 'The user has said nothing.'
}

function textOf({ content }: ChatRequest['messages'][number]): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(part => (part.type === 'text' ? String(part.text) : '')).join('')
}

/** The function that the request forces, or that `sandbox:tool` requests before any tool has answered. */
function toolOf(
  { tools = [], tool_choice: choice, messages }: ChatRequest,
  text: string,
): FunctionTool | 'unknown' | null {
  const functions = tools.filter(tool => tool.type === 'function').map(tool => tool.function)
  const isRequested = text.includes('sandbox:tool') && messages.at(-1)?.role === 'user'
  if (typeof choice !== 'object') return calledTool(functions, choice, isRequested)
  const named = choice.type === 'function' ? { named: (choice.function as FunctionTool).name } : undefined
  return calledTool(functions, named, isRequested)
}

function toolOutput(tool: FunctionTool, body: ChatRequest, tokenizer: Tokenizer): Output {
  const fullArguments = argumentsOf(tool)
  const args = cutArguments(fullArguments, body, tokenizer)
  const call: ToolCall = { id: newCallId('call'), type: 'function', function: { name: tool.name, arguments: args } }
  return {
    message: { role: 'assistant', content: null, refusal: null, tool_calls: [call] },
    finish: args.length < fullArguments.length ? 'length' : 'tool_calls',
    tokens: tokenizer.count(tool.name) + tokenizer.count(args),
    audioTokens: 0,
    imageTokens: 0,
  }
}

function textOutput(text: string, body: ChatRequest, tokenizer: Tokenizer): Output {
  const whole = structured(text, body) ?? cutAtStop(text, body.stop)
  const content = cutArguments(whole, body, tokenizer)
  const output: Output = {
    message: { role: 'assistant', content, refusal: null },
    finish: content.length < whole.length ? 'length' : 'stop',
    tokens: tokenizer.count(content),
    audioTokens: 0,
    imageTokens: 0,
  }
  if (body.modalities?.includes('image')) draw(output)
  const format = soundFormatOf(body)
  if (format) convertToAudio(output, format, body.n ?? 1)
  return output
}

function draw(output: Output): void {
  const url = `data:image/png;base64,${textureFile().toString('base64')}`
  output.message.images = [{ type: 'image_url', image_url: { url } }]
  output.tokens += imageTokens.sandbox.chat
  output.imageTokens = imageTokens.sandbox.chat
}

type ChatSoundFormat = NonNullable<ChatRequest['audio']>['format']

/** The audio format of the response; null if it is text. */
function soundFormatOf({ modalities, audio }: ChatRequest): ChatSoundFormat | null {
  return modalities?.includes('audio') && audio ? audio.format : null
}

/** OpenAI streams raw samples only. */
function unstreamable(format: ChatSoundFormat): SandboxResponse {
  const message = `audio.format does not support '${format}' when stream=true. Supported values are: 'pcm16'.`
  return errorResponse(400, message, {
    type: 'invalid_request_error',
    code: 'unsupported_value',
    param: 'audio.format',
  })
}

/** Converts the text of a response to audio with that text as its transcript. */
function convertToAudio(output: Output, format: ChatSoundFormat, choices: number): void {
  const { message } = output
  const transcript = message.content ?? ''
  const seconds = Math.min(transcript.length / spokenCharactersPerSecond, maxAudioSeconds / choices)
  const data = soundFile(format === 'pcm16' ? 'pcm' : format, seconds).toString('base64')
  const expires = unixNow() + 3600
  message.audio = { id: newCallId('audio'), data, expires_at: expires, transcript }
  message.content = null
  output.audioTokens = Math.ceil(seconds * audioTokensPerSecond)
  output.tokens += output.audioTokens
}

/** JSON, if the request requires it. */
function structured(text: string, { response_format: format }: ChatRequest): string | null {
  if (format?.type === 'json_object') return JSON.stringify({ echo: text })
  if (format?.type !== 'json_schema') return null
  return JSON.stringify(fakeInstance(format.json_schema.schema ?? {}) ?? {})
}

function cutArguments(text: string, body: ChatRequest, tokenizer: Tokenizer): string {
  const max = body.max_completion_tokens ?? body.max_tokens
  const cut = max ? tokenizer.first(text, max) : text
  return cut.slice(0, maxCharacters(body.n ?? 1, body.logprobs === true))
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

/** `isListed`: every token is listed as its own alternative. */
type LogProbabilities = { isListed: boolean; tokenizer: Tokenizer }

/** Every token is certain: its log probability is 0, and it is its own only alternative. */
function logprobs(text: string, { isListed, tokenizer }: LogProbabilities) {
  const content = tokenizer.split(text).map(token => {
    const entry = { token, bytes: [...Buffer.from(token)], logprob: 0 }
    return { ...entry, top_logprobs: isListed ? [entry] : [] }
  })
  return { content, refusal: null }
}

/** The usage, if the stream contains it. */
function shownUsage({ stream_options: options }: ChatRequest, usage: Usage): Usage | null {
  return options?.include_usage === true ? usage : null
}

type Head = { id: string; created: number; model: string }
type Streamed = { copies: number; top: LogProbabilities | null; usage: Usage | null }

function* chunks(head: Head, output: Output, { copies, top, usage }: Streamed): Generator<ChatChunk> {
  const chunk = (choices: ChatChunk['choices']): ChatChunk => {
    return { ...head, object: 'chat.completion.chunk', choices, ...(usage && { usage: null }) }
  }
  for (let index = 0; index < copies; index++) {
    for (const delta of deltas(output.message, copies)) {
      const logprobsField = top && delta.content ? logprobs(delta.content, top) : null
      yield chunk([{ index, delta, logprobs: logprobsField, finish_reason: null }])
    }
    yield chunk([{ index, delta: {}, logprobs: null, finish_reason: output.finish }])
  }
  if (usage) yield { ...chunk([]), usage }
}

/** The pieces of one of `copies` choices. */
function* deltas({ content, tool_calls: calls = [], images, audio }: Message, copies: number): Generator<ChatDelta> {
  yield { role: 'assistant', content: content === null ? null : '', refusal: null }
  for (const word of pieces(content ?? '', copies)) yield { content: word }
  for (const [index, { id, type, function: called }] of calls.entries()) {
    yield { tool_calls: [{ index, id, type, function: { name: called.name, arguments: '' } }] }
    for (const piece of argumentPieces(called.arguments, copies)) {
      yield { tool_calls: [{ index, function: { arguments: piece } }] }
    }
  }
  if (images) yield { images }
  if (audio) {
    yield { audio: { id: audio.id } }
    for (const transcript of pieces(audio.transcript, copies)) yield { audio: { transcript } }
    for (let at = 0; at < audio.data.length; at += audioPieceCharacters)
      yield { audio: { data: audio.data.slice(at, at + audioPieceCharacters) } }
    yield { audio: { expires_at: audio.expires_at } }
  }
}

function pieces(text: string, copies: number): Iterable<string> {
  return splitWords(text, minPieceCharacters(text.length * copies))
}

type UserPart = Exclude<Extract<ChatRequest['messages'][number], { role: 'user' }>['content'], string>[number]

/** The sandbox's response to a last user message with media and no text; '' for any other. */
async function describeMedia({ messages }: ChatRequest): Promise<string> {
  const message = messages.findLast(({ role }) => role === 'user')
  if (message?.role !== 'user' || typeof message.content === 'string') return ''
  if (message.content.some(part => part.type === 'text' && part.text.trim() !== '')) return ''
  const sentences: string[] = []
  for (const part of message.content) if (part.type !== 'text') sentences.push(await sentenceOf(part))
  return sentences.join(' ')
}

async function sentenceOf(part: Exclude<UserPart, { type: 'text' }>): Promise<string> {
  if (part.type === 'image_url') return 'I saw an image.'
  if (part.type === 'file') return 'I read a file.'
  const { data, format } = part.input_audio
  const seconds = await secondsOf(Buffer.from(data, 'base64'))
  return seconds === null ? `I heard ${format} audio.` : `I heard ${seconds} seconds of ${format} audio.`
}

/** Answers of the sandbox wait for one another. */
const sandbox = { organisationId: 'sandbox', environment: 'test' } as const

/** To a tenth of a second; null if the sound cannot be read. */
async function secondsOf(bytes: Buffer): Promise<number | null> {
  const ms = await measureSound(bytes, sandbox)
  return ms === null ? null : Math.round(ms / 100) / 10
}
