import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import type { CacheDirective } from '../../shared/chat/cached-run.ts'
import { type NamingBody, sessionInMetadata } from '../../shared/chat/sticky-target.ts'
import type { StructuredCheck } from '../../shared/chat/structured-answers.ts'
import { type CallerTimeouts, readTimeouts, type TimedBody, timeoutName } from '../../shared/engine/caller-timeouts.ts'
import { type RequestLabels, structuredName } from '../../shared/engine/report.ts'
import type { Platform } from '../../shared/platform.ts'
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
  const directive = headers[marksName]
  if (directive === undefined || directive === 'on') return true
  if (directive === 'off') return false
  throw new GatewayError('invalid_request', `${marksName} must be \`on\` or \`off\`.`, { param: marksName })
}

/** The header by which a caller steers the response cache, where its key's policy has it on. */
export const cacheHeader: Header = {
  name: 'x-gateway-cache',
  maxLength: 128,
  description:
    '`off`: neither read nor stored in the response cache; `refresh`: not read, but stored; `on` (the default). Parameters: `ttl`, the greatest age in seconds, which can only shorten that of the key, and `namespace`, up to 64 letters, digits, `-` and `_`: `on; ttl=60; namespace=v2`. Has no effect where the key’s policy has no `cache`.',
}

const cacheDirective = /^(on|off|refresh)((?: *; *(?:ttl=[1-9]\d{0,7}|namespace=[\w-]{1,64}))*)$/

/** How a request uses the response cache. Throws 400. */
export function cacheDirectiveOf(headers: IncomingHttpHeaders): CacheDirective {
  const text = headers[cacheHeader.name]
  if (text === undefined) return { use: 'on' }
  const [, use, parameters = ''] = cacheDirective.exec(String(text)) ?? []
  if (use === undefined) {
    const message =
      'x-gateway-cache must be `on`, `off` or `refresh`, optionally with `; ttl=<seconds>` and `; namespace=<name>`.'
    throw new GatewayError('invalid_request', message, { param: cacheHeader.name })
  }
  const [, ttl] = /ttl=(\d+)/.exec(parameters) ?? []
  const [, namespace] = /namespace=([\w-]+)/.exec(parameters) ?? []
  return { use: use as CacheDirective['use'], ...(ttl && { maxAgeS: Number(ttl) }), ...(namespace && { namespace }) }
}

/** The headers that name the conversation of a request, for the routes that keep conversations together. */
export const sessionHeaders: Header[] = [ownHeader, ...agentHeaders]

/**
 * The caller's conversation id: the header `x-session-id`, else `prompt_cache_key` or OpenRouter's `session_id`, else the session of a coding agent
 * in its header or in `metadata.user_id`. Throws 400.
 */
export function sessionOf(headers: IncomingHttpHeaders, body: NamingBody): string | null {
  const own = readHeader(headers, ownHeader.name) || body.prompt_cache_key || body.session_id
  if (own) return String(own)
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

/** The header by which a caller says how long it waits. */
export const timeoutHeader: Header = {
  name: timeoutName,
  maxLength: 64,
  description:
    'How long the answer may take in milliseconds, e.g. `30000`, and how long each provider may take to its first token before the next one is tried: `30000; first-token=5000`. Like `provider.timeout_ms`; the shorter ones count.',
}

/** The timeouts of a request in its header and in its body; null if it has none. Throws 400. */
export function timeoutsOf(
  headers: IncomingHttpHeaders,
  body: object,
  { config }: Pick<Platform, 'config'>,
): CallerTimeouts | null {
  const sent = headers[timeoutName]?.toString()
  if (sent === undefined && (body as TimedBody).provider?.timeout_ms === undefined) return null
  return readTimeouts(sent, body, config.upstream.totalTimeoutMs)
}

/** The header by which a caller has answers in JSON checked. */
export const structuredHeader: Header = {
  name: structuredName,
  maxLength: 16,
  description:
    '`validate`: an answer that is not streamed is checked against the schema that the request asks for, and one that is not valid is a failure, upon which the next provider is called. `repair`: where only its form is wrong, it is repaired first.',
}

/** What a header asks for of an answer in JSON; null = nothing. Throws 400. */
export function structuredCheckOf(headers: IncomingHttpHeaders): StructuredCheck | null {
  const sent = headers[structuredName]
  if (sent === undefined || sent === 'validate' || sent === 'repair') return sent ?? null
  const message = `${structuredName} must be \`validate\` or \`repair\`.`
  throw new GatewayError('invalid_request', message, { param: structuredName })
}

const tagsName = 'x-gateway-tags'
const userName = 'x-gateway-user'
const maxTags = 16
const maxNameLength = 64
const maxValueLength = 128
const maxUserLength = 200
/** As much as the tags may be at most. */
const maxHeaderLength = maxTags * (maxNameLength + maxValueLength + 3)

/** The headers that attribute a request, in the request log and in usage. */
export const labelHeaders: Header[] = [
  {
    name: tagsName,
    maxLength: maxHeaderLength,
    description: `Tags of the request, such as \`project:acme,env:prod\`: at most ${maxTags} pairs. They are added to \`metadata\` in the request log, and usage can be grouped by them.`,
  },
  {
    name: userName,
    maxLength: maxUserLength,
    description: 'The end user of the request in the request log and in usage; takes precedence over `user`.',
  },
]

/** What the headers of a request attribute it to; null if they name nothing. Throws 400. */
export function labelsOf(headers: IncomingHttpHeaders): RequestLabels | null {
  const tags = headers[tagsName]
  const user = headers[userName]
  if (tags === undefined && user === undefined) return null
  const labels: RequestLabels = {}
  if (user !== undefined && user !== '') labels.user = assertShort(userName, String(user), maxUserLength)
  if (tags !== undefined && tags !== '') labels.tags = parseTags(assertShort(tagsName, String(tags), maxHeaderLength))
  return labels
}

function parseTags(text: string): Record<string, string> {
  const tags: Record<string, string> = Object.create(null)
  const pairs = text.split(',').filter(pair => pair.trim() !== '')
  if (pairs.length > maxTags) throw invalid(tagsName, `has at most ${maxTags} tags`)
  for (const pair of pairs) {
    const colon = pair.indexOf(':')
    const name = pair.slice(0, Math.max(0, colon)).trim()
    const value = pair.slice(colon + 1).trim()
    if (name === '' || value === '') throw invalid(tagsName, 'must be pairs such as project:acme, separated by commas')
    if (name.length > maxNameLength || value.length > maxValueLength)
      throw invalid(tagsName, `takes names of up to ${maxNameLength} and values of up to ${maxValueLength} characters`)
    tags[name] = value
  }
  return tags
}

function assertShort(name: string, text: string, max: number): string {
  if (text.length <= max) return text
  throw invalid(name, `must have at most ${max} characters`)
}

function invalid(param: string, fault: string): GatewayError {
  return new GatewayError('invalid_request', `${param} ${fault}.`, { param })
}
