import { z } from 'zod'

/** A mark on a part, message or tool, or at the top level of a request. Fields beside these are dropped and named. */
export const cacheControl = z
  .looseObject({
    type: z.literal('ephemeral'),
    ttl: z
      .enum(['5m', '1h'])
      .nullish()
      .describe('The lifetime of the cache, 5 minutes by default; `1h` only where the model has a price for it.'),
  })
  .meta({
    id: 'CacheControl',
    description: 'Caches the prompt up to this place, at providers that take marks. Others drop it.',
  })

/** The field of parts and tools. */
export const marked = { cache_control: cacheControl.optional() }

type Marked = { cache_control?: unknown }
/** Where blocks hold others: contents of results and documents, and tools that a block adds. */
const nested = ['content', 'source', 'tool', 'definition', 'tool_references', 'tool_changes'] as const
type MarkedMessage = Marked & { [name in (typeof nested)[number]]?: unknown }
type MarkedRequest = Marked & {
  messages: readonly MarkedMessage[]
  tools?: readonly Marked[] | null | undefined
  /** Messages requests have it. */
  system?: unknown
}

/** Whether a chat request has a mark: at its top level, in a tool, a message or a part. */
export function hasCacheMarks({ cache_control, tools, messages }: MarkedRequest): boolean {
  if (cache_control || tools?.some(isMarked)) return true
  return messages.some(
    message => isMarked(message) || (Array.isArray(message.content) && message.content.some(isMarked)),
  )
}

function isMarked({ cache_control }: Marked): boolean {
  return Boolean(cache_control)
}

/** Whether a mark asks for one hour: at the top level of a request, in a tool, its system prompt, a message or a part. */
export function asksFor1hCache(request: MarkedRequest): boolean {
  const { messages, tools, system } = request
  const isAround = isFor1h(request) || (tools?.some(isFor1h) ?? false) || anyHasMarkFor1h(system)
  return isAround || messages.some(hasMarkFor1h)
}

function hasMarkFor1h(message: MarkedMessage): boolean {
  return isFor1h(message) || nested.some(name => anyHasMarkFor1h(message[name]))
}

/** A part may itself contain parts, such as the result of a tool, or a document of blocks. */
function anyHasMarkFor1h(parts: unknown): boolean {
  if (Array.isArray(parts)) return parts.some(anyHasMarkFor1h)
  return typeof parts === 'object' && parts !== null && hasMarkFor1h(parts)
}

function isFor1h({ cache_control: mark }: Marked): boolean {
  return typeof mark === 'object' && mark !== null && 'ttl' in mark && mark.ttl === '1h'
}
