import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { canReason } from '../../catalog/traits.ts'
import type { ChatMessage } from '../../kinds/chat.ts'
import { customArguments } from '../toolkit/custom-tools.ts'
import { systemReminder } from '../toolkit/over-chat/user-parts.ts'
import { CallIds } from './call-ids.ts'
import { sentToolName } from './fit-tools.ts'
import type { Fitting } from './fitting.ts'

type AssistantMessage = Extract<ChatMessage, { role: 'assistant' }>
type ToolMessage = Extract<ChatMessage, { role: 'tool' }>
type Call = NonNullable<AssistantMessage['tool_calls']>[number]
type Part = { type: 'text'; text: string } | { type: 'refusal'; refusal: string }
type Json = Record<string, unknown>

/** The members of messages that a profile restricts; the others are handled by the translation to the dialect. */
const restricted = new Set([
  'name',
  'refusal',
  'audio',
  'function_call',
  'prefix',
  'partial',
  'reasoning',
  'reasoning_content',
])
/** Of these, what the model would have read. */
const noticeable = new Set(['name', 'prefix', 'partial'])

/** The text of the assistant where a provider requires one between the results of tools and the user. */
const betweenText = 'OK'
/** The text of the user before an answer that a conversation begins with. */
const beforeText = '.'

/** Fits the messages: roles, members, ids, order. The list is the same if nothing changes. */
export function fitMessages(fitting: Fitting): void {
  const { messages } = fitting.body
  const fitter = new MessageFitter(fitting)
  let sent: ChatMessage[] | null = null
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index]!
    const fitted = fitter.fit(message)
    if (fitter.needsBridge(fitted, messages[index - 1])) {
      sent ??= messages.slice(0, index)
      sent.push({ role: 'assistant', content: betweenText })
    }
    if (fitted !== message) sent ??= messages.slice(0, index)
    sent?.push(fitted)
  }
  if (sent) fitting.set({ messages: sent })
  if (fitter.dropped) fitting.dropped.push(...fitter.dropped)
  fitEnds(fitting)
}

/** Most requests need nothing: what is needed rarely is made when it is. */
class MessageFitter {
  readonly #profile: ChatProfile
  readonly #reasoningField: ChatProfile['reasoning_field']
  #ids: CallIds | null = null
  #changes: Json | null = null
  /** Whether a message came that is not the system's. */
  #hasTurns = false
  /** The members that were left out although the model would have read them. */
  dropped: Set<string> | null = null

  constructor({ profile, target }: Fitting) {
    this.#profile = profile
    this.#reasoningField = canReason(target.deployment) ? profile.reasoning_field : 'none'
  }

  needsBridge({ role }: ChatMessage, before: ChatMessage | undefined): boolean {
    return role === 'user' && before?.role === 'tool' && !this.#profile.user_after_tool
  }

  fit(message: ChatMessage): ChatMessage {
    this.#changes = null
    const members: Json = message
    for (const name in members) {
      // Those that every message has.
      if (name === 'role' || name === 'content' || !this.#isLeftOut(name, members[name])) continue
      this.#change(name, undefined)
      if (!noticeable.has(name) || !members[name]) continue
      this.dropped ??= new Set()
      this.dropped.add(`messages.${name}`)
    }
    const { role, content } = message
    if (Array.isArray(content) && role !== 'user' && !this.#profile.list_content)
      this.#change('content', textOf(content as Part[]))
    if (role === 'system' || role === 'developer') this.#fitSystem(message)
    else this.#hasTurns = true
    if (role === 'tool') this.#fitResult(message)
    if (role === 'assistant') this.#fitAssistant(message)
    return this.#changes ? ({ ...message, ...(this.#changes as object) } as ChatMessage) : message
  }

  #fitSystem({ role, content }: ChatMessage): void {
    if (this.#hasTurns && !this.#profile.user_after_tool) {
      const text = typeof content === 'string' ? content : textOf(content as Part[])
      this.#change('role', 'user')
      this.#change('content', systemReminder(text))
    } else if (role === 'developer' && !this.#profile.developer_role) this.#change('role', 'system')
  }

  #change(name: string, value: unknown): void {
    this.#changes ??= {}
    this.#changes[name] = value
  }

  #isLeftOut(name: string, value: unknown): boolean {
    if (value === undefined) return false
    if (Array.isArray(value) && value.length === 0) return true
    if (value === null) return !this.#profile.null_fields
    const { message_fields: kept } = this.#profile
    return kept !== undefined && restricted.has(name) && !kept.includes(name)
  }

  #fitResult({ tool_call_id: id }: ToolMessage): void {
    this.#ids ??= new CallIds(this.#profile)
    const sent = this.#ids.ofResult(id)
    if (sent !== id) this.#change('tool_call_id', sent)
  }

  #fitAssistant({ reasoning_content: reasoning, tool_calls: calls }: AssistantMessage): void {
    if (reasoning != null && this.#reasoningField !== 'reasoning_content') {
      this.#change('reasoning_content', undefined)
      if (this.#reasoningField === 'reasoning' && reasoning !== '') this.#change('reasoning', reasoning)
    }
    if (!calls?.length) return
    this.#ids ??= new CallIds(this.#profile)
    const ids = this.#ids
    const sent = calls.map(call => this.#fitCall(call, ids.ofCall(call.id)))
    if (sent.some((call, index) => call !== calls[index])) this.#change('tool_calls', sent)
  }

  #fitCall(call: Call, id: string): Call {
    if (call.type === 'custom') {
      const name = sentToolName(call.custom.name, this.#profile)
      if (this.#profile.custom_tools)
        return id === call.id && name === call.custom.name ? call : { ...call, id, custom: { ...call.custom, name } }
      return { id, type: 'function', function: { name, arguments: customArguments(call.custom.input) } }
    }
    const name = sentToolName(call.function.name, this.#profile)
    if (id === call.id && name === call.function.name) return call
    return { ...call, id, function: { ...call.function, name } }
  }
}

function textOf(parts: readonly Part[]): string {
  return parts.map(part => (part.type === 'text' ? part.text : part.refusal)).join('\n')
}

/** The rules for the whole conversation and its last message. */
function fitEnds(fitting: Fitting): void {
  const { messages } = fitting.body
  const { system_only: takesSystemOnly, assistant_first: takesAssistantFirst, prefill } = fitting.profile
  const first = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  if (first < 0 && !takesSystemOnly)
    fitting.set({ messages: messages.map(message => ({ ...message, role: 'user' }) as ChatMessage) })
  if (messages[first]?.role === 'assistant' && !takesAssistantFirst)
    fitting.set({ messages: messages.toSpliced(first, 0, { role: 'user', content: beforeText }) })
  const last = messages.at(-1)
  if (last?.role !== 'assistant') return
  if (prefill === 'none')
    throw fitting.refusal('messages', 'This model cannot continue an answer: the last message must be the user’s.')
  if (last.tool_calls?.length) return
  const sent = prefill === 'prefix' ? { ...last, prefix: true } : prefill === 'trimmed' ? withTrimmedEnd(last) : last
  if (sent !== last) fitting.set({ messages: [...fitting.body.messages.slice(0, -1), sent as ChatMessage] })
}

/**
 * An answer to continue without the white space at its end: "final assistant content cannot end with trailing whitespace"
 * (https://github.com/langchain-ai/langchain/pull/35072). The same object if there is none, or nothing else.
 */
export function withTrimmedEnd<M extends { content?: unknown }>(message: M): M {
  const { content } = message
  if (typeof content === 'string') {
    const trimmed = content.trimEnd()
    return trimmed === '' || trimmed === content ? message : { ...message, content: trimmed }
  }
  if (!Array.isArray(content)) return message
  const parts: unknown[] = content.slice(0, content.findLastIndex(part => !isBlank(part)) + 1)
  const last = parts.at(-1)
  if (!isObject(last) || typeof last.text !== 'string') return message
  const text = last.text.trimEnd()
  if (text === last.text && parts.length === content.length) return message
  return { ...message, content: [...parts.slice(0, -1), { ...last, text }] }
}

/** Whether a part is text of nothing but white space. */
function isBlank(part: unknown): boolean {
  return isObject(part) && typeof part.text === 'string' && part.text.trim() === ''
}
