import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { canReason } from '../../catalog/traits.ts'
import type { ChatMessage } from '../../kinds/chat.ts'
import { CallIds } from './call-ids.ts'
import { sentToolName } from './fit-tools.ts'
import type { Fitting } from './fitting.ts'

type AssistantMessage = Extract<ChatMessage, { role: 'assistant' }>
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

/** Fits the messages: roles, members, ids, order. The list is the same if nothing changes. */
export function fitMessages(fitting: Fitting): void {
  const { messages } = fitting.body
  const fitter = new MessageFitter(fitting)
  let sent: ChatMessage[] | null = null
  for (let index = 0; index < messages.length; index++) {
    const message = messages[index]!
    const fitted = fitter.fit(message)
    if (fitter.needsBridge(message, messages[index - 1])) {
      sent ??= messages.slice(0, index)
      sent.push({ role: 'assistant', content: betweenText })
    }
    if (fitted !== message) sent ??= messages.slice(0, index)
    sent?.push(fitted)
  }
  if (sent) fitting.set({ messages: sent })
  fitting.dropped.push(...fitter.dropped)
  fitEnds(fitting)
}

class MessageFitter {
  readonly #profile: ChatProfile
  readonly #ids: CallIds
  readonly #members: ReadonlySet<string> | null
  readonly #reasoningField: ChatProfile['reasoning_field']
  readonly #dropped = new Set<string>()

  constructor({ profile, target }: Fitting) {
    this.#profile = profile
    this.#ids = new CallIds(profile)
    this.#members = profile.message_fields ? new Set(profile.message_fields) : null
    this.#reasoningField = canReason(target.deployment) ? profile.reasoning_field : 'none'
  }

  /** The members that were left out although the model would have read them. */
  get dropped(): Iterable<string> {
    return this.#dropped
  }

  needsBridge({ role }: ChatMessage, before: ChatMessage | undefined): boolean {
    return role === 'user' && before?.role === 'tool' && !this.#profile.user_after_tool
  }

  fit(message: ChatMessage): ChatMessage {
    const changes: Json = {}
    const members: Json = message
    for (const name in members) {
      if (!this.#isLeftOut(name, members[name])) continue
      changes[name] = undefined
      if (noticeable.has(name) && members[name]) this.#dropped.add(`messages.${name}`)
    }
    if (message.role === 'developer' && !this.#profile.developer_role) changes.role = 'system'
    if (message.role === 'tool')
      this.#replace(changes, message, 'tool_call_id', this.#ids.ofResult(message.tool_call_id))
    if (message.role === 'assistant') this.#fitAssistant(message, changes)
    if (!this.#profile.list_content && message.role !== 'user' && Array.isArray(message.content))
      changes.content = message.content.map(part => (part.type === 'text' ? part.text : part.refusal)).join('\n')
    for (const _ in changes) return { ...message, ...changes } as ChatMessage
    return message
  }

  #isLeftOut(name: string, value: unknown): boolean {
    if (value === undefined) return false
    if (Array.isArray(value) && value.length === 0 && name !== 'content') return true
    if (value === null) return name !== 'content' && !this.#profile.null_fields
    return this.#members !== null && !this.#members.has(name) && restricted.has(name)
  }

  #fitAssistant(message: AssistantMessage, changes: Json): void {
    const { reasoning_content: reasoning, tool_calls: calls } = message
    if (reasoning != null && this.#reasoningField !== 'reasoning_content') {
      changes.reasoning_content = undefined
      if (this.#reasoningField === 'reasoning' && reasoning !== '') changes.reasoning = reasoning
    }
    if (!calls?.length) return
    const sent = calls.map(call => this.#fitCall(call))
    if (sent.some((call, index) => call !== calls[index])) changes.tool_calls = sent
  }

  #fitCall(call: NonNullable<AssistantMessage['tool_calls']>[number]): typeof call {
    const id = this.#ids.ofCall(call.id)
    if (call.type === 'custom') {
      const name = sentToolName(call.custom.name, this.#profile)
      if (this.#profile.custom_tools)
        return id === call.id && name === call.custom.name ? call : { ...call, id, custom: { ...call.custom, name } }
      return { id, type: 'function', function: { name, arguments: JSON.stringify({ input: call.custom.input }) } }
    }
    const name = sentToolName(call.function.name, this.#profile)
    if (id === call.id && name === call.function.name) return call
    return { ...call, id, function: { ...call.function, name } }
  }

  #replace(changes: Json, message: ChatMessage, name: string, value: unknown): void {
    if ((message as Json)[name] !== value) changes[name] = value
  }
}

/** The rules for the whole conversation and its last message. */
function fitEnds(fitting: Fitting): void {
  const { messages } = fitting.body
  const { system_only: takesSystemOnly, prefill } = fitting.profile
  if (!takesSystemOnly && messages.every(({ role }) => role === 'system' || role === 'developer')) {
    fitting.set({ messages: messages.map(message => ({ ...message, role: 'user' }) as ChatMessage) })
    return
  }
  const last = messages.at(-1)
  if (last?.role !== 'assistant') return
  if (prefill === 'none')
    throw fitting.refusal('messages', 'this model cannot continue an answer: the last message must be the user’s')
  if (last.tool_calls?.length) return
  const sent = prefill === 'prefix' ? { ...last, prefix: true } : prefill === 'trimmed' ? withTrimmedEnd(last) : last
  if (sent !== last) fitting.set({ messages: [...messages.slice(0, -1), sent as ChatMessage] })
}

/**
 * An answer to continue without the white space at its end: "final assistant content cannot end with trailing whitespace"
 * (https://github.com/langchain-ai/langchain/pull/35072). The same object if there is none, or nothing else.
 */
export function withTrimmedEnd<M extends { content?: unknown }>(message: M): M {
  const { content } = message
  const last: unknown = Array.isArray(content) ? content.at(-1) : content
  const text: unknown = typeof last === 'object' && last !== null && 'text' in last ? last.text : last
  if (typeof text !== 'string') return message
  const trimmed = text.trimEnd()
  if (trimmed === text || trimmed === '') return message
  const sent = Array.isArray(content) ? [...content.slice(0, -1), { ...(last as object), text: trimmed }] : trimmed
  return { ...message, content: sent }
}
