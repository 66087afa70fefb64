import type { EngineServices } from '../engine/engine-services.ts'
import type { Bill } from '../engine/report.ts'
import type { Policy } from '../keys/policy.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import { maxCostOf } from '../routing/pricing.ts'
import type { MaxCost } from '../wallet/admission.ts'
import type { ChatRunInput } from './run-input.ts'

/** A wallet that cannot pay an explicit limit lowers it, but not below this number of tokens. */
const minLimitTokens = 4_096

type History = Pick<EngineServices, 'outputHistory'>
type Learned = History & Pick<Platform, 'reservationFactors'>
type Input = Pick<ChatRunInput<DirectKind>, 'bulk' | 'features' | 'stream'>

/**
 * The maximum cost of a chat run at its targets. Unlike bulk work, a live request with a large limit is served by a
 * small wallet: the limit is lowered to what the wallet can pay, and a stream reserves the output that is likely, and
 * the rest while it runs (`stretches.ts`). docs/decisions/likely-output.md
 */
export function maxCostOfRun(
  { outputHistory, reservationFactors }: Learned,
  { keyId, organisationId }: Policy,
  input: Input,
  targets: readonly Target[],
  marginPpm: bigint,
): MaxCost {
  const maxCost = maxCostOf(targets, input.features, marginPpm)
  maxCost.factor = reservationFactors.of(organisationId, targets)
  if (input.bulk !== null || maxCost.outputTokens <= minLimitTokens) return maxCost
  if (maxCost.explicit) maxCost.minTokens = minLimitTokens
  if (isExtensible(input)) maxCost.likelyTokens = outputHistory.likelyTokens(keyId, targets[0]!.model.id)
  return maxCost
}

/** Learns from the answer to a request how long the next one is likely to be. */
export function recordOutput({ outputHistory }: History, { keyId }: Policy, input: Input, bill: Bill): void {
  if (!bill.target || !isExtensible(input)) return
  outputHistory.record(keyId, bill.target.model.id, bill.usage.completion_tokens / input.features.choices)
}

/**
 * Whether output can be reserved while it is delivered. The tokens of sound and images cannot be told from what was
 * delivered. A small limit is reserved as a whole.
 */
function isExtensible({ bulk, features: { maxTokens, outputs }, stream }: Input): boolean {
  const isLarge = maxTokens === null || maxTokens > minLimitTokens
  return stream && isLarge && bulk === null && !outputs.audio && !outputs.image
}
