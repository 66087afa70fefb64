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
  choices?: unknown
  data?: unknown
}

/** A provider's whole answer as its client sees it, with its bill. Throws a ProviderError `invalid_response` when it makes no sense. */
export async function billWhole<K extends DirectKind>(
  { kind, adapter, call, json, id }: Whole<K>,
  billing: Omit<Billing, 'target'>,
): Promise<{ billed: Bill; shown: object; upstreamModel: string | null }> {
  const { target, body } = call
  const answer = adapter.answer(json, call) as Answerish
  const lostImages = hasImages(answer) ? await dropBroken(answer) : 0
  const upstreamId = answer.id ?? null
  const billed = await bill({ target, ...billing }, { kind, body, answer, lostImages, upstreamId })
  const { model: upstreamModel, usage: _usage, ...rest } = answer
  const shown = {
    ...rest,
    ...(!adapter.native && 'id' in answer && { id }),
    model: target.model.id,
    ...(kind !== 'embedding' && { system_fingerprint: answer.system_fingerprint ?? null }),
    provider: target.provider.name,
    usage: billed.shownUsage,
  }
  return { billed, shown, upstreamModel: upstreamModel || null }
}
