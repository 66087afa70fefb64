import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { imageTokens } from '../../../catalog/image-tokens.ts'
import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { audioTokensPerSecond } from '../chat/chat.ts'
import { EventError } from './event-error.ts'
import { type Encoding, type Sound, secondsOf } from './sound.ts'

const maxCharacters = 1_000_000
const inputTokensPerSecond = 10

export type Part =
  | { type: 'input_text' | 'output_text'; text: string }
  | { type: 'input_audio' | 'output_audio'; sound: Sound; transcript: string | null }
  | { type: 'input_image'; image_url: string; detail: 'auto' | 'low' | 'high' }
type Body =
  | { type: 'message'; role: 'user' | 'assistant' | 'system'; content: Part[] }
  | { type: 'function_call'; name: string; call_id: string; arguments: string }
  | { type: 'function_call_output'; call_id: string; output: string }
/** A turn of a conversation, or a part of one. */
export type Item = { id: string; status: 'completed' | 'incomplete' | 'in_progress' } & Body
export type Message = Extract<Item, { type: 'message' }>

const text = z.string().max(maxCharacters)
/** Longer ids of items and calls are refused with the provider's words. */
const maxIdLength = 32
const id = z.string().min(1).max(1_000)
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

/** An item sent by a client. */
export const itemSchema = z.union([
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
      name: z.string().min(1).max(64),
      call_id: id.optional(),
      arguments: text,
    }),
    z.strictObject({ ...common, type: z.literal('function_call_output'), call_id: id, output: text }),
  ]),
])
export type ClientItem = z.infer<typeof itemSchema>

export function newId(prefix: 'item' | 'resp' | 'sess' | 'conv' | 'call'): string {
  return `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`
}

/**
 * Converts a client's item and assigns an id. Its audio is assumed to be in the session's format. Throws when it is not
 * base64, or an id is too long.
 */
export function itemOf(clientItem: ClientItem, encoding: Encoding): Item {
  assertShort('id', clientItem.id)
  if ('call_id' in clientItem) assertShort('call_id', clientItem.call_id)
  const head = { id: clientItem.id ?? newId('item'), status: 'completed' as const }
  if (clientItem.type === 'function_call_output')
    return { ...head, type: clientItem.type, call_id: clientItem.call_id, output: clientItem.output }
  if (clientItem.type === 'function_call') {
    const { type, name, call_id = newId('call'), arguments: args } = clientItem
    return { ...head, type, name, call_id, arguments: args }
  }
  const content = clientItem.content.map((part, index): Part => {
    if (part.type !== 'input_audio') return part
    const bytes = decodeBase64(part.audio, `item.content.${index}.audio`)
    return { type: part.type, sound: { encoding, bytes }, transcript: part.transcript ?? null }
  })
  return { ...head, type: clientItem.type, role: clientItem.role, content }
}

function assertShort(name: 'id' | 'call_id', value = ''): void {
  if (value.length <= maxIdLength) return
  const message = `Invalid 'item.${name}': string too long. Expected a string with maximum length ${maxIdLength}, but got a string with length ${value.length} instead.`
  throw new EventError('string_above_max_length', message, `item.${name}`)
}

/** Decodes base64. Throws for anything else. */
export function decodeBase64(base64: string, param: string): Buffer {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length !== Buffer.byteLength(base64, 'base64'))
    throw new EventError('invalid_value', `Invalid '${param}'. Expected base64-encoded audio bytes.`, param)
  return bytes
}

/** An item as it appears in events: without its audio, unless that is requested. */
export function presentItem(item: Item, withSound = false): object {
  const { id, type, status, ...rest } = item
  const head = { id, object: 'realtime.item', type, status }
  if (!('content' in rest)) return { ...head, ...rest }
  return { ...head, role: rest.role, content: rest.content.map(part => presentPart(part, withSound)) }
}

function presentPart(part: Part, withSound: boolean): object {
  if (!('sound' in part)) return part
  const { type, sound, transcript } = part
  return { type, transcript, ...(withSound && { audio: sound.bytes.toString('base64') }) }
}

/** An item without content. */
export function withoutContent(item: Item): Item {
  return item.type === 'message' ? { ...item, content: [] } : item
}

/** The approximate memory size of an item. */
export function bytesOf(item: Item): number {
  if (item.type === 'function_call') return item.arguments.length
  if (item.type === 'function_call_output') return item.output.length
  return item.content.reduce((sum, part) => {
    if ('sound' in part) return sum + part.sound.bytes.length + (part.transcript?.length ?? 0)
    return sum + (part.type === 'input_image' ? part.image_url.length : part.text.length)
  }, 0)
}

export type Tokens = { text: number; audio: number; image: number }

/** The tokens of items as a model's input or output. */
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
  else if (part.type === 'input_image') sum.image += imageTokens.sandbox.chat
  else if (part.type === 'input_audio') sum.audio += inputAudioTokens(part.sound)
  else {
    sum.audio += Math.ceil(secondsOf(part.sound) * audioTokensPerSecond)
    sum.text += tokenizer.count(part.transcript ?? '')
  }
}

export function inputAudioTokens(sound: Sound): number {
  return Math.ceil(secondsOf(sound) * inputTokensPerSecond)
}

/** The audio parts of an item. */
export function soundsOf(item: Item): Extract<Part, { sound: Sound }>[] {
  return item.type === 'message' ? item.content.filter(part => 'sound' in part) : []
}
