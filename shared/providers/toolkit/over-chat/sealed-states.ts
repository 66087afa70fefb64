import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import { isEnvelope } from '../reasoning-envelope.ts'

/** A message or delta of the chat format. */
type WithDetails = { reasoning_details?: readonly ReasoningDetail[] | null }

/** The sealed states of a message or delta, and whether each belongs to the reasoning text before it. */
export function sealedStates({ reasoning_details: details }: WithDetails): { envelope: string; isOfText: boolean }[] {
  return (details ?? []).flatMap(detail => {
    const envelope = envelopeIn(detail)
    return envelope === null ? [] : [{ envelope, isOfText: detail.type === 'reasoning.text' }]
  })
}

/** The state of a detail that the gateway has sealed; null where there is none. */
export function envelopeIn({ type, signature, data }: ReasoningDetail): string | null {
  const state = type === 'reasoning.text' ? signature : data
  return state && isEnvelope(state) ? state : null
}
