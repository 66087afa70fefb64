import { cachesByMarks, profileOf } from '../../catalog/traits.ts'
import { hasCacheMarks } from '../../kinds/cache-marks.ts'
import type { ChatMessage, ChatRequest } from '../../kinds/chat.ts'
import type { Call } from '../contract.ts'

type Part = Exclude<ChatMessage['content'], string | null | undefined>[number]

const mark = { cache_control: { type: 'ephemeral' } } as const

/**
 * The request of a call with `marksCache`, with cache marks, for a target that caches what is marked only; null where the
 * gateway adds none. They are the end of the system prompt, which new and compacted conversations share, the end of the request
 * before this one, which may be farther back than the provider looks from the last mark (20 blocks), and the end of this
 * one: where the profile says so at the top level, which Anthropic moves to the last block that can be cached. What is
 * written is paid for once, however many marks it has (docs/decisions/cache-marks.md).
 */
export function withSessionMarks({ body, target }: Call<'chat'>): ChatRequest | null {
  if (!cachesByMarks(target) || hasCacheMarks(body)) return null
  const { messages } = body
  const atTop = profileOf(target).cache_marks === 'top_level'
  const firstTurn = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const lastAnswer = messages.findLastIndex(({ role }) => role === 'assistant')
  const before = messages.findLastIndex(({ role }, at) => at < lastAnswer && role !== 'assistant')
  const ends = new Set([firstTurn - 1, before, ...(atTop ? [] : [messages.length - 1])])
  const marked = messages.map((message, at) => (ends.has(at) ? markedMessage(message) : message))
  return { ...body, messages: marked, ...(atTop && mark) }
}

/** The message with a mark at its last text, if it has one. */
function markedMessage<M extends ChatMessage>(message: M): M {
  // Marks of results are those of their messages, as in @openrouter/ai-sdk-provider, convert-to-openrouter-chat-messages.
  if (message.role === 'tool') return { ...message, ...mark }
  if (message.role === 'assistant') return message
  const { content } = message
  const parts: readonly Part[] = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  // OpenRouter takes marks of texts only. "cache_control cannot be set for empty text blocks"
  const last = parts.findLastIndex(part => part.type === 'text' && part.text.trim() !== '')
  if (last < 0) return message
  return { ...message, content: parts.map((part, at) => (at === last ? { ...part, ...mark } : part)) }
}
