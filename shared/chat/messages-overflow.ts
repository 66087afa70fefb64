import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { maxPromptTokens } from '../catalog/traits.ts'
import type { FailedAttempt } from '../engine/failures.ts'
import { receivedError } from '../engine/messages-error.ts'
import type { Features } from '../routing/features.ts'
import { parseModelSelector } from '../routing/model-selector.ts'

type Overflow = {
  body: { model: string }
  features: Features
  failed: readonly FailedAttempt[]
  catalog: Catalog
}

/**
 * The error of a Messages request that is too long, in the two forms of Anthropic's API that its clients parse: they
 * shorten the conversation, or ask for less output. Other errors, and a provider's own words in that dialect, are
 * returned as they are. The input is our estimate, as the provider's count is not known.
 */
export function restateOverflow(error: GatewayError, { body, features, failed, catalog }: Overflow): GatewayError {
  if (error.code !== 'context_length_exceeded' || error.message.includes(marker) || receivedError(error)) return error
  const refused = failed.find(attempt => attempt.error.reason === 'context_length')?.target
  const named = parseModelSelector(catalog, body.model, 'messages').model
  const limit = (refused && maxPromptTokens(refused)) ?? named?.context_length ?? largestContext(catalog)
  const { maxPromptEstimate: input, maxTokens: output } = features
  const isOutputTooLong = input < limit && output !== null && input + output > limit
  const message = isOutputTooLong
    ? `input length and \`max_tokens\` exceed context limit: ${input} + ${output} > ${limit} ${marker}max_tokens_context_overflow)`
    : `prompt is too long: ${Math.max(input, limit + 1)} tokens > ${limit} maximum ${marker}prompt_too_long)`
  const { headers, metadata } = error
  return new GatewayError(error.code, message, {
    ...{ param: isOutputTooLong ? 'max_tokens' : 'messages', headers, cause: error.cause ?? error },
    ...(metadata && { metadata }),
  })
}

const marker = '(capability_rejected: '

function largestContext({ models }: Catalog): number {
  const lengths = [...models.values()].map(({ type, context_length }) => (type === 'chat' ? (context_length ?? 0) : 0))
  return Math.max(0, ...lengths)
}
