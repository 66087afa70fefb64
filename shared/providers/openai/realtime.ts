import { newId } from '../../base/ids.ts'
import type { RealtimeAdapter, RealtimeMeter, RealtimeUse } from '../realtime-contract.ts'
import { toolGuard } from '../session-tools.ts'
import { isObject, type Json } from './json.ts'
import { count, normaliseUsage } from './usage.ts'

/**
 * OpenAI's Realtime API, which xAI's voice API resembles: JSON events in text frames, the model in the address, and a usage
 * in every `response.done` (developers.openai.com/api/docs/guides/realtime-costs).
 */
export const realtime: RealtimeAdapter = {
  // A session that only writes down names its model in its settings, and may not name one here.
  path: ({ upstream_model: model }, intent) => `/realtime?${new URLSearchParams(intent ? { intent } : { model })}`,
  meter: () => new Meter(),
  guard: toolGuard,
  settings: session => JSON.stringify({ type: 'session.update', session }),
  errorEvent: error => JSON.stringify({ type: 'error', event_id: newId('evt'), error: { ...error, event_id: null } }),
}

/** How most frames begin: they are sound and report nothing. */
const sound = '{"type":"response.output_audio.delta"'
/** One of these is in every event that reports a use, begins what will be reported, or tells the settings. */
const marks =
  /"(?:usage|response\.(?:created|done)|session\.(?:created|updated)|input_audio_buffer\.committed|conversation\.item\.input_audio_transcription\.(?:delta|completed|failed))"/
const nothing: readonly RealtimeUse[] = []
/** More than one thing under way at a time is an exception. */
const mostOpen = 64

class Meter implements RealtimeMeter {
  readonly ownClock = false
  readonly sessionSeconds = null
  readonly begun = true
  /** The ids of responses that have begun and not reported their use. */
  readonly #responses = new Set<unknown>()
  /** Items whose sound is being written down; some models begin before it is committed. */
  readonly #transcripts = new Map<unknown, { model: string | null; committed: boolean }>()
  /** What is said is written down by another model, which the settings name, at its own price. */
  #transcriptionModel: string | null = null
  #transcribes = false

  get owing(): boolean {
    return this.#responses.size > 0 || this.#transcripts.size > 0
  }

  /** Without its id only a response of the conversation would be cancelled. */
  farewell(): readonly string[] {
    const cancels = [...this.#responses].map(id => ({ type: 'response.cancel', response_id: id }))
    const heardOnly = [...this.#transcripts.values()].some(({ committed }) => !committed)
    return [...cancels, ...(heardOnly ? [{ type: 'input_audio_buffer.commit' }] : [])].map(event =>
      JSON.stringify(event),
    )
  }

  read(frame: Buffer): readonly RealtimeUse[] {
    if (frame.toString('latin1', 0, sound.length) === sound || !marks.test(frame.toString('latin1'))) return nothing
    const event = eventOf(frame)
    if (!event) return nothing
    const { response, usage, session, item_id: itemId } = event
    switch (event.type) {
      case 'session.created':
      case 'session.updated':
        this.#settings(session)
        return nothing
      case 'response.created':
        if (isObject(response) && this.#responses.size < mostOpen) this.#responses.add(response.id)
        return nothing
      case 'response.done':
        if (!isObject(response)) return nothing
        this.#responses.delete(response.id)
        return useOf(response.usage, null)
      case 'input_audio_buffer.committed':
        if (this.#transcribes) this.#transcribe(itemId, true)
        return nothing
      case 'conversation.item.input_audio_transcription.delta':
        this.#transcribe(itemId, false)
        return nothing
      case 'conversation.item.input_audio_transcription.completed':
      case 'conversation.item.input_audio_transcription.failed':
        return useOf(usage, this.#written(itemId))
      default:
        return nothing
    }
  }

  /** The model is that of the settings when it began: those may have changed by the time its use is told. */
  #transcribe(itemId: unknown, committed: boolean): void {
    const known = this.#transcripts.get(itemId)
    if (known) known.committed ||= committed
    else if (this.#transcripts.size < mostOpen)
      this.#transcripts.set(itemId, { model: this.#transcriptionModel, committed })
  }

  /** Ends what was begun of an item; the model that wrote it down. */
  #written(itemId: unknown): string | null {
    const known = this.#transcripts.get(itemId)
    this.#transcripts.delete(itemId)
    return known ? known.model : this.#transcriptionModel
  }

  #settings(session: unknown): void {
    const input = isObject(session) && isObject(session.audio) ? session.audio.input : null
    if (!isObject(input)) return
    this.#transcribes = isObject(input.transcription)
    // What was said before it was switched off may come yet.
    if (isObject(input.transcription)) this.#transcriptionModel = nameOf(input.transcription.model)
  }
}

/** A frame's JSON object; null for anything else. */
export function eventOf(frame: Buffer): Json | null {
  try {
    const event: unknown = JSON.parse(frame.toString())
    return isObject(event) ? event : null
  } catch {
    return null
  }
}

/** A provider's name of a model; null for anything else. */
export function nameOf(model: unknown): string | null {
  return typeof model === 'string' ? model : null
}

/** No single report is of more: what says so is no report. */
const mostTokens = 10_000_000
const mostSeconds = 86_400

/** A length in seconds; null for what cannot be one. */
export function secondsOf(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= mostSeconds ? value : null
}

function useOf(usage: unknown, upstreamModel: string | null): RealtimeUse[] {
  const seconds = isObject(usage) && usage.type === 'duration' ? secondsOf(usage.seconds) : null
  if (seconds !== null) return [{ upstreamModel, seconds }]
  return tokensUsed(usage, upstreamModel)
}

/** The use that a usage with `input_tokens` and `output_tokens` reports; none where it is not understood. */
export function tokensUsed(usage: unknown, upstreamModel: string | null): RealtimeUse[] {
  if (!isObject(usage)) return []
  const input = object(usage.input_token_details ?? usage.input_tokens_details)
  const cached = object(input.cached_tokens_details)
  const tokens = normaliseUsage({
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: {
      ...input,
      cached_audio_tokens: cached.audio_tokens,
      // Those that were cached are priced as cached ones.
      image_tokens: (count(input.image_tokens) ?? 0) - (count(cached.image_tokens) ?? 0),
    },
    completion_tokens_details: usage.output_token_details ?? usage.output_tokens_details,
  })
  return tokens && tokens.total_tokens <= mostTokens ? [{ upstreamModel, usage: tokens }] : []
}

function object(value: unknown): Json {
  return isObject(value) ? value : {}
}
