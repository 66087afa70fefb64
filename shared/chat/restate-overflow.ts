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
import { isStatedOverflow, overflowMessage, promptField } from '../routing/overflow-message.ts'

type Overflow = {
  kind: DirectKind
  body: { model: string }
  features: Features
  failed: readonly FailedAttempt[]
  catalog: Catalog
}

/**
 * The error of a request that is too long, in the words by which the clients of its format recognise it: they shorten the
 * conversation, or ask for less output. Other errors, and those in these words already, are returned as they are. The counts
 * are the provider's where it states them, else our estimate.
 */
export function restateOverflow(error: GatewayError, overflow: Overflow): GatewayError {
  const { kind } = overflow
  if (error.code !== 'context_length_exceeded' || isStatedOverflow(kind, error.message)) return error
  if (kind === 'messages' && receivedError(error)) return error
  const counts = countsOf(error, overflow)
  const ofProvider =
    kind !== 'messages' && error.cause instanceof ProviderError ? ` The provider says: ${error.message}` : ''
  const { headers, metadata } = error
  return new GatewayError(error.code, overflowMessage(kind, counts) + ofProvider, {
    param: counts.output === null ? promptField[kind] : 'max_tokens',
    ...{ headers, cause: error.cause ?? error },
    ...(metadata && { metadata }),
  })
}

/** The tokens of the request and its limit; `output` where only the requested output does not fit. */
function countsOf(error: GatewayError, { kind, body, features, failed, catalog }: Overflow) {
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
