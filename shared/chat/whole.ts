import type { DirectKind } from '../kinds/index.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import { type Bill, type Billing, bill } from './bill.ts'
import { dropBroken, hasImages } from './pictures.ts'

type Whole<K extends DirectKind> = {
  kind: K
  adapter: DirectAdapter<K>
  call: Call<K>
  /** What the provider answered. */
  json: unknown
  /** The answer's id where the provider's dialect has none of ours. */
  id: string
}
type Answerish = {
  id?: string
  model: string
  system_fingerprint?: unknown
  usage?: unknown
  provider?: string
  choices?: unknown
  data?: unknown
}

/**
 * A provider's whole answer as its client sees it, with its bill; choices and vectors that need no change are the lists of `json`
 * themselves. Throws a ProviderError `invalid_response` when it makes no sense.
 */
export async function billWhole<K extends DirectKind>(
  { kind, adapter, call, json, id }: Whole<K>,
  { marginPpm, free }: Omit<Billing, 'target'>,
): Promise<{ billed: Bill; shown: object; upstreamModel: string | null }> {
  const { target, body } = call
  // What an adapter gives is made for this call, but for what is below its first level.
  const answer = adapter.answer(json, call) as Answerish
  const lostImages = hasImages(answer) ? await dropBroken(answer) : 0
  // What was left out of it must not be copied from what was received.
  if (lostImages > 0) answer.choices = [...(answer.choices as unknown[])]
  const upstreamId = answer.id ?? null
  const billed = await bill({ target, marginPpm, free }, { kind, body, answer, lostImages, upstreamId })
  const upstreamModel = answer.model || null
  if (!adapter.native && 'id' in answer) answer.id = id
  answer.model = target.model.id
  if (kind !== 'embedding') answer.system_fingerprint ??= null
  answer.provider = target.provider.name
  answer.usage = billed.shownUsage
  return { billed, shown: answer, upstreamModel }
}
