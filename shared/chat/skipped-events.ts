import type { ServerSentEvent } from '../io/sse.ts'
import { ProviderError } from '../providers/provider-error.ts'

/** More indicate a systematic fault. */
const maxEvents = 8
/** A text without any of these cannot be part of a JSON object. */
const partOfObject = /["{}[\]]/

/** The unreadable events of a stream that were skipped (see docs/decisions/failover.md). */
export class SkippedEvents {
  /** The error of the first skipped event; null = none. */
  fault: ProviderError | null = null
  /** Whether a skipped event may have contained part of the answer. */
  mayHoldAnswer = false
  #events = 0

  /** Skips an event that could not be read because of `error`; throws the error if the event must not be lost. */
  skip({ event, data }: ServerSentEvent, error: unknown, canProveWhole: boolean): void {
    const holdsAnswer = partOfObject.test(data)
    const isMalformed = error instanceof ProviderError && error.reason === 'invalid_response' && !isJsonObject(data)
    const isLost = event === 'error' || (holdsAnswer && !canProveWhole)
    if (!isMalformed || isLost || ++this.#events > maxEvents) throw error
    this.fault ??= error
    this.mayHoldAnswer ||= holdsAnswer
  }
}

/** Valid JSON with wrong content is not a transport error. */
function isJsonObject(data: string): boolean {
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null
  } catch {
    return false
  }
}
