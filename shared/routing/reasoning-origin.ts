import type { Catalog } from '../catalog/catalog.ts'
import { envelopesOf } from '../providers/toolkit/generate-content-over-chat/reasoning-state.ts'
import { isEnvelope, type ReasoningSealer } from '../providers/toolkit/reasoning-envelope.ts'
import { parseModelSelector } from './options.ts'
import type { StickyTarget } from './router.ts'

/** Envelopes that are opened in search of one that is valid. */
const maxOpened = 16

/** The parts of a chat, Messages, Responses or Gemini request that may hold reasoning state. */
export type Conversation = { model: string; models?: string[] | undefined } & Turns
type Turns = { messages?: readonly Message[] | undefined; input?: unknown; contents?: readonly object[] | undefined }
type Message = { role: string; content?: unknown; reasoning_details?: unknown }

/** Whether a conversation may contain reasoning state of the gateway's. */
export function hasReasoningState(turns: Turns): boolean {
  return !envelopesIn(turns).next().done
}

/**
 * The target that made the latest reasoning state in a conversation; null if there is no valid state, or if the request
 * names other models.
 */
export function findReasoningOrigin(
  catalog: Catalog,
  { model, models = [], ...turns }: Conversation,
  sealer: ReasoningSealer,
): StickyTarget | null {
  let opened = 0
  for (const envelope of envelopesIn(turns)) {
    if (++opened > maxOpened) return null
    const state = sealer.open(envelope)
    if (!state) continue
    const isNamed = [model, ...models].some(slug => {
      const selector = parseModelSelector(catalog, slug, 'chat')
      return selector.auto || selector.model?.id === state.model
    })
    const { provider, credentialId } = state
    return isNamed ? { model: state.model, provider, credentialId, madeState: true } : null
  }
  return null
}

/** The envelopes of a conversation, the latest first. */
function* envelopesIn({ messages = [], input, contents = [] }: Turns): Generator<string, void> {
  const items = Array.isArray(input) ? input : []
  for (let at = items.length - 1; at >= 0; at--) {
    const { type, encrypted_content: text } = items[at]
    if (type === 'reasoning' && typeof text === 'string' && isEnvelope(text)) yield text
  }
  for (let at = contents.length - 1; at >= 0; at--) yield* envelopesOf(contents[at])
  for (let at = messages.length - 1; at >= 0; at--) {
    const { role, content, reasoning_details: details } = messages[at]!
    if (role !== 'assistant') continue
    for (const parts of [details, content]) {
      if (!Array.isArray(parts)) continue
      for (const part of parts.toReversed()) {
        for (const text of [part?.signature, part?.data]) if (typeof text === 'string' && isEnvelope(text)) yield text
      }
    }
  }
}
