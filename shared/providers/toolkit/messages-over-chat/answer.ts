import type { ChatCompletion, FinishReason } from '../../../kinds/chat.ts'
import type { Message, MessagesCitation, MessagesStopReason, MessagesUsage } from '../../../kinds/messages.ts'
import { messagesUsage } from '../../../kinds/messages-usage.ts'
import { argumentsObject } from '../call-arguments.ts'
import { citationsOf, snippetsOf } from '../over-chat/citations.ts'
import { thinkingBlocks } from './reasoning-state.ts'

/** The end of an answer: as in `Message` and in the last `message_delta`. */
type Stop = {
  stop_reason: MessagesStopReason
  stop_sequence: string | null
  stop_details: { type: 'refusal'; category: null; explanation: string | null } | null
}

/** What decides how an answer stopped. */
type Finish = {
  reason: FinishReason
  hasToolCalls: boolean
  /** The model's refusal; '' = it did not refuse. */
  refusal: string
  /** The stop sequence that was met, as some providers report it. */
  matchedStop: string | null
}

/**
 * Translates a complete chat answer: its first choice as thinking, text and tool calls, in this order. `stopSequences`:
 * those of the request.
 */
export function toMessage(answer: ChatCompletion, stopSequences: readonly string[] = []): Message {
  const choice = answer.choices[0]
  const { content, refusal, tool_calls: calls } = choice?.message ?? {}
  const text = (content ?? '') + (refusal ?? '')
  const { first: blocks, beforeCalls } = thinkingBlocks(choice?.message ?? {})
  const citations = messagesCitations(choice?.message.annotations, answer.search_results)
  if (isVisible(text)) blocks.push({ type: 'text', text, ...(citations.length > 0 && { citations }) })
  if (calls?.length) blocks.push(...beforeCalls)
  for (const [index, { id, function: fn }] of (calls ?? []).entries())
    blocks.push({
      type: 'tool_use',
      id: id || callId(answer.id, index),
      name: fn.name,
      input: argumentsObject(fn.arguments),
    })
  const finish: Finish = {
    reason: choice?.finish_reason ?? 'stop',
    hasToolCalls: (calls?.length ?? 0) > 0,
    refusal: refusal ?? '',
    matchedStop: matchedStop(choice, stopSequences),
  }
  return {
    ...messageHead(answer.id, answer.model, messagesUsage(answer.usage)),
    content: blocks,
    ...stopOf(finish),
  }
}

/** The citations of a text, in the order of their places. `results`: what the provider's search has found. */
export function messagesCitations(annotations: unknown, results: unknown): MessagesCitation[] {
  const citations = citationsOf(annotations)
  if (citations.length === 0) return []
  const snippets = snippetsOf(results)
  return citations.map(({ url, title }) => ({
    type: 'web_search_result_location',
    url,
    title: title || null,
    cited_text: snippets.get(url) ?? '',
    encrypted_index: '',
  }))
}

/** A message without content, as `message_start` has it. */
export function messageHead(id: string, model: string, usage: MessagesUsage): Message {
  return {
    id: messageId(id),
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
    usage,
  }
}

/** `msg_…`, whatever the chat answer's id is. */
function messageId(id: string): string {
  return id.startsWith('msg_') ? id : `msg_${id.replace(/^chatcmpl-/, '')}`
}

/** The id of a tool call for which the provider gave none. */
export function callId(answerId: string, index: number): string {
  return `toolu_${messageId(answerId)
    .slice(4)
    .replace(/[^a-zA-Z0-9_-]/g, '_')}_${index}`
}

/** Clients return the blocks of an answer, and a block of blanks would be refused by Anthropic's own API. */
export function isVisible(text: string): boolean {
  return text.trim() !== ''
}

export function stopOf({ reason, hasToolCalls, refusal, matchedStop }: Finish): Stop {
  const isRefused = refusal !== '' || reason === 'content_filter'
  const plain: Stop = { stop_reason: 'end_turn', stop_sequence: null, stop_details: null }
  if (isRefused) {
    const stop_details = { type: 'refusal' as const, category: null, explanation: refusal || null }
    return { ...plain, stop_reason: 'refusal', stop_details }
  }
  if (reason === 'length') return { ...plain, stop_reason: 'max_tokens' }
  // Some providers finish with `stop` although they call a tool, and others claim calls that they do not make.
  if (hasToolCalls) return { ...plain, stop_reason: 'tool_use' }
  return matchedStop === null ? plain : { ...plain, stop_reason: 'stop_sequence', stop_sequence: matchedStop }
}

/** The stop sequence that ended a choice, where the server names it: vLLM as `stop_reason`, SGLang as `matched_stop`. */
export function matchedStop(choice: object | undefined, stopSequences: readonly string[]): string | null {
  const { stop_reason, matched_stop } = (choice ?? {}) as Record<string, unknown>
  return stopSequences.find(sequence => sequence === stop_reason || sequence === matched_stop) ?? null
}
