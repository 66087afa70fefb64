import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { maxPromptTokens } from '../catalog/traits.ts'
import type { FailedAttempt } from '../engine/failures.ts'
import { receivedError } from '../engine/messages-error.ts'
import type { DirectKind } from '../kinds/index.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { overflowCounts } from '../providers/toolkit/context-overflow.ts'
import type { Features } from '../routing/features.ts'
import { parseModelSelector } from '../routing/options.ts'
import type { ChatFormat } from './chat-format.ts'

type RefusedRequest = {
  format: ChatFormat<DirectKind>
  kind: DirectKind
  body: { model: string }
  features: Features
  failed: readonly FailedAttempt[]
  catalog: Catalog
}

/** Says what is wrong with a request in the terms of its dialect. */
export function restateFailure(failure: GatewayError, request: RefusedRequest): GatewayError {
  return request.format.inOwnTerms(restateOverflow(failure, request))
}

/**
 * The error of a request that is too long, in the words by which the clients of its dialect recognise it: they shorten the
 * conversation, or ask for less output. Other errors, and those in these words already, are returned as they are. The counts
 * are the provider's where it states them, else our estimate.
 */
function restateOverflow(error: GatewayError, request: RefusedRequest): GatewayError {
  const { words, promptField, passesRefusals } = request.format
  if (error.code !== 'context_length_exceeded' || words.isOverflow(error.message)) return error
  if (passesRefusals && receivedError(error)) return error
  const counts = countsOf(error, request)
  const quotes = !passesRefusals && error.cause instanceof ProviderError
  const { headers, metadata } = error
  const message = words.overflow(counts) + (quotes ? ` The provider says: ${error.message}` : '')
  return new GatewayError(error.code, message, {
    param: counts.output === null ? promptField : 'max_tokens',
    headers,
    cause: error.cause ?? error,
    ...(metadata && { metadata }),
  })
}

/** The tokens of the request and its limit; `output` where only the requested output does not fit. */
function countsOf(error: GatewayError, { kind, body, features, failed, catalog }: RefusedRequest) {
  const stated = overflowCounts(error.message)
  if (stated) return stated
  const refused = failed.find(attempt => attempt.error.reason === 'context_length')?.target
  const named = parseModelSelector(catalog, body.model, kind).model
  const limit = (refused && maxPromptTokens(refused)) ?? named?.context_length ?? largestContext(catalog)
  const { maxPromptEstimate: input, maxTokens: output } = features
  const isOutputTooLong = input < limit && output !== null && input + output > limit
  return { input: isOutputTooLong ? input : Math.max(input, limit + 1), output: isOutputTooLong ? output : null, limit }
}

function largestContext({ models }: Catalog): number {
  const lengths = [...models.values()].map(({ type, context_length }) => (type === 'chat' ? (context_length ?? 0) : 0))
  return Math.max(0, ...lengths)
}
