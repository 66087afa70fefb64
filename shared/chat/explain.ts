import { type Inquiry, inSeconds, type Option, type Sort, type Wish } from './options.ts'

const sorted: Record<Sort, string> = {
  score: 'the best trade-off of quality, price and live figures',
  price: 'the cheapest',
  speed: 'the fastest',
}

/** A sentence that tells why a request goes where it goes first. */
export function reasonOf(
  { mode, features, candidates, request, overflow }: Inquiry,
  { auto, slug, sort }: Wish,
  { target, quality, costNano, figures }: Option,
  home: { model: string; provider: string } | null,
): string {
  const { model, provider } = target
  const isMeasured = figures.firstByteMs !== null || figures.tokensPerSecond !== null
  const first = sort === 'speed' && !isMeasured ? 'the best guess, as no speed is known yet,' : sorted[sort]
  const usd = `$${(costNano / 1e9).toPrecision(2)}`
  const stays = home?.model === model.id && home.provider === provider.name && sort === 'score'
  const served = `${model.id} at ${provider.name}`
  const why = overflow ? `the input is too long for ${request.model}` : `nobody can serve ${request.model} now`
  const instead = slug === request.model ? '' : `fallback, as ${why}; `
  const rest =
    figures.restMs > 0 ? ` Every provider rests; ${served} is back first, in ${inSeconds(figures.restMs)}.` : ''
  if (stays) return `${instead}the session stays with ${served}, where its prompt may be cached (about ${usd}).${rest}`
  if (auto) {
    const able = candidates!.filter(({ excluded }) => !excluded).length
    const difficulty = sort === 'score' ? `; estimated difficulty ${features.difficulty().toFixed(2)} of 1` : ''
    return `${instead}auto, mode ${mode}: ${served} is ${first} of ${able} candidates (quality ${quality}, about ${usd}${difficulty}).${rest}`
  }
  const order = request.provider?.order?.includes(provider.name) ? 'the first provider of the request’s order' : first
  return `${instead}pinned: the request names ${slug}; ${provider.name} is ${order} of its providers (about ${usd}).${rest}`
}
