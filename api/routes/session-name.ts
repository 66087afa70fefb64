import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import { type NamingBody, sessionInMetadata } from '../../shared/routing/session-in-metadata.ts'
import type { Header } from '../endpoint.ts'

const maxLength = 256

const ownHeader = {
  name: 'x-session-id',
  maxLength,
  description:
    'Identifies the conversation, like `prompt_cache_key`, over which it takes precedence: its requests stay with one model, provider and API key to hit prompt caches.',
}

/** The headers in which coding agents send the id of their session, in order of precedence. */
const agentHeaders = [
  { name: 'x-claude-code-session-id', maxLength, description: 'The session of Claude Code; read like `x-session-id`.' },
  { name: 'session-id', maxLength, description: 'The session of Codex; read like `x-session-id`.' },
  { name: 'x-opencode-session', maxLength, description: 'The session of opencode; read like `x-session-id`.' },
  { name: 'x-session-affinity', maxLength, description: 'The session of opencode and pi; read like `x-session-id`.' },
]

const marksName = 'x-gateway-cache-marks'

/** The header by which a caller switches off the gateway's own cache marks. */
export const cacheMarksHeader: Header = {
  name: marksName,
  maxLength: 8,
  description:
    '`off`: the gateway does not mark what the provider is to cache. By default it does for conversations with models that cache marked prompts only, if the request has no marks.',
}

/** Whether a request leaves it to the gateway to mark what providers are to cache. Throws 400. */
export function allowsCacheMarks(headers: IncomingHttpHeaders): boolean {
  const wish = headers[marksName]
  if (wish === undefined || wish === 'on') return true
  if (wish === 'off') return false
  throw new GatewayError('invalid_request', `${marksName} must be \`on\` or \`off\`.`, { param: marksName })
}

/** The headers that name the conversation of a request, for the routes that keep conversations together. */
export const sessionHeaders: Header[] = [ownHeader, ...agentHeaders]

/**
 * The caller's conversation id: the header `x-session-id`, else `prompt_cache_key`, else the session of a coding agent
 * in its header or in `metadata.user_id`. Throws 400.
 */
export function sessionOf(headers: IncomingHttpHeaders, body: NamingBody): string | null {
  const own = readHeader(headers, ownHeader.name) || body.prompt_cache_key
  if (own) return own
  for (const { name } of agentHeaders) {
    const id = readHeader(headers, name)
    if (id) return id
  }
  return sessionInMetadata(body)
}

function readHeader(headers: IncomingHttpHeaders, name: string): string {
  const id = String(headers[name] ?? '')
  if (id.length <= maxLength) return id
  throw new GatewayError('invalid_request', `${name} must have at most ${maxLength} characters.`, { param: name })
}
