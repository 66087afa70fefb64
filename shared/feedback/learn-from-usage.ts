import type { Clock } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { shardsOf } from '../io/redis-shards.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import { addToCounters, type CounterAddition } from './counters.ts'

type Deps = { db: Database; redis: Redis; clock: Clock }

/** What a request counts for in the sum of signals. Every answered request counts 1 in their number. */
const weights = { retried: -1, unusableCalls: -1, refused: -0.5 }
const refusals: ReadonlySet<string | null> = new Set(['content_filter', 'refusal'])
/** A prompt repeated within this time is a retry. */
const retryWindowS = 300
/** In place of the model, once the retry of a prompt was counted. */
const counted = '-'

/**
 * Counts what booked requests say about the models that `auto` chose: retries of the same prompt, calls with unusable
 * arguments, refusals. Failures of providers do not count: their health covers them. Throws what the stores throw; an
 * event that was not counted is lost.
 */
export async function learnFromUsage({ db, redis, clock }: Deps, events: readonly UsageEvent[]): Promise<void> {
  const all = events.filter(({ signals, status }) => signals && status < 400)
  for (const [{ tag }, answered] of shardsOf(redis).group(all, event => event.org))
    await count({ db, clock }, answered, await findRetried(redis, answered, tag))
}

/** Counts answered requests; `retried` has, for each, the model whose answer it replaces. */
async function count(
  { db, clock }: Omit<Deps, 'redis'>,
  answered: readonly UsageEvent[],
  retried: readonly (string | null)[],
): Promise<void> {
  const additions = new Map<string, CounterAddition>()
  const add = ({ org, key, environment }: UsageEvent, model: string, count: number, sum: number) => {
    const owner = `${key} ${model}`
    const addition = additions.get(owner) ?? {
      organisationId: org,
      keyId: key,
      environment,
      model,
      explicitSum: 0,
      explicitCount: 0,
      implicitSum: 0,
      implicitCount: 0,
    }
    addition.implicitCount += count
    addition.implicitSum += sum
    additions.set(owner, addition)
  }
  for (const [index, event] of answered.entries()) {
    const unusable = event.signals!.unusableCalls ? weights.unusableCalls : 0
    add(event, event.model, 1, unusable + (refusals.has(event.finishReason) ? weights.refused : 0))
    const model = retried[index]
    if (model) add(event, model, 0, weights.retried)
  }
  await addToCounters(db, [...additions.values()], clock.now())
}

/** For each event, the model whose answer to the same prompt it replaces; null if it is no retry. Each prompt counts once. */
async function findRetried(redis: Redis, events: readonly UsageEvent[], tag: string): Promise<(string | null)[]> {
  const nameOf = (prompt: string) => `${tag}prompt:${prompt}`
  const asked = redis.pipeline()
  const prompts = events.map(({ signals }) => signals!.prompt)
  for (const [index, prompt] of prompts.entries()) {
    if (!prompt) continue
    asked.get(nameOf(prompt))
    asked.set(nameOf(prompt), events[index]!.model, 'EX', retryWindowS, 'NX')
  }
  if (asked.length === 0) return events.map(() => null)
  const replies = (await asked.exec())!.values()
  const models = prompts.map(prompt => {
    if (!prompt) return null
    const [error, model] = replies.next().value as [Error | null, string | null]
    replies.next()
    return error || model === counted ? null : model
  })
  const noted = redis.pipeline()
  for (const [index, model] of models.entries())
    if (model) noted.set(nameOf(prompts[index]!), counted, 'EX', retryWindowS, 'XX')
  if (noted.length > 0) await noted.exec()
  return models
}
