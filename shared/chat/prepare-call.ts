import { GatewayError } from '../base/errors.ts'
import type { RunServices } from '../engine/base-run.ts'
import type { Policy } from '../keys/policy.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import { completeChat } from '../kinds/complete-chat.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Call, DirectAdapter, Protocol, UpstreamRequest } from '../providers/contract.ts'
import type { Route } from '../providers/upstreams.ts'
import { listedRequest } from '../routing/listed-request.ts'
import { dryRunRequest } from '../routing/options.ts'
import { noteUnknownMembers } from './note-unknown-members.ts'
import { fetchMedia, noMedia } from './remote-media.ts'
import type { ChatRunInput } from './run-input.ts'
import { reasoningOf } from './sticky-target.ts'

type CallInfo<K extends DirectKind> = {
  policy: Policy
  input: ChatRunInput<K>
  route: Route
  /** The output ceiling if the gateway sets one. */
  maxTokens: number | null
  /** Whether the provider has refused the reasoning state in the request. */
  isStateRefused: boolean
  /** The key of its conversation, whose later requests go to the same target; null = none. */
  session: string | null
}

type PreparedCall<K extends DirectKind> = {
  dialect: { adapter: DirectAdapter<K>; protocol: Protocol }
  call: Call<K>
  requests: UpstreamRequest[]
  /** The request fields that are not sent. */
  dropped: readonly string[]
  /** The request fields that are changed to what the target accepts. */
  adjusted: readonly string[]
}

/**
 * Translates a request for the target of a route, with the files and the reasoning state that it needs. Throws a
 * GatewayError 400 naming the field that the target cannot express, and what fetching a file throws.
 */
export async function prepareCall<K extends DirectKind>(
  services: RunServices,
  { policy, input, route: { target, credential }, maxTokens, isStateRefused, session }: CallInfo<K>,
): Promise<PreparedCall<K>> {
  const { kind, forwarded, features } = input
  const { body: listed, raw: listedRaw, dropped: unlisted } = listedRequest(input, features)
  const body = kind === 'chat' ? (completeChat(listed as ChatRequest) as typeof listed) : listed
  const raw = body === listed ? listedRaw : null
  const { upstreams, config } = services
  const { environment } = policy
  if (kind === 'messages' || kind === 'responses') noteUnknownMembers(kind, input.body, forwarded)
  // The sandbox supports everything; the emulated provider may not.
  const dryRun = environment === 'test' ? dryRunRequest(upstreams, kind, target, body) : null
  if (dryRun instanceof GatewayError) throw dryRun
  const dialect = upstreams.adapter(kind, target, environment, body)!
  const media = dialect.adapter.remoteMedia ? await fetchMedia(services, dialect.adapter, body) : noMedia
  const reasoning = reasoningOf(services, policy, { kind, credential, refused: isStateRefused })
  const state = reasoning instanceof Promise ? await reasoning : reasoning
  const passesUnknown = config.passUnknownFields
  const call: Call<K> = {
    target,
    body,
    raw,
    // What is reserved may allow more than this model, of several, takes.
    maxTokens: maxTokens && Math.min(maxTokens, target.model.max_output_tokens ?? maxTokens),
    media,
    ...state,
    marksCache: session !== null && input.marksCache === true && environment === 'live',
    ...(forwarded && { forwarded }),
    passesUnknown,
  }
  const requests = dialect.adapter.requests?.(call) ?? [dialect.adapter.request(call)]
  const { dropped = [], adjusted = [] } = dryRun ?? requests[0]!
  const allDropped = unlisted.length > 0 ? [...new Set([...unlisted, ...dropped])] : dropped
  return { dialect, call, requests, dropped: allDropped, adjusted }
}
