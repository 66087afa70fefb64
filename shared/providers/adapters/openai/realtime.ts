import { newId } from '../../../base/ids.ts'
import type { RealtimeAdapter } from '../../realtime-contract.ts'
import { toolGuard } from '../../toolkit/tool-guard.ts'
import { Meter } from './realtime-meter.ts'

/**
 * OpenAI's Realtime API, which xAI's voice API resembles: JSON events in text frames, the model in the URL, and a usage
 * in every `response.done` (developers.openai.com/api/docs/guides/realtime-costs).
 */
export const realtime: RealtimeAdapter = {
  // A transcription session names its model in its settings, and must not name one here.
  path: ({ upstream_model: model }, intent) => `/realtime?${new URLSearchParams(intent ? { intent } : { model })}`,
  meter: () => new Meter(),
  guard: toolGuard,
  settings: session => JSON.stringify({ type: 'session.update', session }),
  errorEvent: error => JSON.stringify({ type: 'error', event_id: newId('evt'), error: { ...error, event_id: null } }),
}
