import type { ChatChunk, ChatCompletion, ChatDelta, ToolCall } from '../../kinds/chat.ts'
import type { SseEvent, StreamDecoder } from '../stream-decoder.ts'
import { customInput } from '../toolkit/custom-tools.ts'
import type { ClientTool } from './fitting.ts'

type Tools = ReadonlyMap<string, ClientTool>
type DeltaCall = NonNullable<ChatDelta['tool_calls']>[number]

/** The answer with the client's names of its tools, and calls of custom tools as such. */
export function withClientTools(answer: ChatCompletion, tools: Tools): ChatCompletion {
  if (tools.size === 0) return answer
  const choices = answer.choices.map(choice => {
    const { tool_calls: calls } = choice.message
    if (!calls?.length) return choice
    return { ...choice, message: { ...choice.message, tool_calls: calls.map(call => clientCall(call, tools)) } }
  })
  return { ...answer, choices }
}

function clientCall(call: ToolCall, tools: Tools): ToolCall {
  const tool = tools.get(call.function?.name)
  if (!tool) return call
  if (tool.type === 'function') return { ...call, function: { ...call.function, name: tool.name } }
  const { function: called, ...others } = call
  const custom = { name: tool.name, input: customInput(called.arguments) }
  return { ...others, type: 'custom', custom } as unknown as ToolCall
}

/** A call of a custom tool in a stream, whose arguments are collected: its text is known once they are complete. */
type OpenCall = { choice: number; index: number; name: string; id: string | undefined; text: string }

/** Restores the client's tools in a stream. */
export class ClientToolsDecoder implements StreamDecoder<ChatChunk> {
  readonly #decoder: StreamDecoder<ChatChunk>
  readonly #tools: Tools
  /** By choice and index of the call. */
  readonly #open = new Map<string, OpenCall>()
  /** Calls whose name may go on. */
  readonly #begun = new Map<string, DeltaCall>()
  #last: ChatChunk | null = null

  constructor(decoder: StreamDecoder<ChatChunk>, tools: Tools) {
    this.#decoder = decoder
    this.#tools = tools
  }

  get done(): boolean {
    return this.#decoder.done
  }

  get over(): boolean {
    return this.#decoder.over === true
  }

  push(event: SseEvent, part?: number): ChatChunk[] {
    const chunks = this.#decoder.push(event, part).map(chunk => this.#restore(chunk))
    if (chunks.length > 0) this.#last = chunks.at(-1)!
    return this.done && this.#open.size > 0 ? [...chunks, ...this.#endOpen()] : chunks
  }

  /** The calls that are still open when a stream ends without a finish reason. */
  #endOpen(): ChatChunk[] {
    const { usage: _usage, ...head } = this.#last!
    const choices = [...new Set([...this.#open.values()].map(({ choice }) => choice))]
    return choices.map(index => {
      const delta = { tool_calls: this.#endCalls(index) }
      return { ...head, choices: [{ index, delta, finish_reason: null }] } as ChatChunk
    })
  }

  #restore(chunk: ChatChunk): ChatChunk {
    if (!chunk.choices.some(({ delta, finish_reason }) => delta.tool_calls?.length || finish_reason)) return chunk
    const choices = chunk.choices.map(choice => {
      const { delta, finish_reason: reason, index } = choice
      const calls = (delta.tool_calls ?? []).flatMap(call => this.#restoreCall(index, call))
      if (reason) calls.push(...this.#endCalls(index))
      if (calls.length === 0 && !delta.tool_calls) return choice
      const { tool_calls: _calls, ...others } = delta
      return { ...choice, delta: calls.length > 0 ? { ...others, tool_calls: calls } : others }
    })
    return { ...chunk, choices }
  }

  #restoreCall(choice: number, delta: DeltaCall): DeltaCall[] {
    const key = `${choice} ${delta.index}`
    const open = this.#open.get(key)
    if (open) {
      open.text += delta.function?.arguments ?? ''
      return []
    }
    const call = this.#withWholeName(key, delta)
    if (!call) return []
    const tool = call.function?.name ? this.#tools.get(call.function.name) : undefined
    if (!tool) return [call]
    if (tool.type === 'function') return [{ ...call, function: { ...call.function, name: tool.name } }]
    const { index, id, function: called } = call
    this.#open.set(key, { choice, index, name: tool.name, id, text: called.arguments ?? '' })
    return []
  }

  /** Some servers send a name in pieces: null until the name of a restored tool is whole. */
  #withWholeName(key: string, delta: DeltaCall): DeltaCall | null {
    const begun = this.#begun.get(key)
    const piece = delta.function?.name
    if (!begun && (!piece || this.#tools.has(piece))) return delta
    const name = `${begun?.function?.name ?? ''}${piece ?? ''}`
    const text = `${begun?.function?.arguments ?? ''}${delta.function?.arguments ?? ''}`
    const call = { ...begun, ...delta, function: { ...begun?.function, ...delta.function, name, arguments: text } }
    const isPart = piece && !this.#tools.has(name) && [...this.#tools.keys()].some(one => one.startsWith(name))
    if (isPart) this.#begun.set(key, call as DeltaCall)
    else this.#begun.delete(key)
    return isPart ? null : (call as DeltaCall)
  }

  #endCalls(choice: number): DeltaCall[] {
    const ended: DeltaCall[] = []
    for (const [key, call] of this.#begun) {
      if (!key.startsWith(`${choice} `)) continue
      this.#begun.delete(key)
      ended.push(call)
    }
    for (const [key, { choice: ofChoice, index, name, id, text }] of this.#open) {
      if (ofChoice !== choice) continue
      this.#open.delete(key)
      const custom = { name, input: customInput(text) }
      ended.push({ index, ...(id !== undefined && { id }), type: 'custom', custom } as unknown as DeltaCall)
    }
    return ended
  }
}
