import type { Exchange, ResponseHeaders, ResponseSink, TransportFault } from '../io/http.ts'

/** Maximum concurrent requests of one call. */
const maxParallel = 8

/** Combines the exchanges of one call: `onData` and `onPart` identify the request by its index. */
export type PartsSink = Omit<ResponseSink, 'onData'> & {
  onData(chunk: Buffer, part: number): void
  /** The answer to one of the requests ended successfully. */
  onPart(part: number): void
}

/**
 * Sends the requests of one call as a single exchange. The head is reported once, and again if a later response is a
 * refusal, whose body then follows alone. The first refusal or error ends all.
 */
export function sendParts<R>(
  send: (request: R, sink: ResponseSink) => Exchange,
  requests: readonly R[],
  sink: PartsSink,
): Exchange {
  if (requests.length === 1) return send(requests[0]!, new OnlyPart(sink))
  const open = new Map<number, Exchange>()
  let started = 0
  let hasHead = false
  let paused = false
  let isOver = false
  const abort = () => {
    for (const exchange of open.values()) exchange.abort()
  }
  /** Ignores and aborts the other requests. */
  const endOthers = (part: number) => {
    isOver = true
    for (const [other, exchange] of open) if (other !== part) exchange.abort()
  }
  const startNext = () => {
    const part = started++
    let refused = false
    const isIgnored = () => isOver && !refused
    const exchange = send(requests[part]!, {
      onSent: () => sink.onSent?.(),
      onHead(status, headers) {
        if (isIgnored()) return
        refused = status < 200 || status > 299
        if (refused) endOthers(part)
        if (refused || !hasHead) sink.onHead(status, headers)
        hasHead = true
      },
      onData(chunk) {
        if (!isIgnored()) sink.onData(chunk, part)
      },
      onEnd() {
        if (isIgnored()) return
        open.delete(part)
        if (refused) return sink.onEnd()
        sink.onPart(part)
        if (started < requests.length) startNext()
        else if (open.size === 0) sink.onEnd()
      },
      onError(fault, error) {
        if (isIgnored()) return
        endOthers(part)
        sink.onError(fault, error)
      },
    })
    if (isOver && !refused) return exchange.abort()
    open.set(part, exchange)
    if (paused) exchange.pause()
  }
  for (let i = 0; i < Math.min(maxParallel, requests.length); i++) startNext()
  return {
    abort,
    pause() {
      paused = true
      for (const exchange of open.values()) exchange.pause()
    },
    resume() {
      paused = false
      for (const exchange of open.values()) exchange.resume()
    },
  }
}

/** Fast path for a call with a single request, the usual case. */
class OnlyPart implements ResponseSink {
  readonly #sink: PartsSink
  #refused = false

  constructor(sink: PartsSink) {
    this.#sink = sink
  }

  onSent(): void {
    this.#sink.onSent?.()
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#refused = status < 200 || status > 299
    this.#sink.onHead(status, headers)
  }

  onData(chunk: Buffer): void {
    this.#sink.onData(chunk, 0)
  }

  onEnd(): void {
    if (!this.#refused) this.#sink.onPart(0)
    this.#sink.onEnd()
  }

  onError(fault: TransportFault, error: Error): void {
    this.#sink.onError(fault, error)
  }
}
