import type { Config } from '../base/config.ts'
import { canReason } from '../catalog/traits.ts'
import type { Features } from '../kinds/features.ts'
import type { Target } from '../providers/contract.ts'

/** The time in which even a slow model writes one token. */
const maxMsPerToken = 50

/**
 * How long a target may take until it says something, where another one can be asked instead: in a stream until its first token;
 * for a whole answer of limited length until all of it must have been written. Infinite where silence says nothing: models that
 * may think unseen, draw or speak.
 */
export function maxSilence(
  { firstTokenTimeoutMs }: Config['upstream'],
  { maxTokens, choices, outputs }: Features,
  stream: boolean,
): (target: Target) => number {
  const unseenTokens = stream ? 0 : (maxTokens || Number.POSITIVE_INFINITY) * choices
  const maxMs = firstTokenTimeoutMs + unseenTokens * maxMsPerToken
  const isSilentWork = outputs.image || outputs.audio
  return ({ deployment }) => (isSilentWork || canReason(deployment) ? Number.POSITIVE_INFINITY : maxMs)
}
