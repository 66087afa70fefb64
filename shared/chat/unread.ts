import type { ServerSentEvent } from '../io/sse.ts'
import { ProviderError } from '../providers/contract.ts'

/** More of them are no accident. */
const maxEvents = 8
/** Without any of these a text is no part of a JSON object. */
const partOfObject = /["{}[\]]/

/** The events of a stream that could not be read and were passed over (see docs/decisions/failover.md). */
export class Unread {
  /** Why the first one could not be read; null = there is none. */
  fault: ProviderError | null = null
  /** Whether one of them may have held a part of the answer. */
  mayHoldAnswer = false
  #events = 0

  /** Passes over an event that could not be read for `error`; throws it where that event must not be lost. */
  passOver({ event, data }: ServerSentEvent, error: unknown, canProveWhole: boolean): void {
    const holdsAnswer = partOfObject.test(data)
    const isMalformed = error instanceof ProviderError && error.reason === 'invalid_response' && !isJsonObject(data)
    const isLost = event === 'error' || (holdsAnswer && !canProveWhole)
    if (!isMalformed || isLost || ++this.#events > maxEvents) throw error
    this.fault ??= error
    this.mayHoldAnswer ||= holdsAnswer
  }
}

/** What can be read and makes no sense is no accident of the transport. */
function isJsonObject(data: string): boolean {
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null
  } catch {
    return false
  }
}
