import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { eventually, type Gateway } from '../gateway.ts'

/** A batch as it arrived, decompressed. */
export type ReceivedBatch = { path: string; headers: Record<string, string>; body: string }
type Answer = (response: http.ServerResponse, batch: ReceivedBatch) => void

/** A customer's destination of exported logs on loopback. It answers as told: each `once` for one request, then 200. */
export class Destination {
  readonly received: ReceivedBatch[] = []
  readonly #next: Answer[] = []
  readonly #server: http.Server

  private constructor() {
    this.#server = http.createServer(async (request, response) => {
      const bytes = await buffer(request)
      const headers = request.headers as Record<string, string>
      const body = (headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
      const batch = { path: request.url!, headers, body }
      this.received.push(batch)
      const answer = this.#next.shift()
      if (answer) answer(response, batch)
      else response.end()
    })
  }

  static async start(): Promise<Destination> {
    const destination = new Destination()
    destination.#server.listen(0, '127.0.0.1')
    await once(destination.#server, 'listening')
    return destination
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/logs`
  }

  once(...answers: Answer[]): void {
    this.#next.push(...answers)
  }

  /** Answers the next request with a status. */
  refuse(status: number, headers: Record<string, string> = {}): void {
    this.once(response => response.writeHead(status, headers).end('no'))
  }

  /** The batches of a stream. */
  batches(stream: string): ReceivedBatch[] {
    return this.received.filter(({ headers }) => headers['headgate-export-stream'] === stream)
  }

  /** The rows of a stream, as lines of JSON. */
  rows(stream: string): Record<string, unknown>[] {
    return this.batches(stream).flatMap(linesOf)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

/** The rows of a batch in lines of JSON. */
export function linesOf({ body }: Pick<ReceivedBatch, 'body'>): Record<string, unknown>[] {
  return body
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Record<string, unknown>)
}

/**
 * Waits until every transaction that is as old as those of the rows is over, also of other databases of the server: an export begins
 * at the oldest, and delivers nothing that is later.
 */
export async function untilDeliverable({ services: { db } }: Gateway): Promise<void> {
  await eventually(async () => {
    const [row] = await db.$queryRaw<{ past: boolean }[]>`
      SELECT coalesce(max(xid), 0) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS past FROM (
        SELECT max(written_xid) AS xid FROM generations UNION ALL SELECT max(written_xid) FROM audit_events) written`
    return row!.past
  }, 'older transactions are over')
}
