import type { GatewayError } from '../base/errors.ts'
import type { Usage } from '../base/usage.ts'
import type { MessageEvent } from '../kinds/messages.ts'
import type { ResponsesEvent, ResponsesObject } from '../kinds/responses-answer.ts'
import { DeliveredOutput } from './delivered-output.ts'
import { type AnswerRelay, maxOpeningCharacters, type StreamEnding } from './stream-relay.ts'

/**
 * Relays a stream whose events have types, in Anthropic's or OpenAI's Responses format. Nothing is written before there
 * is output, until which another provider can still take over.
 */
export abstract class EventRelay implements AnswerRelay {
  abstract readonly encoding: 'latin1' | 'utf8'
  abstract readonly usage: Usage | null
  abstract readonly reported: Usage | null
  readonly output = new DeliveredOutput()
  upstreamId: string | null = null
  upstreamModel: string | null = null
  finishReason: string | null = null
  over = false
  hasOutput = false
  #pendingText = ''

  abstract feed(bytes: Buffer, part?: number): void
  abstract close(part?: number): void
  abstract formatEnding(ending: StreamEnding): string
  abstract formatFailure(failure: GatewayError, response?: ResponsesObject): string

  flush(): string {
    if (!this.hasOutput) return ''
    const text = this.#pendingText
    this.#pendingText = ''
    return text
  }

  protected pass(text: string): void {
    this.#pendingText += text
    this.hasOutput ||= this.#pendingText.length > maxOpeningCharacters
  }
}

/** An event as it is written to the client. */
export function formatTypedEvent(event: MessageEvent | ResponsesEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}
