import assert from 'node:assert/strict'
import { nanoPerInputToken, nanoPerOutputToken } from '../../support/wallet/money.ts'
import type { Cell } from '../cell.ts'

export type Tokens = { prompt_tokens: number; completion_tokens: number }

/** What tokens of the model `coin` cost, in nano-dollars. */
export function coinNano({ prompt_tokens, completion_tokens }: Tokens): number {
  return prompt_tokens * nanoPerInputToken + completion_tokens * nanoPerOutputToken
}

/** The charges of a request or a session, in nano-dollars. */
export async function chargesOf({ stack, account }: Cell, generationId: string): Promise<number[]> {
  const { organisationId } = account
  const cause = `generation:${generationId}`
  const where = { organisationId, OR: [{ cause }, { cause: { startsWith: `${cause}:` } }] }
  const entries = await stack.services.db.ledgerEntry.findMany({ where })
  return entries.map(({ amountNano }) => -Number(amountNano))
}

/** Asserts that a request was charged once, with this amount. */
export async function assertCharged(cell: Cell, generationId: string, nano: number): Promise<void> {
  assert.deepEqual(await chargesOf(cell, generationId), [nano], `the charges of ${generationId}`)
}

/** The only row of the request log with this id, request id or end user. */
export async function rowOf(
  { stack, account }: Cell,
  where: { id: string } | { requestId: string } | { endUser: string },
) {
  const { organisationId } = account
  const rows = await stack.services.db.generation.findMany({ where: { organisationId, ...where } })
  assert.equal(rows.length, 1, `rows of ${Object.values(where)} in the request log`)
  return rows[0]!
}

/** A span of time as it was seen from within and from without: on a busy machine they differ by seconds. */
export type Seen = { minMs: number; maxMs: number }

const toleranceMs = 500

/** Asserts that a duration is within what was seen of it. */
export function assertDuration(statedMs: number, { minMs, maxMs }: Seen, what: string): void {
  const difference = `${what} is ${Math.round(statedMs)} ms, not ${Math.round(minMs)} to ${Math.round(maxMs)} ms`
  assert.ok(statedMs >= minMs - toleranceMs && statedMs <= maxMs + toleranceMs, difference)
}

/** A stopwatch with two readings at each end: the outer ones are taken before `start` and after `stop` was heard of. */
export class Stopwatch {
  readonly #calledMs = performance.now()
  #startedMs = 0
  #stoppingMs = 0
  #stoppedMs = 0

  /** It has surely started. */
  started(): void {
    this.#startedMs = performance.now()
  }

  /** It is asked to stop. */
  stopping(): void {
    this.#stoppingMs = performance.now()
  }

  /** It has surely stopped. */
  stopped(): void {
    this.#stoppedMs = performance.now()
  }

  get isStopped(): boolean {
    return this.#stoppedMs > 0
  }

  get seen(): Seen {
    return { minMs: this.#stoppingMs - this.#startedMs, maxMs: this.#stoppedMs - this.#calledMs }
  }
}
