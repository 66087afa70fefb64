import type { DeferredSettlement, Encoding, ResponseWriter } from './response-writer.ts'

/** Passes everything on to another writer; its subclasses look at what they pass. */
export class ForwardingWriter implements ResponseWriter {
  protected readonly client: ResponseWriter

  constructor(client: ResponseWriter) {
    this.client = client
  }

  get gone() {
    return this.client.gone
  }

  get leaving() {
    return this.client.leaving ?? null
  }

  get trace() {
    return this.client.trace ?? null
  }

  get ownMs() {
    return this.client.ownMs ?? null
  }

  get keeps() {
    return this.client.keeps
  }

  get awaitsUsage() {
    return this.client.awaitsUsage ?? false
  }

  defer(settlement: DeferredSettlement): void {
    if (this.client.defer) this.client.defer(settlement)
    else settlement.settle()
  }

  onGone(listener: () => void): void {
    this.client.onGone(listener)
  }

  beginWait(): void {
    this.client.beginWait?.()
  }

  endWait(): void {
    this.client.endWait?.()
  }

  collect(bytes: number): void {
    this.client.collect(bytes)
  }

  answer(headers: Record<string, string>, body: string): void {
    this.client.answer(headers, body)
  }

  open(headers: Record<string, string>): void {
    this.client.open(headers)
  }

  write(text: string, encoding: Encoding): boolean {
    return this.client.write(text, encoding)
  }

  send(bytes: Uint8Array): boolean {
    return this.client.send(bytes)
  }

  onDrain(listener: () => void): void {
    this.client.onDrain(listener)
  }

  end(): void {
    this.client.end()
  }

  abandon(): boolean {
    return this.client.abandon()
  }
}
