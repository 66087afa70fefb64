import type { DirectKind } from '../kinds/index.ts'

// The texts of streams: every event of a text has a part of it.

// biome-ignore lint/suspicious/noExplicitAny: events of five formats, validated by those who wrote them
type Any = any

/** A part of a text. `holder[member]` is the part; `channel` names the text. */
type TextPart = { channel: string; holder: Any; member: string; isJson: boolean; isSealed: boolean }

/** What an event says about the texts of its stream. */
type StreamEvent = {
  parts: TextPart[]
  /** Whether the text of a channel ends with the event: after its own part, or before it. */
  ends(channel: string): boolean
  /** An event with this part alone, for the rest of a text that ended: that of the last part. */
  rest(channel: string, text: string): Any
  /** The channel of the text that the event signs, whose `delta.signature` does not hold for another text; absent = none. */
  signed?: string
}

/** Reads an event of a stream. */
export function readStreamEvent(kind: DirectKind, event: Any): StreamEvent {
  switch (kind) {
    case 'messages':
      return readMessageEvent(event)
    case 'responses':
      return readResponsesEvent(event)
    case 'generate_content':
      return readGeminiAnswer(event)
    default:
      return readChunk(event)
  }
}

/** Whether an event ends its stream with a failure. */
function isFailure(event: Any): boolean {
  return event?.error != null || event?.type === 'error' || event?.type === 'response.failed'
}

const chatMembers = ['content', 'refusal', 'reasoning', 'reasoning_content']

function readChunk(event: Any): StreamEvent {
  const parts: TextPart[] = []
  const ended = new Set<string>()
  for (const choice of event.choices ?? []) {
    const at = `${choice.index ?? 0}.`
    const add = (channel: string, holder: Any, member: string, isJson = false) => {
      if (typeof holder?.[member] === 'string')
        parts.push({ channel: at + channel, holder, member, isJson, isSealed: false })
    }
    add('text', choice, 'text')
    const { delta } = choice
    for (const member of chatMembers) add(member, delta, member)
    add('audio', delta?.audio, 'transcript')
    add('function', delta?.function_call, 'arguments', true)
    for (const call of delta?.tool_calls ?? []) {
      add(`call.${call.index ?? 0}`, call.function, 'arguments', true)
      add(`custom.${call.index ?? 0}`, call.custom, 'input')
    }
    for (const [i, detail] of (delta?.reasoning_details ?? []).entries()) {
      add(`detail.${detail.index ?? i}.text`, detail, 'text')
      add(`detail.${detail.index ?? i}.summary`, detail, 'summary')
    }
    if (choice.finish_reason != null) ended.add(at)
  }
  const isOver = isFailure(event)
  return {
    parts,
    ends: channel => isOver || [...ended].some(at => channel.startsWith(at)),
    rest(channel, text) {
      const { usage: _, ...head } = event
      const index = Number.parseInt(channel, 10)
      const [, name, position] = channel.split('.')
      if (name === 'text') return { ...head, choices: [{ index, text, logprobs: null, finish_reason: null }] }
      return {
        ...head,
        choices: [{ index, delta: deltaOf(channel, name!, Number(position), text), finish_reason: null }],
      }
    },
  }
}

function deltaOf(channel: string, name: string, position: number, text: string): object {
  if (name === 'call') return { tool_calls: [{ index: position, function: { arguments: text } }] }
  if (name === 'custom') return { tool_calls: [{ index: position, custom: { input: text } }] }
  if (name === 'function') return { function_call: { arguments: text } }
  if (name === 'audio') return { audio: { transcript: text } }
  if (name === 'detail') {
    const member = channel.endsWith('.summary') ? 'summary' : 'text'
    return { reasoning_details: [{ type: `reasoning.${member}`, index: position, [member]: text }] }
  }
  return { [name]: text }
}

const deltaMembers = ['text', 'partial_json', 'thinking']

function readMessageEvent(event: Any): StreamEvent {
  const { type, index, delta } = event
  const parts: TextPart[] = []
  if (type === 'content_block_delta')
    for (const member of deltaMembers)
      if (typeof delta?.[member] === 'string')
        parts.push({
          channel: `${index}.${member}`,
          holder: delta,
          member,
          isJson: member === 'partial_json',
          isSealed: member === 'thinking',
        })
  const isOver = type === 'message_stop' || isFailure(event)
  const isSignature = type === 'content_block_delta' && delta?.type === 'signature_delta'
  return {
    parts,
    ends: channel => isOver || (channel.startsWith(`${index}.`) && (type === 'content_block_stop' || isSignature)),
    ...(isSignature && { signed: `${index}.thinking` }),
    rest(channel, text) {
      const [position, member] = channel.split('.') as [string, string]
      const of = member === 'partial_json' ? 'input_json_delta' : `${member}_delta`
      return { type: 'content_block_delta', index: Number(position), delta: { type: of, [member]: text } }
    },
  }
}

const over = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error'])

function readResponsesEvent(event: Any): StreamEvent {
  const type: string = event.type ?? ''
  const item = `${event.output_index ?? event.item_id ?? ''}`
  const position = event.content_index ?? event.summary_index ?? ''
  const channel = `${item}/${position}/${type}`
  const parts: TextPart[] = []
  if (type.endsWith('.delta') && typeof event.delta === 'string' && type !== 'response.audio.delta')
    parts.push({ channel, holder: event, member: 'delta', isJson: type.includes('arguments'), isSealed: false })
  const isItemDone = type === 'response.output_item.done'
  return {
    parts,
    ends: one =>
      over.has(type) ||
      (isItemDone && one.startsWith(`${item}/`)) ||
      (type.endsWith('.done') && one === channel.replace(/\.done$/, '.delta')),
    rest: (_, text) => ({ ...event, delta: text }),
  }
}

function readGeminiAnswer(event: Any): StreamEvent {
  const parts: TextPart[] = []
  const ended = new Set<string>()
  for (const candidate of event.candidates ?? []) {
    const at = `${candidate.index ?? 0}.`
    for (const part of candidate.content?.parts ?? [])
      if (typeof part.text === 'string')
        parts.push({
          channel: at + (part.thought === true ? 'thought' : 'text'),
          holder: part,
          member: 'text',
          isJson: false,
          isSealed: false,
        })
      else ended.add(at)
    if (candidate.finishReason != null) ended.add(at)
  }
  const isOver = isFailure(event)
  return {
    parts,
    ends: channel => isOver || [...ended].some(at => channel.startsWith(at)),
    rest(channel, text) {
      const { usageMetadata: _, ...head } = event
      const part = { text, ...(channel.endsWith('thought') && { thought: true }) }
      return {
        ...head,
        candidates: [{ index: Number.parseInt(channel, 10), content: { role: 'model', parts: [part] } }],
      }
    },
  }
}
