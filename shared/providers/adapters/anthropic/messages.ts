import { profileOf } from '../../../catalog/traits.ts'
import { knownBetas } from '../../../kinds/anthropic-headers.ts'
import { asksFor1hCache } from '../../../kinds/cache-marks.ts'
import type { Message } from '../../../kinds/messages.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../contract.ts'
import { invalidResponse, objectIn, textIn } from '../../toolkit/json-fields.ts'
import { withDropped } from '../../toolkit/request-fields.ts'
import { Counters, messageIn } from './answer.ts'
import { version } from './chat.ts'
import { imageUrlsIn } from './fetched-images.ts'
import { editedBody, refuseMembers, refuseUnpriced } from './messages-request.ts'
import { MessageEventReader } from './messages-stream.ts'
import { findOwnThinking } from './own-thinking.ts'

/** `POST /v1/messages` for clients of the same dialect: their bytes, apart from what `editedBody` changes. */
export const messages: DirectAdapter<'messages'> = {
  native: true,
  request(call) {
    refuseMembers(call.body)
    refuseUnpriced(call)
    return post('/v1/messages', call)
  },
  answer(json) {
    const message = messageIn(json)
    textIn(message.id, 'id')
    textIn(message.stop_reason, 'stop_reason')
    if (!Array.isArray(message.content)) throw invalidResponse('content is not a list')
    for (const block of message.content) textIn(objectIn(block, 'content block').type, 'content block type')
    return json as Message
  },
  remoteMedia: ({ messages }, target) => (profileOf(target).image_urls ? [] : imageUrlsIn(messages)),
  stream: ({ body }) => new MessageEventReader(asksFor1hCache(body)),
  usage(json, { body }) {
    const counters = new Counters(asksFor1hCache(body))
    counters.report(objectIn(json, 'message').usage)
    return counters.usage
  },
  countTokens(call) {
    refuseMembers(call.body)
    return post('/v1/messages/count_tokens', call)
  },
}

function post(path: string, call: Call<'messages'>): UpstreamRequest {
  const { found, hasState } = findOwnThinking(call.body.messages)
  const { headers, query, dropped: droppedHeaders = [] } = call.forwarded ?? { headers: {}, query: '' }
  const { sent, closed } = takenBetas(headers, call.target.provider.quirks?.betas)
  const { body, dropped } = editedBody(call, found, closed)
  const request = {
    method: 'POST' as const,
    path: path + query,
    headers: { 'content-type': 'application/json', ...version, ...sent },
    body,
    reasoningDropped: hasState,
  }
  return withDropped(request, [...dropped, ...droppedHeaders, ...(sent === headers ? [] : ['anthropic-beta'])])
}

type Headers = Readonly<Record<string, string>>

/** Members of a request that every version of the API has, whatever a beta adds to them. */
const generalMembers = new Set(['cache_control', 'max_tokens', 'messages', 'output_config', 'thinking', 'tools'])

/** Betas that clouds have under another name (LiteLLM 1.110.2, `anthropic_beta_headers_config.json`). */
const cloudNames = new Map([['advanced-tool-use-2025-11-20', 'tool-search-tool-2025-10-19']])

/**
 * The headers with the betas that a provider takes, and the members that the others open: one "invalid beta flag" refuses the whole
 * request (anthropics/claude-code#49370), as does one of "Unexpected value(s)" (#12429, #21625). The same headers if all are taken.
 */
function takenBetas(
  headers: Headers,
  taken: readonly string[] | undefined,
): { sent: Headers; closed: readonly string[] } {
  const given = headers['anthropic-beta']
  if (!taken || given === undefined) return { sent: headers, closed: [] }
  const names = given.split(',').map(name => name.trim())
  if (names.every(name => taken.includes(name))) return { sent: headers, closed: [] }
  const isTaken = (name: string) => taken.includes(name)
  const kept = [...new Set(names.map(name => (isTaken(name) ? name : (cloudNames.get(name) ?? name))))].filter(isTaken)
  const opened = new Set(kept.map(name => knownBetas.get(name)))
  const closed = names.map(name => knownBetas.get(name) ?? '').filter(member => member && !generalMembers.has(member))
  const { 'anthropic-beta': _given, ...others } = headers
  return {
    sent: kept.length > 0 ? { ...others, 'anthropic-beta': kept.join(',') } : others,
    closed: closed.filter(member => !opened.has(member)),
  }
}
