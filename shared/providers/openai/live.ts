import { newId } from '../../base/ids.ts'
import { withModel } from '../first-frame.ts'
import type { RealtimeAdapter, RealtimeMeter, RealtimeUse } from '../realtime-contract.ts'
import { toolGuard } from '../session-tools.ts'
import { isObject, type Json } from './json.ts'
import { eventOf, nameOf, secondsOf, tokensUsed } from './realtime.ts'

/**
 * OpenAI's Live API: JSON events in text frames, the model in the client's `session.start`, paid by the length of the
 * session, which its events tell. What it delegates to other models is reported with their names
 * (developers.openai.com/api/docs/guides/live-delegation).
 */
export const live: RealtimeAdapter = {
  path: () => '/live/sessions',
  meter: () => new Meter(),
  opening: (frame, target) => withModel(frame, 'session', target),
  guard: toolGuard,
  errorEvent({ message, type, code, param }) {
    const error = { message, type, code, ...(param !== null && { param }) }
    return JSON.stringify({ type: 'error', event_id: newId('evt'), error })
  },
}

/** How most frames begin: they are sound and report nothing. */
const sound = '{"type":"session.output_audio.delta"'
/** One of these is in every event that begins or ends the session or reports a use. */
const marks = /"(?:usage|session\.(?:started|closed))"/
const nothing: readonly RealtimeUse[] = []
const ends = ['response.completed', 'response.incomplete', 'response.failed']

class Meter implements RealtimeMeter {
  readonly ownClock = true
  begun = false
  #closed = false
  #seconds: number | null = null

  /** Nothing is paid for a session that the provider never started. */
  get sessionSeconds(): number | null {
    return this.begun ? this.#seconds : 0
  }

  get owing(): boolean {
    return this.begun && !this.#closed
  }

  farewell(): readonly string[] {
    return [JSON.stringify({ type: 'session.close' })]
  }

  read(frame: Buffer): readonly RealtimeUse[] {
    if (frame.toString('latin1', 0, sound.length) === sound || !marks.test(frame.toString('latin1'))) return nothing
    const event = eventOf(frame)
    if (!event) return nothing
    if (event.type === 'session.started') this.begun = true
    if (event.type === 'session.closed') this.#closed = true
    if (event.type === 'session.usage.updated' || event.type === 'session.closed') this.#lasted(event.usage)
    return isObject(event.event) ? delegated(event, event.event) : nothing
  }

  /** The whole length until now, and never less than it was. */
  #lasted(usage: unknown): void {
    this.begun = true
    const seconds = isObject(usage) ? secondsOf(usage.seconds) : null
    if (seconds !== null) this.#seconds = Math.max(this.#seconds ?? 0, seconds)
  }
}

/** What another model used in a task of the session, told within one of its events. One without a name is as dear as any. */
function delegated({ type }: Json, event: Json): readonly RealtimeUse[] {
  const isResponse = type === 'response.event' && ends.includes(String(event.type))
  const isDecision = type === 'decision.event' && event.type === 'decision.completed'
  const task = isResponse ? event.response : isDecision ? event.decision : null
  return isObject(task) ? tokensUsed(task.usage, nameOf(task.model) ?? '') : nothing
}
