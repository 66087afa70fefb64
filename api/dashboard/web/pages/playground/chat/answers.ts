import type { Client } from '../client.ts'
import { type Facts, factsOf } from '../response-facts.ts'
import type { Format } from './formats/format.ts'
import { piecesOf } from './stream.ts'
import { type Answer, extended, noAnswer, type Piece } from './turns.ts'

/** Requests an answer; yields what has come of it at every event of its stream. Throws an ApiError. */
export async function* answersOf(
  client: Client,
  format: Format,
  init: { body: object; signal: AbortSignal },
): AsyncGenerator<{ answer: Answer; facts: Facts }> {
  const startedMs = performance.now()
  const response = await client.request(format.path, init)
  let facts = factsOf(response, startedMs)
  let answer = noAnswer
  for await (const piece of piecesOf(response, format)) {
    facts = { ...withPiece(facts, piece), durationMs: performance.now() - startedMs }
    answer = extended(answer, piece)
    yield { answer, facts }
  }
}

function withPiece(facts: Facts, { id, model, provider, costUsd, tokens }: Piece): Facts {
  return {
    ...facts,
    generationId: facts.generationId ?? id ?? null,
    model: facts.model ?? model ?? null,
    provider: facts.provider ?? provider ?? null,
    costUsd: costUsd ?? facts.costUsd,
    ...(tokens && { tokens: { prompt: 0, completion: 0, ...facts.tokens, ...tokens } }),
  }
}
