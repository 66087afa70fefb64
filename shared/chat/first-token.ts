import type { Config } from '../base/config.ts'
import { canReason } from '../catalog/traits.ts'
import type { Target } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'

/** Time per token of a slow model. */
const maxMsPerToken = 50

/**
 * How long to wait for a target's first output when another target is available: in a stream until its first token; for
 * a complete answer with an output limit until all of it must have been produced. Infinite for models that may work
 * silently: reasoning, images, audio.
 */
export function firstTokenTimeout(
  { firstTokenTimeoutMs }: Config['upstream'],
  { maxTokens, choices, outputs }: Features,
  stream: boolean,
): (target: Target) => number {
  const bufferedTokens = stream ? 0 : (maxTokens || Number.POSITIVE_INFINITY) * choices
  const maxMs = firstTokenTimeoutMs + bufferedTokens * maxMsPerToken
  const isSilentWork = outputs.image || outputs.audio
  return ({ deployment }) => (isSilentWork || canReason(deployment) ? Number.POSITIVE_INFINITY : maxMs)
}
