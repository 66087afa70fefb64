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

/** What passes on a busy machine between the events that are measured here and those that the gateway counts from. */
const toleranceMs = 4_000

export function assertDuration(statedMs: number, measuredMs: number, what: string): void {
  const difference = `${what} is ${statedMs} ms, and took ${Math.round(measuredMs)} ms`
  assert.ok(Math.abs(statedMs - measuredMs) <= toleranceMs, difference)
}

/** The duration of a call of the worker: at least what the provider took, and at most since it was submitted. */
export function assertWithin(statedMs: number, { waitedMs, submittedMs }: { waitedMs: number; submittedMs: number }) {
  const maxMs = performance.now() - submittedMs
  const difference = `the duration is ${statedMs} ms, not from ${Math.round(waitedMs)} to ${Math.round(maxMs)} ms`
  assert.ok(statedMs >= waitedMs - toleranceMs && statedMs <= maxMs + toleranceMs, difference)
}
