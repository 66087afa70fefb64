import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { audioTokensPerSecond, spokenCharactersPerSecond } from '../chat/chat.ts'
import { maxCharacters } from '../chat/response.ts'
import { argumentsOf, calledTool, type FunctionTool } from '../chat/tools.ts'
import { EventError } from './event-error.ts'
import type { Item, Message, Part } from './items.ts'
import { convertSound, type Encoding, firstSeconds, type Sound, secondsOf, tone } from './sound.ts'

/** The settings of a response: the session's, overridden by its own. */
export type ResponseRequest = {
  items: readonly Item[]
  instructions: string
  modality: 'text' | 'audio'
  tools: readonly FunctionTool[]
  toolChoice: 'none' | 'auto' | 'required' | { type: 'function'; name: string }
  maxTokens: number
  encoding: Encoding
}

/** The output of a response; `isCut` where the token limit truncated it. */
export type ResponseOutput = { isCut: boolean } & (
  | { kind: 'text'; text: string }
  | { kind: 'speech'; transcript: string; sound: Sound }
  | { kind: 'call'; name: string; args: string }
)

const maxToneSeconds = 60
/** Another format takes up to six times the memory, in every response. */
const maxRecodedSeconds = 60
const greeting = 'Hello from the sandbox.'

/**
 * An echo of the last user message: its audio unchanged, or its text, spoken as a tone; a tool call where the settings
 * force one or `sandbox:tool` requests one. Throws when the tool choice names an unknown tool.
 */
export function generateOutput(request: ResponseRequest, tokenizer: Tokenizer): ResponseOutput {
  const tool = toolOf(request)
  if (tool) {
    const args = argumentsOf(tool)
    const cutArgs = tokenizer.first(args, request.maxTokens)
    return { kind: 'call', name: tool.name, args: cutArgs, isCut: cutArgs.length < args.length }
  }
  const message = lastUserMessage(request.items)
  const sound = message && soundOf(message, request.encoding)
  const whole = (message ? wordsFor(message, sound) : greeting).slice(0, maxCharacters(1))
  const { maxTokens } = request
  const text = maxTokens === Number.POSITIVE_INFINITY ? whole : tokenizer.first(whole, maxTokens)
  if (request.modality === 'text') return { kind: 'text', text, isCut: text.length < whole.length }
  const speech = sound ?? tone(request.encoding, Math.min(maxToneSeconds, text.length / spokenCharactersPerSecond))
  const cutSpeech = firstSeconds(speech, maxTokens / audioTokensPerSecond)
  const isCut = text.length < whole.length || cutSpeech.bytes.length < speech.bytes.length
  return { kind: 'speech', transcript: text, sound: cutSpeech, isCut }
}

/** The text searched for directives: the user's text, then the instructions. */
export function directiveText({ items, instructions }: ResponseRequest): string {
  const message = lastUserMessage(items)
  return `${message ? textOf(message) : ''}\n${instructions}`
}

/** A duration in seconds, for use in sentences. */
export function lengthOf(sound: Sound): string {
  return `${Math.round(secondsOf(sound) * 1_000) / 1_000} seconds`
}

function lastUserMessage(items: readonly Item[]): Message | null {
  return items.findLast((item): item is Message => item.type === 'message' && item.role === 'user') ?? null
}

function textOf({ content }: Message): string {
  return content.map(part => ('text' in part ? part.text : '')).join('')
}

function wordsFor(message: Message, sound: Sound | null): string {
  const text = textOf(message)
  if (!sound) return text || 'You sent an image.'
  return [`You said ${lengthOf(sound)} of sound.`, text].filter(Boolean).join(' ')
}

function soundOf({ content }: Message, encoding: Encoding): Sound | null {
  const sounds = content.filter((part): part is Extract<Part, { sound: Sound }> => 'sound' in part)
  if (sounds.length === 0) return null
  const bytes = sounds.map(({ sound }) =>
    convertSound(
      sound.encoding === encoding ? sound : firstSeconds(sound, maxRecodedSeconds / sounds.length),
      encoding,
    ),
  )
  return { encoding, bytes: bytes.length === 1 ? bytes[0]! : Buffer.concat(bytes) }
}

function toolOf({ items, tools, toolChoice }: ResponseRequest): FunctionTool | null {
  const last = items.at(-1)
  const isRequested = last?.type === 'message' && last.role === 'user' && textOf(last).includes('sandbox:tool')
  const choice = typeof toolChoice === 'object' ? { named: toolChoice.name } : toolChoice
  const tool = calledTool(tools, choice, isRequested)
  if (tool !== 'unknown') return tool
  throw new EventError(
    'invalid_value',
    'The tool choice names no function of the list of tools.',
    'response.tool_choice',
  )
}
