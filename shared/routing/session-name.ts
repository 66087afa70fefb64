import { z } from 'zod'
import type { Catalog } from '../catalog/catalog.ts'
import { cachesByMarks } from '../catalog/traits.ts'
import type { Policy } from '../keys/policy.ts'
import { parseModelSelector, type RoutingRequest } from './options.ts'

/** How much of its first message identifies a conversation. */
const maxBeginning = 8_192

/** The parts of a chat, Gemini or Responses request that show whether an agent is at work. */
type Turns = {
  tools?: readonly unknown[] | null
  messages?: readonly Turn[]
  input?: string | readonly Turn[]
  contents?: readonly Turn[]
}
type Turn = { role?: unknown; content?: unknown; parts?: unknown }

/**
 * A name for the conversation of an agent that gives none: a chat or Responses request with tools and earlier answers, for a
 * model that caches what is marked only; null for others. Conversations of a key that begin alike have the same name, which
 * does no harm: they share what is cached. `auto` may choose another model in every turn, so it needs a name.
 */
export function unnamedSession(catalog: Catalog, { keyId }: Policy, request: RoutingRequest): string | null {
  const { tools, messages, input, contents } = request as Turns
  if (!tools?.length) return null
  const { model } = parseModelSelector(catalog, request.model, 'chat')
  if (!model || !catalog.targets(model).some(cachesByMarks)) return null
  const turns = messages ?? contents ?? input
  if (!Array.isArray(turns) || !turns.some(isAnswer)) return null
  const beginning = textOf(turns.find(({ role }: Turn) => role === 'user'))
  return beginning && `${keyId}\n${beginning}`
}

/** Calls of tools are items of their own in Responses. */
function isAnswer({ role, type }: Turn & { type?: unknown }): boolean {
  return role === 'assistant' || role === 'model' || type === 'function_call' || type === 'custom_tool_call'
}

function textOf(turn: Turn | undefined): string {
  const { content = turn?.parts } = turn ?? {}
  if (typeof content === 'string') return content.slice(0, maxBeginning)
  if (!Array.isArray(content)) return ''
  return content
    .map(part => (typeof part?.text === 'string' ? part.text : ''))
    .join('\n')
    .slice(0, maxBeginning)
}

/** The fields of a body that may name its conversation. */
export type NamingBody = {
  prompt_cache_key?: string | null | undefined
  metadata?: Record<string, string> | null | undefined
}

/** Longer values are not read; Claude Code's has 170 characters. */
const maxUserIdLength = 1_024
const userId = z.object({ session_id: z.string().min(1) })
/** The form of older versions. */
const olderUserId = /^user_.*_session_([\w-]+)$/

/**
 * The session that Claude Code puts into `metadata.user_id`; null if there is none. Other values name a person, whose
 * conversations are independent.
 */
export function sessionInMetadata({ metadata }: NamingBody): string | null {
  const value = metadata?.user_id
  if (typeof value !== 'string' || value.length > maxUserIdLength) return null
  if (!value.startsWith('{')) return olderUserId.exec(value)?.[1] ?? null
  try {
    return userId.safeParse(JSON.parse(value)).data?.session_id ?? null
  } catch {
    return null
  }
}
