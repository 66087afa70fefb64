import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { Emulator, Recorded, Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are checked by each provider's rules before they are read
export type Json = any

/** One request of a batch: the route it is for, and its body. */
export type BatchRequest = { id: string; path: string; body: Json }
/** What a request was answered; `null`: the batch was over before it came to the request. */
export type BatchResult = BatchRequest & { answer: { status: number; body: Json } | null }

export type Batch = {
  id: string
  /** The request that created it. */
  created: Recorded
  requests: BatchRequest[]
  polls: number
  status: 'running' | 'stopping' | 'completed' | 'expired' | 'cancelled'
  /** Of one that is over, in no order. */
  results: BatchResult[]
}

/** What a test decides about batches, at any time. */
export type BatchScript = {
  /** The poll at which a batch has ended (default the second). */
  polls: number
  /** How many requests are answered before a batch expires or is stopped (default all, or none when stopped). */
  answers: number
  /** Another reply to one request than the emulator's own. */
  instead: (request: BatchRequest) => Reply | null
  /** What is in a file of results, instead of its lines. */
  lines: (lines: string[]) => string[]
  /** Given to the coming creates, one each; they create nothing. */
  refusals: Reply[]
  /** How many of the coming creates get no answer, although there is a batch then. */
  lost: number
}

/** An emulated provider that serves chat and batches of it at one address. */
export type BatchEmulator = {
  emulator: Emulator
  url: string
  script: BatchScript
  batches: ReadonlyMap<string, Batch>
  close(): Promise<void>
}

/** The batches of one provider; `reply` answers their requests as it does single ones. */
export class BatchDesk {
  readonly batches = new Map<string, Batch>()
  readonly script: BatchScript
  readonly #reply: Reply

  constructor(reply: Reply, script: Partial<BatchScript> = {}) {
    this.#reply = reply
    const usual = { polls: 2, answers: Number.POSITIVE_INFINITY, instead: () => null, refusals: [], lost: 0 }
    this.script = { ...usual, lines: lines => lines, ...script }
  }

  add(prefix: string, created: Recorded, requests: BatchRequest[]): Batch {
    const id = prefix + randomUUID().replaceAll('-', '')
    const batch: Batch = { id, created, requests, polls: 0, status: 'running', results: [] }
    this.batches.set(id, batch)
    return batch
  }

  /** Newest first, from behind `after`. */
  page(after: string | null, limit: number): { data: Batch[]; more: boolean } {
    const newestFirst = [...this.batches.values()].reverse()
    const rest = newestFirst.slice(newestFirst.findIndex(({ id }) => id === after) + 1)
    return { data: rest.slice(0, limit), more: rest.length > limit }
  }

  async poll(batch: Batch): Promise<void> {
    batch.polls += 1
    if (batch.status === 'stopping') await this.#end(batch, 'cancelled')
    else if (batch.status === 'running' && batch.polls >= this.script.polls)
      await this.#end(batch, this.script.answers < batch.requests.length ? 'expired' : 'completed')
  }

  async #end(batch: Batch, status: 'completed' | 'expired' | 'cancelled'): Promise<void> {
    const all = this.script.answers === Number.POSITIVE_INFINITY
    const answers = all && status === 'cancelled' ? 0 : this.script.answers
    const results: BatchResult[] = []
    for (const [position, request] of batch.requests.entries())
      results.push({ ...request, answer: position < answers ? await this.#answer(batch, request) : null })
    Object.assign(batch, { status, results: results.reverse() })
  }

  #answer(batch: Batch, request: BatchRequest): Promise<{ status: number; body: Json }> {
    const { path, body } = request
    const reply = this.script.instead(request) ?? this.#reply
    return answered(reply, { ...batch.created, method: 'POST', path, body, raw: Buffer.from(JSON.stringify(body)) })
  }
}

/** A reply without a connection: its status and its JSON. */
async function answered(reply: Reply, request: Recorded): Promise<{ status: number; body: Json }> {
  const { promise, resolve } = Promise.withResolvers<{ status: number; body: Json }>()
  let status = 0
  const response = {
    writeHead(code: number) {
      status = code
      return response
    },
    end: (text: string) => resolve({ status, body: JSON.parse(text) }),
  }
  await reply(request, response as unknown as ServerResponse)
  return promise
}

/** A positive whole number of the query, or what is meant without one. */
export function limitOf({ query }: Recorded, standard: number): number {
  const limit = Number(query.get('limit') ?? standard)
  return Number.isInteger(limit) && limit > 0 ? limit : standard
}
