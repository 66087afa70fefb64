import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import { isEnvelope } from '../reasoning-envelope.ts'

/** A message or delta of the chat format. */
type WithDetails = { reasoning_details?: readonly ReasoningDetail[] | null }

/** A sealed state, and what it belongs to: `thoughts` before it, a `call` after it, or the visible `text`. */
export type SealedState = { envelope: string; isOfText: boolean; signs: 'thoughts' | 'call' | 'text' }

/** The sealed states of a message or delta. `isOfText`: it signs the reasoning text before it. */
export function sealedStates({ reasoning_details: details }: WithDetails): SealedState[] {
  return (details ?? []).flatMap(detail => {
    const envelope = envelopeIn(detail)
    if (envelope === null) return []
    return [{ envelope, isOfText: detail.type === 'reasoning.text', signs: signedBy(detail) }]
  })
}

/**
 * What a state belongs to. Gemini signs its texts and calls rather than its thoughts. Our own adapter keeps the state of
 * a call in the call's id, so that its details are those of texts; OpenRouter's have a member `id`, for either.
 */
export function signedBy({ type, format, id }: ReasoningDetail): SealedState['signs'] {
  if (type !== 'reasoning.encrypted' || format !== geminiFormat) return 'thoughts'
  return id === undefined ? 'text' : 'call'
}

/** OpenRouter's name of the format. */
const geminiFormat = 'google-gemini-v1'

/** The state of a detail that the gateway has sealed; null where there is none. */
export function envelopeIn({ type, signature, data }: ReasoningDetail): string | null {
  const state = type === 'reasoning.text' ? signature : data
  return state && isEnvelope(state) ? state : null
}
