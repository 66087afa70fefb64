import { canReason, hasOurTokenizer } from '../catalog/traits.ts'
import type { RunServices } from '../engine/base-run.ts'
import { failureOf } from '../engine/failures.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { Call, Forwarded, Target } from '../providers/contract.ts'
import { isRequestFault, ProviderError } from '../providers/provider-error.ts'
import type { Features } from '../routing/features.ts'
import { listedRequest } from '../routing/listed-request.ts'
import { snapshotOf } from '../routing/options.ts'
import { route } from '../routing/router.ts'
import { receiveAnswer } from './attempt.ts'
import type { ChatFormat } from './chat-format.ts'
import { generateContentFormat } from './generate-content-format.ts'
import { messagesFormat } from './messages-format.ts'
import { noMedia } from './remote-files.ts'
import { responsesFormat } from './responses-format.ts'

/** The dialects whose own providers count tokens. */
type CountedKind = 'messages' | 'generate_content'

type CountInput<K extends CountedKind> = {
  key: ResolvedKey
  body: DirectKinds[K]['request']
  raw: Buffer | null
  features: Features
  forwarded?: Forwarded
  client: ResponseWriter
}

/** For models with another tokenizer than ours: a count that is too low would let a client exceed the model's context. */
const tokenizerMargin = 1.15

/**
 * Counts the prompt tokens of a Messages request: by the provider where its protocol can, otherwise by our tokenizer,
 * rounded up where it is not the model's own. Throws a GatewayError as routing does, and for a request that the provider refuses.
 */
export function countMessageTokens(services: RunServices, input: CountInput<'messages'>): Promise<number> {
  return countTokensOf(services, messagesFormat, 'messages', input)
}

/** Counts the prompt tokens of a request in Google's form, as above. */
export function countContentTokens(services: RunServices, input: CountInput<'generate_content'>): Promise<number> {
  return countTokensOf(services, generateContentFormat, 'generate_content', input)
}

async function countTokensOf<K extends CountedKind>(
  services: RunServices,
  format: ChatFormat<K>,
  kind: K,
  input: CountInput<K>,
): Promise<number> {
  const { key, body, features } = input
  const { policy } = key
  const inputs = snapshotOf(services, services.config.marginPpm)
  const { targets } = route(inputs, { policy, kind, request: body, features })
  const [target] = targets
  // Nothing that guardrails may mask is sent for a count.
  const isSent = policy.environment === 'live' && policy.guardrails === null
  const counted = isSent ? await countAtProvider(services, kind, input, target!) : null
  return counted ?? countLocally(format, body, target!)
}

/** Counts the input tokens of a Responses request by our tokenizer, as above. Throws a GatewayError as routing does. */
export async function countResponseTokens(
  services: RunServices,
  { key: { policy }, body, features }: { key: ResolvedKey; body: ResponsesRequest; features: Features },
): Promise<number> {
  const inputs = snapshotOf(services, services.config.marginPpm)
  const { targets } = route(inputs, { policy, kind: 'responses', request: body, features })
  return countLocally(responsesFormat, body, targets[0]!)
}

async function countLocally<K extends DirectKind>(
  format: ChatFormat<K>,
  body: DirectKinds[K]['request'],
  target: Target,
): Promise<number> {
  const { prompt_tokens } = await format.countPrompt(body)
  return hasOurTokenizer(target) ? prompt_tokens : Math.ceil(prompt_tokens * tokenizerMargin)
}

/** The provider's own count; null where it has none, or fails. */
async function countAtProvider<K extends CountedKind>(
  services: RunServices,
  kind: K,
  input: CountInput<K>,
  target: Target,
): Promise<number | null> {
  const { upstreams, disconnectedCalls } = services
  const { adapter, protocol } = upstreams.adapter(kind, target, 'live')!
  if (!adapter.countTokens || upstreams.figures(target).cooldownMs > 0) return null
  // A count is not worth the fetching of files.
  if (adapter.remoteMedia && adapter.remoteMedia(input.body, target).length > 0) return null
  const { forwarded, client, features } = input
  const { body, raw } = listedRequest({ ...input, kind }, features)
  const passesUnknown = services.config.passUnknownFields
  const sent = { body, raw, media: noMedia, passesUnknown, ...(forwarded && { forwarded }) }
  const call: Call<K> = { target, maxTokens: null, ...sent }
  // Nothing is generated: the answer comes at once.
  const { firstByteTimeoutMs } = services.config.upstream
  const limits = { withinMs: firstByteTimeoutMs, tokenWithinMs: firstByteTimeoutMs }
  try {
    const { json } = await receiveAnswer(
      {
        upstreams,
        adapter,
        protocol,
        call,
        client,
        route: { target, ...upstreams.credential(target), ...limits },
        requests: [adapter.countTokens(call)],
        disconnectedCalls,
        reasons: canReason(target.deployment),
        searches: 0,
        readOnMs: 0,
        signal: new AbortController().signal,
        onSent: () => {},
        extensions: null,
      },
      () => {},
    )
    const { input_tokens } = (json ?? {}) as Record<string, unknown>
    const tokens = adapter.countedTokens ? adapter.countedTokens(json) : input_tokens
    return Number.isSafeInteger(tokens) ? (tokens as number) : null
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    if (isRequestFault(error)) throw failureOf([{ target, error }], error)
    return null
  }
}
