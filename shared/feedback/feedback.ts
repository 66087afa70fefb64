import type { Clock } from '../base/time.ts'
import type { Feedback as FeedbackRow, Generation } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Policy } from '../keys/policy.ts'
import { addToCounters, keptShare } from './counters.ts'

/** Requests older than this cannot be scored: what they would teach has lost half of its weight. */
export const maxAgeDays = 30
/** The kinds of requests that `auto` can serve. */
const learnedKinds: ReadonlySet<string> = new Set(['chat', 'messages', 'responses', 'generate_content'])

type NewFeedback = { score: number; comment: string | null }

/** Scores of generations, and what they teach. */
export class Feedback {
  readonly #db: Database
  readonly #clock: Clock

  constructor(db: Database, clock: Clock) {
    this.#db = db
    this.#clock = clock
  }

  /**
   * Records the score of a generation by a key, in place of an earlier one by the same key, and counts it for the key that
   * made the request. Failed requests teach nothing: provider health covers them.
   */
  async record({ keyId }: Policy, generation: Generation, { score, comment }: NewFeedback): Promise<FeedbackRow> {
    const { id: generationId, organisationId, environment, model, provider, kind, status } = generation
    const now = new Date(this.#clock.now())
    return this.#db.$transaction(async tx => {
      const about = { generationId, keyId, organisationId, environment, model, provider }
      const { count } = await tx.feedback.createMany({
        data: { ...about, score, comment, createdAt: now, updatedAt: now },
        skipDuplicates: true,
      })
      const previous = count === 0 ? await lockRow(tx, generationId, keyId) : null
      if (learnedKinds.has(kind) && status < 400) {
        const kept = previous ? keptShare(now.getTime() - previous.updatedAt.getTime()) : 0
        const explicit = { explicitSum: score - kept * (previous?.score ?? 0), explicitCount: 1 - kept }
        const counted = { organisationId, keyId: generation.keyId, environment, model }
        await addToCounters(tx, [{ ...counted, ...explicit, implicitSum: 0, implicitCount: 0 }], now.getTime())
      }
      return tx.feedback.update({
        where: { generationId_keyId: { generationId, keyId } },
        data: { score, comment, updatedAt: now },
      })
    })
  }

  /** The scores of a generation, by all keys of its organisation. */
  listOf(organisationId: string, generationId: string): Promise<FeedbackRow[]> {
    return this.#db.feedback.findMany({ where: { generationId, organisationId }, orderBy: { createdAt: 'asc' } })
  }
}

async function lockRow(tx: Connection, generationId: string, keyId: string) {
  const [row] = await tx.$queryRaw<{ score: number; updatedAt: Date }[]>`
    SELECT score, updated_at AS "updatedAt" FROM feedback
    WHERE generation_id = ${generationId} AND key_id = ${keyId} FOR UPDATE`
  return row ?? null
}
