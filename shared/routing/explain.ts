import type { RatedTask } from '../catalog/schema.ts'
import type { Figures } from '../providers/health.ts'
import { pausedCooldownMs } from '../providers/provider-pauses.ts'
import type { Candidate } from '../wallet/routing-record.ts'
import { type ModelSelector, type Option, type RoutingContext, shownQuality } from './options.ts'
import { placeOf, type Sort } from './provider-preferences.ts'
import { setPoints } from './score.ts'

const sortDescriptions: Record<Sort, string> = {
  score: 'the best trade-off of quality, price and live figures',
  price: 'the cheapest',
  speed: 'the fastest',
  latency: 'the first to answer',
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
  { mode, task, difficulty, compared, request, preferences, overflow, arm, draw }: RoutingContext,
  { auto, slug, sort }: ModelSelector,
  chosen: readonly Option[],
  sticky: { model: string; provider: string; madeState?: true } | null,
): string {
  const [{ target, listedQuality, learned, costNano, figures }] = chosen as [Option]
  const { model, provider } = target
  const isMeasured = figures.firstByteMs !== null || figures.tokensPerSecond !== null
  const rank =
    (sort === 'speed' || sort === 'latency') && !isMeasured
      ? 'the best guess, as no speed is known yet,'
      : sortDescriptions[sort]
  const usd = `$${(costNano / 1e9).toPrecision(2)}`
  const isSticky = sticky?.model === model.id && sticky.provider === provider.name
  const place = `${model.id} at ${provider.name}`
  const share = draw && `the alias ${draw.name} gives ${draw.percent} % of its requests to ${draw.model}; `
  const fallback = slug === request.model ? '' : `fallback, as ${fallbackReason(request.model, overflow !== null)}; `
  const prefix = (share ?? '') + fallback
  const cooldownSuffix =
    figures.cooldownMs > 0
      ? ` Every provider is in cooldown; ${place} is available first, in ${formatSeconds(figures.cooldownMs)}.`
      : ''
  if (isSticky && sticky.madeState)
    return `${prefix}the reasoning in the request continues at ${place}, which made it (about ${usd}).${cooldownSuffix}`
  if (isSticky && sort === 'score')
    return `${prefix}the session stays with ${place}, where its prompt may be cached (about ${usd}).${cooldownSuffix}`
  if (auto) {
    let eligible = 0
    for (const option of compared)
      if (option.refusal === null && (option.figures.cooldownMs === 0 || chosen.includes(option))) eligible++
    const estimate =
      sort === 'score' ? `; estimated difficulty ${difficulty!.toFixed(2)} of 1, set point ${setPoints[mode]}` : ''
    const ofTask = task === 'general' ? '' : ` for ${taskNames[task]}`
    const ofFeedback =
      learned === 0 ? '' : ` ${learned < 0 ? '−' : '+'} ${Math.abs(learned).toFixed(1)} learned from feedback`
    return `${prefix}auto, mode ${mode}: ${place} is ${rank} of ${eligible} candidates (quality ${listedQuality}${ofTask}${ofFeedback}, about ${usd}${estimate}).${cooldownSuffix}`
  }
  const isOrdered = preferences !== null && placeOf(preferences, provider.name) !== null
  const drawn = arm?.provider === provider.name ? `drawn by the key’s weights (${arm.percent} %) out` : null
  const order = isOrdered ? 'the first provider of the request’s order' : (drawn ?? rank)
  return `${prefix}pinned: the request names ${slug}; ${provider.name} is ${order} of its providers (about ${usd}).${cooldownSuffix}`
}

function fallbackReason(model: string, isTooLong: boolean): string {
  return isTooLong ? `the input is too long for ${model}` : `no provider can serve ${model} now`
}

/**
 * The candidates of a decision without duplicates: the chosen ones in order of attempt, then the best others, at most
 * `max`.
 */
export function topCandidates(
  { compared, excluded }: RoutingContext,
  chosen: readonly Option[],
  max: number,
): Candidate[] {
  const list = chosen.slice(0, max).map(option => candidateOf(option, true))
  for (const option of compared) {
    // Most of the 100 or more options end here.
    if (list.length >= max && option.isAutomatic && option.score + scoreUnit < (list.at(-1)!.score ?? -1e9)) continue
    insert(list, candidateOf(option, false), chosen.length, max)
  }
  for (const candidate of excluded ?? []) insert(list, candidate, chosen.length, max)
  return list
}

function insert(list: Candidate[], candidate: Candidate, first: number, max: number): void {
  let at = list.length
  while (at > first && isBefore(candidate, list[at - 1]!)) at--
  if (at >= max || list.some(one => one.model === candidate.model && one.provider === candidate.provider)) return
  list.splice(at, 0, candidate)
  if (list.length > max) list.pop()
}

/** Scores are rounded to this. */
const scoreUnit = 1e-6

function candidateOf(option: Option, isChosen: boolean): Candidate {
  const { target, costNano, figures, score, isAutomatic, refusal, learned } = option
  const { model, provider } = target
  return {
    model: model.id,
    provider: provider.name,
    score: isAutomatic && refusal === null ? Math.round(score * 1e6) / 1e6 : null,
    quality: shownQuality(model, option),
    learned,
    estimatedCostNano: costNano,
    latencyMs: figures.firstByteMs,
    // A provider in cooldown serves when all are in cooldown.
    excluded: refusal ?? (figures.cooldownMs > 0 && !isChosen ? cooldownReason(figures) : null),
  }
}

/** Why a target was skipped although it could serve the request. */
function cooldownReason({ circuit, cooldownMs }: Figures): string {
  if (cooldownMs >= pausedCooldownMs) return 'an operator has paused the provider'
  if (circuit === 'half_open') return 'another request is probing whether it has recovered'
  const why = circuit === 'open' ? 'its circuit is open after repeated failures' : 'the provider requested a pause'
  return `${why}; available in ${formatSeconds(cooldownMs)}`
}

function formatSeconds(ms: number): string {
  return `${(Math.ceil(ms / 100) / 10).toFixed(1)} s`
}

/** By score, candidates without a score last; then by name. */
function isBefore(a: Candidate, b: Candidate): boolean {
  if (a.score !== b.score) return b.score === null || (a.score !== null && a.score > b.score)
  return a.model === b.model ? (a.provider ?? '') < (b.provider ?? '') : a.model < b.model
}
