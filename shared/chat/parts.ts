import type { Exchange, ResponseHeaders, ResponseSink, TransportFault } from '../io/http.ts'

/** Requests of one call that are under way at the same time. */
const maxParallel = 8

/** What the exchanges of one call tell as one: `onData` and `onPart` name the request that they are about, by its place. */
export type PartsSink = Omit<ResponseSink, 'onData'> & {
  onData(chunk: Buffer, part: number): void
  /** The answer to one of the requests has ended well. */
  onPart(part: number): void
}

/**
 * Sends the requests of one call and tells of them as of one exchange. There is one head; another one where a later answer is a
 * refusal, whose body then follows alone. The first that is refused or breaks ends all.
 */
export function sendParts<R>(
  send: (request: R, sink: ResponseSink) => Exchange,
  requests: readonly R[],
  sink: PartsSink,
): Exchange {
  if (requests.length === 1) return send(requests[0]!, new OnlyPart(sink))
  const open = new Map<number, Exchange>()
  let begun = 0
  let headed = false
  let paused = false
  let over = false
  const abort = () => {
    for (const exchange of open.values()) exchange.abort()
  }
  /** Whatever comes of the other requests is of no interest any more. */
  const endOthers = (part: number) => {
    over = true
    for (const [other, exchange] of open) if (other !== part) exchange.abort()
  }
  const begin = () => {
    const part = begun++
    let refused = false
    const isIgnored = () => over && !refused
    const exchange = send(requests[part]!, {
      onSent: () => sink.onSent?.(),
      onHead(status, headers) {
        if (isIgnored()) return
        refused = status < 200 || status > 299
        if (refused) endOthers(part)
        if (refused || !headed) sink.onHead(status, headers)
        headed = true
      },
      onData(chunk) {
        if (!isIgnored()) sink.onData(chunk, part)
      },
      onEnd() {
        if (isIgnored()) return
        open.delete(part)
        if (refused) return sink.onEnd()
        sink.onPart(part)
        if (begun < requests.length) begin()
        else if (open.size === 0) sink.onEnd()
      },
      onError(fault, error) {
        if (isIgnored()) return
        endOthers(part)
        sink.onError(fault, error)
      },
    })
    if (over && !refused) return exchange.abort()
    open.set(part, exchange)
    if (paused) exchange.pause()
  }
  for (let i = 0; i < Math.min(maxParallel, requests.length); i++) begin()
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

/** The one request of a call that takes no more, as nearly all do: nothing has to be kept of others. */
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
