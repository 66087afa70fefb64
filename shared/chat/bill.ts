import type { ShownUsage, Usage } from '../base/usage.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Waiver } from '../wallet/usage-event.ts'
import { type Choice, counted, countsLost, deliveredBy, deliveredIn, isSomething, withoutLost } from './delivered.ts'
import { chargeNano } from './pricing.ts'
import type { Relay } from './relay.ts'

/** How a run ended and what it costs. */
export type Bill = {
  target: Target | null
  usage: Usage
  /** The usage as the client sees it, with its cost. */
  shownUsage: ShownUsage
  costNano: number
  waiver?: Waiver | undefined
  status: number
  errorCode: string | null
  finishReason: string | null
  upstreamId: string | null
}

/** Who served a call, and the margin on it; `free` for test keys. */
export type Billing = { target: Target; marginPpm: bigint; free: boolean }
type Finished<K extends DirectKind> = { kind: K; body: DirectKinds[K]['request']; upstreamId: string | null } & (
  | { answer: { usage?: unknown; choices?: unknown; data?: unknown }; lostImages: number }
  | { relay: Relay; broken: boolean }
)

/**
 * The bill of a finished call: the provider's own count, or ours where it gave none. Nothing is billed for a generation that
 * produced nothing (contract §1).
 */
export async function bill<K extends DirectKind>(
  { target, marginPpm, free }: Billing,
  finished: Finished<K>,
): Promise<Bill> {
  const { usage, produced, finishReason } = await outcome(finished)
  const owedNano = free ? 0 : chargeNano(target.deployment, usage, marginPpm)
  const costNano = produced ? owedNano : 0
  return {
    target,
    usage,
    shownUsage: shown(finished.kind, usage, costNano / 1e9),
    costNano,
    waiver: free || costNano > 0 ? undefined : owedNano > 0 ? 'nothing_produced' : 'no_price',
    status: 200,
    errorCode: null,
    finishReason,
    upstreamId: finished.upstreamId,
  }
}

/** A usage as OpenAI writes it. Its details are always whole: clients that read one count rely on the others. */
function shown(kind: DirectKind, usage: Usage, costUsd: number): ShownUsage {
  const { prompt_tokens, completion_tokens, total_tokens, estimated } = usage
  const ours = estimated && { estimated }
  // Embeddings have no completion: OpenAI's own usage object names only two figures.
  if (kind === 'embedding') return { prompt_tokens, total_tokens, cost: costUsd, ...ours }
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0, ...usage.prompt_tokens_details },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, ...usage.completion_tokens_details },
    cost: costUsd,
    ...ours,
  }
}

async function outcome<K extends DirectKind>(
  finished: Finished<K>,
): Promise<{ usage: Usage; produced: boolean; finishReason: string | null }> {
  const { kind, body } = finished
  if ('relay' in finished) {
    const { relay, broken } = finished
    const verdicts = relay.tally.images ? await Promise.all(relay.tally.images) : []
    const delivered = deliveredBy(relay.tally, verdicts)
    const given =
      relay.usage && countsLost(relay.usage, delivered) ? await withoutLost(relay.usage, delivered) : relay.usage
    // Of a stream that broke, the text that was delivered tells what was produced, and an early count may have none of it.
    const counts = !broken && delivered.lostImages === 0 && (given?.completion_tokens ?? 0) > 0
    const produced = counts || isSomething(delivered)
    const usage = given ?? (produced ? await counted(kind, body, delivered) : zero)
    return { usage, produced, finishReason: relay.finishReason }
  }
  if (finished.answer.data) {
    const usage = finished.answer.usage as { prompt_tokens: number; total_tokens: number } | undefined
    return {
      usage: usage ? { completion_tokens: 0, ...usage } : await counted(kind, body, deliveredIn([], 0)),
      produced: true,
      finishReason: null,
    }
  }
  const choices = (finished.answer.choices ?? []) as Choice[]
  const delivered = deliveredIn(choices, finished.lostImages)
  const given = finished.answer.usage as Usage | undefined
  let usage = given ?? (await counted(kind, body, delivered))
  if (given && countsLost(given, delivered)) usage = await withoutLost(given, delivered)
  const produced = usage.completion_tokens > 0 || isSomething(delivered)
  return { usage, produced, finishReason: choices[0]?.finish_reason ?? null }
}

const zero: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
