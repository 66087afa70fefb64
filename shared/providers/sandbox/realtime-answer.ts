import type { Tokenizer } from '../../kinds/tokenizer.ts'
import { roomFor } from './answer.ts'
import { audioTokensPerSecond, spokenCharactersPerSecond } from './chat.ts'
import type { Item, Message, Part } from './realtime-items.ts'
import { Refused } from './realtime-refused.ts'
import { type Encoding, firstSeconds, recoded, type Sound, secondsOf, tone } from './realtime-sound.ts'
import { argumentsOf, calledTool, type FunctionTool } from './tools.ts'

/** What a response is made by: the session's settings with its own in their place. */
export type Request = {
  items: readonly Item[]
  instructions: string
  modality: 'text' | 'audio'
  tools: readonly FunctionTool[]
  toolChoice: 'none' | 'auto' | 'required' | { type: 'function'; name: string }
  mostTokens: number
  encoding: Encoding
}

/** What it is; `isCut` where the limit of tokens left no room for all of it. */
export type Answer = { isCut: boolean } & (
  | { kind: 'text'; text: string }
  | { kind: 'speech'; transcript: string; sound: Sound }
  | { kind: 'call'; name: string; args: string }
)

const longestToneSeconds = 60
/** In another format it takes up to six times the room, in every response anew. */
const longestRecodedSeconds = 60
const greeting = 'Hello from the sandbox.'

/**
 * An echo of the last user message: its sound as it was, or its text, spoken as a tone; a call where the settings force one
 * or `sandbox:tool` asks for one. Throws when the choice of tools names none of them.
 */
export function answerTo(request: Request, tokenizer: Tokenizer): Answer {
  const tool = toolOf(request)
  if (tool) {
    const args = argumentsOf(tool)
    const written = tokenizer.first(args, request.mostTokens)
    return { kind: 'call', name: tool.name, args: written, isCut: written.length < args.length }
  }
  const message = lastUserMessage(request.items)
  const sound = message && soundOf(message, request.encoding)
  const whole = (message ? wordsFor(message, sound) : greeting).slice(0, roomFor(1))
  const { mostTokens } = request
  const text = mostTokens === Number.POSITIVE_INFINITY ? whole : tokenizer.first(whole, mostTokens)
  if (request.modality === 'text') return { kind: 'text', text, isCut: text.length < whole.length }
  const spoken = sound ?? tone(request.encoding, Math.min(longestToneSeconds, text.length / spokenCharactersPerSecond))
  const heard = firstSeconds(spoken, mostTokens / audioTokensPerSecond)
  const isCut = text.length < whole.length || heard.bytes.length < spoken.bytes.length
  return { kind: 'speech', transcript: text, sound: heard, isCut }
}

/** The text that may hold magic words: what the user wrote, then what the model was told. */
export function magicText({ items, instructions }: Request): string {
  const message = lastUserMessage(items)
  return `${message ? textOf(message) : ''}\n${instructions}`
}

/** A length as sentences tell it, in seconds. */
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
    recoded(sound.encoding === encoding ? sound : firstSeconds(sound, longestRecodedSeconds / sounds.length), encoding),
  )
  return { encoding, bytes: bytes.length === 1 ? bytes[0]! : Buffer.concat(bytes) }
}

function toolOf({ items, tools, toolChoice }: Request): FunctionTool | null {
  const last = items.at(-1)
  const asked = last?.type === 'message' && last.role === 'user' && textOf(last).includes('sandbox:tool')
  const choice = typeof toolChoice === 'object' ? { named: toolChoice.name } : toolChoice
  const tool = calledTool(tools, choice, asked)
  if (tool !== 'unknown') return tool
  throw new Refused('invalid_value', 'The tool choice names no function of the list of tools.', 'response.tool_choice')
}
