import type { RatedTask } from '../catalog/schema.ts'
import type { Candidate } from '../wallet/routing-record.ts'
import { formatSeconds, type ModelSelector, type Option, type RoutingContext, type Sort } from './options.ts'
import { setPoints } from './score.ts'

const sortDescriptions: Record<Sort, string> = {
  score: 'the best trade-off of quality, price and live figures',
  price: 'the cheapest',
  speed: 'the fastest',
}

const taskNames: Record<RatedTask, string> = {
  code: 'code',
  maths: 'maths',
  vision: 'images',
  long_context: 'long prompts',
  multilingual: 'other languages',
}

/** A sentence that explains the first target of a routing decision. */
export function reasonOf(
  { mode, features, task, candidates, request, overflow }: RoutingContext,
  { auto, slug, sort }: ModelSelector,
  { target, quality, listedQuality, costNano, figures }: Option,
  sticky: { model: string; provider: string; madeState?: true } | null,
): string {
  const { model, provider } = target
  const isMeasured = figures.firstByteMs !== null || figures.tokensPerSecond !== null
  const rank = sort === 'speed' && !isMeasured ? 'the best guess, as no speed is known yet,' : sortDescriptions[sort]
  const usd = `$${(costNano / 1e9).toPrecision(2)}`
  const isSticky = sticky?.model === model.id && sticky.provider === provider.name
  const place = `${model.id} at ${provider.name}`
  const why = overflow ? `the input is too long for ${request.model}` : `no provider can serve ${request.model} now`
  const prefix = slug === request.model ? '' : `fallback, as ${why}; `
  const cooldownSuffix =
    figures.cooldownMs > 0
      ? ` Every provider is in cooldown; ${place} is available first, in ${formatSeconds(figures.cooldownMs)}.`
      : ''
  if (isSticky && sticky.madeState)
    return `${prefix}the reasoning in the request continues at ${place}, which made it (about ${usd}).${cooldownSuffix}`
  if (isSticky && sort === 'score')
    return `${prefix}the session stays with ${place}, where its prompt may be cached (about ${usd}).${cooldownSuffix}`
  if (auto) {
    const eligible = candidates!.filter(({ excluded }) => !excluded).length
    const difficulty =
      sort === 'score'
        ? `; estimated difficulty ${features.difficulty().toFixed(2)} of 1, set point ${setPoints[mode]}`
        : ''
    const learned = quality - listedQuality
    const rated = [
      `quality ${listedQuality}`,
      task !== 'general' && ` for ${taskNames[task]}`,
      learned !== 0 && ` ${learned < 0 ? '−' : '+'} ${Math.abs(learned).toFixed(1)} learned from feedback`,
    ]
    return `${prefix}auto, mode ${mode}: ${place} is ${rank} of ${eligible} candidates (${rated.filter(Boolean).join('')}, about ${usd}${difficulty}).${cooldownSuffix}`
  }
  const order = request.provider?.order?.includes(provider.name) ? 'the first provider of the request’s order' : rank
  return `${prefix}pinned: the request names ${slug}; ${provider.name} is ${order} of its providers (about ${usd}).${cooldownSuffix}`
}

/**
 * The considered candidates without duplicates: the chosen ones in order of attempt, then the best others, at most
 * `max`.
 */
export function topCandidates(chosen: readonly Option[], candidates: readonly Candidate[], max: number): Candidate[] {
  const list = chosen.slice(0, max).map(({ candidate }) => candidate!)
  for (const candidate of candidates) {
    let at = list.length
    while (at > chosen.length && isBefore(candidate, list[at - 1]!)) at--
    // Most of the 100 or more candidates end here.
    if (at >= max || list.some(one => one.model === candidate.model && one.provider === candidate.provider)) continue
    list.splice(at, 0, candidate)
    if (list.length > max) list.pop()
  }
  return list
}

/** By score, candidates without a score last; then by name. */
function isBefore(a: Candidate, b: Candidate): boolean {
  if (a.score !== b.score) return b.score === null || (a.score !== null && a.score > b.score)
  return a.model === b.model ? (a.provider ?? '') < (b.provider ?? '') : a.model < b.model
}
