import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Tokenizer } from '../../kinds/tokenizer.ts'
import { audioTokensPerSecond, imageTokens } from './chat.ts'
import { Refused } from './realtime-refused.ts'
import { type Encoding, type Sound, secondsOf } from './realtime-sound.ts'

const mostCharacters = 1_000_000
const heardTokensPerSecond = 10

export type Part =
  | { type: 'input_text' | 'output_text'; text: string }
  | { type: 'input_audio' | 'output_audio'; sound: Sound; transcript: string | null }
  | { type: 'input_image'; image_url: string; detail: 'auto' | 'low' | 'high' }
type Body =
  | { type: 'message'; role: 'user' | 'assistant' | 'system'; content: Part[] }
  | { type: 'function_call'; name: string; call_id: string; arguments: string }
  | { type: 'function_call_output'; call_id: string; output: string }
/** One turn of a conversation, or a part of one. */
export type Item = { id: string; status: 'completed' | 'incomplete' | 'in_progress' } & Body
export type Message = Extract<Item, { type: 'message' }>

const text = z.string().max(mostCharacters)
const id = z.string().min(1).max(64)
const common = {
  id: id.optional(),
  object: z.literal('realtime.item').optional(),
  status: z.enum(['completed', 'incomplete', 'in_progress']).optional(),
}
const inputText = z.strictObject({ type: z.literal('input_text'), text })
const userPart = z.discriminatedUnion('type', [
  inputText,
  z.strictObject({ type: z.literal('input_audio'), audio: z.string(), transcript: text.nullable().optional() }),
  z.strictObject({
    type: z.literal('input_image'),
    image_url: z.string().regex(/^data:image\/(?:png|jpeg);base64,/, 'Give a PNG or JPEG as a data URI.'),
    detail: z.enum(['auto', 'low', 'high']).default('auto'),
  }),
])
const message = { ...common, type: z.literal('message') }
const parts = <T extends z.ZodType>(part: T) => z.array(part).min(1).max(100)

/** An item as a client gives it. */
export const givenItem = z.union([
  z.discriminatedUnion('role', [
    z.strictObject({ ...message, role: z.literal('user'), content: parts(userPart) }),
    z.strictObject({ ...message, role: z.literal('system'), content: parts(inputText) }),
    z.strictObject({
      ...message,
      role: z.literal('assistant'),
      content: parts(z.strictObject({ type: z.literal('output_text'), text })),
    }),
  ]),
  z.discriminatedUnion('type', [
    z.strictObject({
      ...common,
      type: z.literal('function_call'),
      name: id,
      call_id: id.optional(),
      arguments: text,
    }),
    z.strictObject({ ...common, type: z.literal('function_call_output'), call_id: id, output: text }),
  ]),
])
export type GivenItem = z.infer<typeof givenItem>

export function newId(prefix: 'item' | 'resp' | 'sess' | 'conv'): string {
  return `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`
}

/** An item of the client's, with an id. Its sound is taken to be in the session's format. Throws when it is no base64. */
export function itemOf(given: GivenItem, encoding: Encoding): Item {
  const known = { id: given.id ?? newId('item'), status: 'completed' as const }
  if (given.type === 'function_call_output')
    return { ...known, type: given.type, call_id: given.call_id, output: given.output }
  if (given.type === 'function_call') {
    const { type, name, call_id = `call_${known.id}`, arguments: args } = given
    return { ...known, type, name, call_id, arguments: args }
  }
  const content = given.content.map((part, index): Part => {
    if (part.type !== 'input_audio') return part
    const bytes = decoded(part.audio, `item.content.${index}.audio`)
    return { type: part.type, sound: { encoding, bytes }, transcript: part.transcript ?? null }
  })
  return { ...known, type: given.type, role: given.role, content }
}

/** The bytes of base64. Throws for anything else. */
export function decoded(base64: string, param: string): Buffer {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length !== Buffer.byteLength(base64, 'base64'))
    throw new Refused('invalid_value', `Invalid '${param}'. Expected base64-encoded audio bytes.`, param)
  return bytes
}

/** An item as events tell it: without its sound, unless that is asked for. */
export function toldItem(item: Item, withSound = false): object {
  const { id, type, status, ...rest } = item
  const head = { id, object: 'realtime.item', type, status }
  if (!('content' in rest)) return { ...head, ...rest }
  return { ...head, role: rest.role, content: rest.content.map(part => toldPart(part, withSound)) }
}

function toldPart(part: Part, withSound: boolean): object {
  if (!('sound' in part)) return part
  const { type, sound, transcript } = part
  return {
    type,
    ...(transcript !== null && { transcript }),
    ...(withSound && { audio: sound.bytes.toString('base64') }),
  }
}

/** An item as it is before anything is in it. */
export function emptied(item: Item): Item {
  return item.type === 'message' ? { ...item, content: [] } : item
}

/** What an item takes in memory, about. */
export function bytesOf(item: Item): number {
  if (item.type === 'function_call') return item.arguments.length
  if (item.type === 'function_call_output') return item.output.length
  return item.content.reduce((sum, part) => {
    if ('sound' in part) return sum + part.sound.bytes.length + (part.transcript?.length ?? 0)
    return sum + (part.type === 'input_image' ? part.image_url.length : part.text.length)
  }, 0)
}

export type Tokens = { text: number; audio: number; image: number }

/** What items count as a model's input or output. */
export function tokensOf(items: readonly Item[], tokenizer: Tokenizer): Tokens {
  const sum = { text: 0, audio: 0, image: 0 }
  for (const item of items) {
    if (item.type === 'function_call') sum.text += tokenizer.count(item.name) + tokenizer.count(item.arguments)
    else if (item.type === 'function_call_output') sum.text += tokenizer.count(item.output)
    else for (const part of item.content) addPart(sum, part, tokenizer)
  }
  return sum
}

function addPart(sum: Tokens, part: Part, tokenizer: Tokenizer): void {
  if ('text' in part) sum.text += tokenizer.count(part.text)
  else if (part.type === 'input_image') sum.image += imageTokens
  else if (part.type === 'input_audio') sum.audio += heardTokens(part.sound)
  else {
    sum.audio += Math.ceil(secondsOf(part.sound) * audioTokensPerSecond)
    sum.text += tokenizer.count(part.transcript ?? '')
  }
}

export function heardTokens(sound: Sound): number {
  return Math.ceil(secondsOf(sound) * heardTokensPerSecond)
}
