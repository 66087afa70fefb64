import { setImmediate } from 'node:timers/promises'
import { isObject } from '../base/is-object.ts'
import { parseEvents } from '../io/sse.ts'

/** Events that are read before other work gets a turn. */
const eventsPerTurn = 200

type Json = Record<string, unknown>

/**
 * Joins the events of a stream into the answer that the request would have had without streaming: chat completions,
 * completions, messages and responses. A stream that broke off gives what had come; other events are kept as a list.
 */
export async function joinStream(kind: string, text: string): Promise<unknown> {
  const join = joiners[kind]
  const answer: Json = {}
  const others: unknown[] = []
  let read = 0
  for (const { data } of parseEvents(text)) {
    if (++read % eventsPerTurn === 0) await setImmediate()
    const event = jsonOf(data)
    if (!isObject(event)) continue
    if (event.error !== undefined && event.error !== null) answer.error = event.error
    else if (join) join(answer, event)
    else others.push(event)
  }
  return join ? finished(answer) : others
}

const joiners: Record<string, (answer: Json, event: Json) => void> = {
  chat: joinChunk,
  completion: joinChunk,
  messages: joinMessage,
  responses: joinResponse,
}

/** A chunk of a chat completion or completion. */
function joinChunk(answer: Json, { choices, usage, ...rest }: Json): void {
  Object.assign(answer, rest)
  if (usage) answer.usage = usage
  const own = (answer.choices ??= []) as Json[]
  for (const choice of listOf(choices)) {
    const index = indexOf(choice)
    if (index === null) continue
    const joined = (own[index] ??= { index })
    if (typeof choice.text === 'string') joined.text = `${joined.text ?? ''}${choice.text}`
    if (isObject(choice.delta)) joinDelta((joined.message ??= {}) as Json, choice.delta)
    if (choice.finish_reason) joined.finish_reason = choice.finish_reason
  }
}

function joinDelta(message: Json, { tool_calls: calls, ...delta }: Json): void {
  for (const [name, value] of Object.entries(delta)) {
    if (name === 'role') message.role = value
    else if (typeof value === 'string') message[name] = `${message[name] ?? ''}${value}`
    else if (value !== null) message[name] = value
  }
  for (const call of listOf(calls)) {
    const index = indexOf(call)
    if (index === null) continue
    const own = (message.tool_calls ??= []) as Json[]
    const joined = (own[index] ??= {})
    const { index: _, function: fn, custom, ...rest } = call
    Object.assign(joined, rest)
    if (isObject(fn)) joinTexts((joined.function ??= { name: '', arguments: '' }) as Json, fn, ['name', 'arguments'])
    if (isObject(custom)) joinTexts((joined.custom ??= { name: '', input: '' }) as Json, custom, ['name', 'input'])
  }
}

/** Appends the texts of a part to those of the whole. */
function joinTexts(whole: Json, part: Json, names: readonly string[]): void {
  for (const name of names) if (typeof part[name] === 'string') whole[name] = `${whole[name]}${part[name]}`
}

function joinMessage(answer: Json, event: Json): void {
  const blocks = (answer.content ??= []) as Json[]
  const index = indexOf(event)
  if (event.type === 'message_start' && isObject(event.message))
    Object.assign(answer, event.message, { content: blocks })
  else if (event.type === 'content_block_start' && index !== null && isObject(event.content_block))
    blocks[index] = { ...event.content_block }
  else if (event.type === 'content_block_delta' && index !== null && isObject(event.delta) && blocks[index])
    joinBlock(blocks[index], event.delta)
  else if (event.type === 'message_delta') {
    Object.assign(answer, event.delta)
    if (isObject(event.usage)) answer.usage = { ...(answer.usage as Json), ...event.usage }
  }
}

/** The field of a block that each kind of delta extends. */
const blockFields: Record<string, [delta: string, block: string]> = {
  text_delta: ['text', 'text'],
  thinking_delta: ['thinking', 'thinking'],
  input_json_delta: ['partial_json', 'partial_json'],
}

function joinBlock(block: Json, delta: Json): void {
  const [from, to] = blockFields[String(delta.type)] ?? []
  if (from === undefined || to === undefined || typeof delta[from] !== 'string') return
  block[to] = `${block[to] ?? ''}${delta[from]}`
}

/** The last event of a response has all of it; until then its items count, or the text that has come. */
function joinResponse(answer: Json, event: Json): void {
  const items = (answer.output ?? []) as unknown[]
  if (isObject(event.response)) {
    Object.assign(answer, event.response)
    if (listOf(answer.output).length === 0) answer.output = items
  } else if (event.type === 'response.output_item.done') answer.output = [...items, event.item]
  else if (event.type === 'response.output_text.delta') answer.partial = `${answer.partial ?? ''}${event.delta}`
}

/** Without the gaps and the parts that only joining needs. */
function finished(answer: Json): Json {
  for (const list of ['choices', 'content', 'output'])
    if (Array.isArray(answer[list])) answer[list] = answer[list].filter(Boolean)
  if (listOf(answer.output).length > 0) delete answer.partial
  for (const block of listOf(answer.content)) {
    if (typeof block.partial_json !== 'string') continue
    block.input = jsonOf(block.partial_json) ?? block.partial_json
    delete block.partial_json
  }
  return answer
}

/** A provider's index; larger ones would make a list of gaps. */
const maxIndex = 1_000

function indexOf({ index = 0 }: Json): number | null {
  return typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < maxIndex ? index : null
}

function listOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
