import type { Usage } from '../../base/usage.ts'
import type { RealtimeAdapter, RealtimeMeter, RealtimeUse } from '../realtime-contract.ts'
import { isObject } from './json.ts'
import { count } from './usage.ts'

/**
 * OpenAI's Realtime API, which xAI's voice API resembles: JSON events in text frames, the model in the address, and a usage
 * in every `response.done` (developers.openai.com/api/docs/guides/realtime-costs).
 */
export const realtime: RealtimeAdapter = {
  path(deployment, intent) {
    const query = new URLSearchParams({ model: deployment.upstream_model, ...(intent && { intent }) })
    return `/realtime?${query}`
  },
  meter: () => new Meter(),
  settings: session => JSON.stringify({ type: 'session.update', session }),
  farewell: [JSON.stringify({ type: 'response.cancel' })],
  errorEvent: error =>
    JSON.stringify({ type: 'error', event_id: 'event_gateway', error: { ...error, event_id: null } }),
}

/** An event that reports a use, begins a response, or tells the settings has one of these. Most frames are sound and have none. */
const marks = ['"usage"', '"response.created"', '"session.created"', '"session.updated"'].map(text => Buffer.from(text))
const nothing: readonly RealtimeUse[] = []
/** More than one response at a time is an exception. */
const mostOpen = 64

class Meter implements RealtimeMeter {
  readonly ownClock = false
  readonly sessionSeconds = null
  /** Responses that have begun and not reported their use. */
  readonly #open = new Set<unknown>()
  #transcriptionModel: string | null = null

  get owing(): boolean {
    return this.#open.size > 0
  }

  read(frame: Buffer): readonly RealtimeUse[] {
    if (!marks.some(mark => frame.includes(mark))) return nothing
    const event = eventOf(frame)
    if (!event) return nothing
    const { type, response, usage, session } = event
    if (type === 'session.created' || type === 'session.updated') this.#settings(session)
    if (type === 'response.created' && isObject(response) && this.#open.size < mostOpen) this.#open.add(response.id)
    if (type === 'response.done' && isObject(response)) {
      this.#open.delete(response.id)
      return useOf(response.usage, null)
    }
    if (type === 'conversation.item.input_audio_transcription.completed') return useOf(usage, this.#transcriptionModel)
    return nothing
  }

  /** What is said is written down by another model, which the settings name, at its own price. */
  #settings(session: unknown): void {
    const input = isObject(session) && isObject(session.audio) ? session.audio.input : null
    const transcription = isObject(input) && isObject(input.transcription) ? input.transcription : null
    if (transcription && typeof transcription.model === 'string') this.#transcriptionModel = transcription.model
  }
}

/** A frame's JSON object; null for anything else. */
export function eventOf(frame: Buffer): Record<string, unknown> | null {
  try {
    const event: unknown = JSON.parse(frame.toString())
    return isObject(event) ? event : null
  } catch {
    return null
  }
}

function useOf(usage: unknown, upstreamModel: string | null): RealtimeUse[] {
  if (!isObject(usage)) return []
  const seconds = usage.type === 'duration' ? usage.seconds : undefined
  if (typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0) return [{ upstreamModel, seconds }]
  const tokens = realtimeUsage(usage)
  return tokens ? [{ upstreamModel, usage: tokens }] : []
}

/** A usage with `input_tokens` and `output_tokens`, as ours; null when it has neither. */
export function realtimeUsage(usage: Record<string, unknown>): Usage | null {
  const input = count(usage.input_tokens)
  const output = count(usage.output_tokens)
  if (input === undefined && output === undefined) return null
  const prompt = input ?? 0
  const completion = output ?? 0
  const details = object(usage.input_token_details ?? usage.input_tokens_details)
  const cached = object(details.cached_tokens_details)
  const outputDetails = object(usage.output_token_details ?? usage.output_tokens_details)
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: count(details.cached_tokens) ?? 0,
      audio_tokens: count(details.audio_tokens) ?? 0,
      cached_audio_tokens: count(cached.audio_tokens) ?? 0,
      // Those that were cached are priced as cached ones.
      image_tokens: Math.max(0, (count(details.image_tokens) ?? 0) - (count(cached.image_tokens) ?? 0)),
    },
    completion_tokens_details: {
      audio_tokens: count(outputDetails.audio_tokens) ?? 0,
      reasoning_tokens: count(outputDetails.reasoning_tokens) ?? 0,
    },
  }
}

function object(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}
