import type { Config } from '../base/config.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { RunServices } from '../engine/base-run.ts'
import { clientLeft, noOutcome } from '../engine/base-run.ts'
import type { Bill } from '../engine/report.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'
import { chargeNano } from '../routing/pricing.ts'
import type { Reservation } from '../wallet/admission.ts'
import { estimateAbandonedUsage, readDelivered } from './abandoned-usage.ts'
import type { ChatRunInput } from './run-input.ts'
import type { AnswerRelay } from './stream-relay.ts'

/** A call that was aborted after its provider had received it. */
export type AbortedCall = {
  target: Target
  reservation: Reservation
  marginPpm: bigint
  /** When the provider received the request. */
  sentMs: MonotonicMs
  /** Whether the model reasons unseen. */
  reasons: boolean
  /** What it delivered; null = it was not streamed. */
  relay: AnswerRelay | null
}

/**
 * How long a call continues without its client, so that its usage is known. One that reads pages or calls MCP servers continues
 * to its end: only then is known what they returned, which costs most.
 */
export function readOnTime({ readOnMs, upstream }: Config, { toolReads = 0 }: Features): number {
  return toolReads > 0 ? upstream.totalTimeoutMs : readOnMs
}

/** The estimated bill of an aborted call. */
export async function billAborted(
  services: Pick<RunServices, 'monotonic' | 'upstreams'>,
  { kind, body, features }: ChatRunInput<DirectKind>,
  { target, reservation, marginPpm, sentMs, reasons, relay }: AbortedCall,
): Promise<Bill> {
  const usage = await estimateAbandonedUsage({
    ...{ kind, body, features, target },
    elapsedMs: elapsedMs(sentMs, services.monotonic.now()),
    tokensPerSecond: services.upstreams.figures(target).tokensPerSecond,
    maxOutputTokens: reservation.outputTokens * features.choices,
    ...(await readDelivered(relay)),
    hidesOutput: relay === null || reasons,
  })
  const costNano = chargeNano(target.deployment, usage, marginPpm)
  return { ...noOutcome, ...clientLeft, target, usage, shownUsage: { ...usage, cost: costNano / 1e9 }, costNano }
}

/** The bill of a call that is not charged. */
export function unbilled(target: Target): Bill {
  return { ...noOutcome, ...clientLeft, target, shownUsage: noOutcome.usage }
}
