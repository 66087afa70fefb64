import { canReason, hasOurTokenizer } from '../catalog/traits.ts'
import type { RunServices } from '../engine/base-run.ts'
import { failureOf } from '../engine/failures.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { MessagesRequest } from '../kinds/messages.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { Call, Forwarded, Target } from '../providers/contract.ts'
import { isRequestFault, ProviderError } from '../providers/provider-error.ts'
import type { Features } from '../routing/features.ts'
import { listedRequest } from '../routing/listed-request.ts'
import { snapshotOf } from '../routing/options.ts'
import { route } from '../routing/router.ts'
import { receiveAnswer } from './attempt.ts'
import type { ChatFormat } from './chat-format.ts'
import { messagesFormat } from './messages-format.ts'
import { noMedia } from './remote-media.ts'
import { responsesFormat } from './responses-format.ts'

type CountInput = {
  key: ResolvedKey
  body: MessagesRequest
  raw: Buffer
  features: Features
  forwarded: Forwarded
  client: ResponseWriter
}

/** For models with another tokenizer than ours: a count that is too low would let a client exceed the model's context. */
const tokenizerMargin = 1.15

/**
 * Counts the prompt tokens of a Messages request: by the provider where its protocol can, otherwise by our tokenizer,
 * rounded up where it is not the model's own. Throws a GatewayError as routing does, and for a request that the provider refuses.
 */
export async function countMessageTokens(services: RunServices, input: CountInput): Promise<number> {
  const { key, body, features } = input
  const { policy } = key
  const inputs = snapshotOf(services, services.config.marginPpm)
  const { targets } = route(inputs, { policy, kind: 'messages', request: body, features })
  const [target] = targets
  const counted = policy.environment === 'live' ? await countAtProvider(services, input, target!) : null
  if (counted !== null) return counted
  return countLocally(messagesFormat, body, target!)
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
async function countAtProvider(services: RunServices, input: CountInput, target: Target): Promise<number | null> {
  const { upstreams, disconnectedCalls } = services
  const { adapter, protocol } = upstreams.adapter('messages', target, 'live')!
  if (!adapter.countTokens || upstreams.figures(target).cooldownMs > 0) return null
  const { forwarded, client, features } = input
  const { body, raw } = listedRequest({ ...input, kind: 'messages' }, features)
  const passesUnknown = services.config.passUnknownFields
  const call: Call<'messages'> = { target, body, raw, maxTokens: null, media: noMedia, forwarded, passesUnknown }
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
        readOnMs: 0,
        signal: new AbortController().signal,
        onSent: () => {},
        extensions: null,
      },
      () => {},
    )
    const { input_tokens: tokens } = (json ?? {}) as Record<string, unknown>
    return Number.isSafeInteger(tokens) ? (tokens as number) : null
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    if (isRequestFault(error)) throw failureOf([{ target, error }], error)
    return null
  }
}
