import { useQuery } from '@tanstack/react-query'
import type { DashboardKey } from '../wire/keys.ts'
import type { CatalogModel, ModelProvider, ModelsAnswer, Pricing } from '../wire/models.ts'
import { call } from './api.ts'
import { usePlace } from './session.tsx'

const freshMs = 60_000

/** The whole catalog, with the current status of each model’s providers. */
export function useModels(enabled = true) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'models'],
    queryFn: async ({ signal }) => (await call<ModelsAnswer>(`${base}/models`, { signal })).data,
    staleTime: freshMs,
    enabled,
  })
}

/** Whether a key may be used with a model, and a provider serves it. */
export function isOffered(
  { environment, model_allowlist }: Pick<DashboardKey, 'environment' | 'model_allowlist'>,
  { id, owned_by, available }: CatalogModel,
): boolean {
  if (environment === 'live' && !available) return false
  return model_allowlist === null || model_allowlist.some(slug => slug === id || slug === `${owned_by}/${id}`)
}

/** In the order in which pages list them. */
export const typeNames: Record<string, string> = {
  chat: 'Chat',
  embeddings: 'Embeddings',
  rerank: 'Rerank',
  moderation: 'Moderation',
  ocr: 'OCR',
  image: 'Image',
  speech: 'Speech',
  transcription: 'Transcription',
  music: 'Music',
  sfx: 'Sound effects',
  realtime: 'Realtime voice',
  live_video: 'Live video',
  video: 'Video',
  lipsync: 'Lip sync',
  face_swap: 'Face swap',
  avatar: 'Talking avatar',
  mesh: '3D mesh',
}

/** The provider whose price is shown: the first configured one, otherwise the first. */
export function leadOf({ providers }: CatalogModel): ModelProvider | undefined {
  return providers.find(({ status }) => status !== 'not_configured') ?? providers[0]
}

export type PriceLine = { label: string; amount: number; price: string; unit: string }

const perMillionTokens = '1M tokens'
const tokenLabels: Record<string, string> = {
  prompt: 'Input',
  completion: 'Output',
  input_cache_read: 'Cached input',
  input_cache_write: 'Cache write',
  audio: 'Audio input',
  input_audio_cache: 'Cached audio input',
  image: 'Image input',
  audio_output: 'Audio output',
  image_output: 'Image output',
}
const unitLabels: Record<string, { label: string; unit: string; factor: number }> = {
  per_character: { label: 'Text', unit: '1M characters', factor: 1_000_000 },
  per_image: { label: 'Image', unit: 'image', factor: 1 },
  per_second: { label: 'Length', unit: 'second', factor: 1 },
  per_minute: { label: 'Length', unit: 'minute', factor: 1 },
  per_page: { label: 'Page', unit: 'page', factor: 1 },
  web_search: { label: 'Web search', unit: 'search', factor: 1 },
  minimum_per_request: { label: 'At least', unit: 'request', factor: 1 },
  per_request: { label: 'Result', unit: 'result', factor: 1 },
  per_credit: { label: 'Provider’s invoice', unit: 'credit', factor: 1 },
}

/** All prices of a model at a provider, in comparable units. */
export function priceLines(pricing: Pricing): PriceLine[] {
  return Object.entries(pricing).map(([given, perUnit]) => {
    const [, name = given, tier] = /^(.+)_(flex|priority)$/.exec(given) ?? []
    if (tier && tokenLabels[name])
      return lineOf(`${tokenLabels[name]} (${tier})`, Number(perUnit) * 1_000_000, perMillionTokens)
    if (tokenLabels[name]) return lineOf(tokenLabels[name], Number(perUnit) * 1_000_000, perMillionTokens)
    const base = Object.keys(unitLabels).find(key => name === key || name.startsWith(`${key}_`)) ?? 'per_request'
    const { label, unit, factor } = unitLabels[base]!
    const variant = name.slice(base.length + 1).replaceAll('_', ' ')
    return lineOf(variant || label, Number(perUnit) * factor, unit)
  })
}

function lineOf(label: string, amount: number, unit: string): PriceLine {
  return { label, amount, price: priceText(amount), unit }
}

/** The main price of a model; null where its prices are unknown. */
export function mainPrice(model: CatalogModel): { price: string; unit: string } | null {
  // A minimum is no alternative to the price that it belongs to.
  const { minimum_per_request: _, ...pricing } = leadOf(model)?.pricing ?? {}
  const [input, output, ...more] = priceLines(pricing)
  if (!input) return null
  const { unit } = input
  if (pricing.prompt !== undefined && output)
    return { price: Number(pricing.completion) === 0 ? input.price : `${input.price} in, ${output.price} out`, unit }
  const cheapest = [input, ...(output ? [output] : []), ...more].reduce((a, b) => (b.amount < a.amount ? b : a))
  return { price: output ? `from ${cheapest.price}` : cheapest.price, unit }
}

/** The main price on one line. */
export function priceSummary(model: CatalogModel): string {
  const main = mainPrice(model)
  return main ? `${main.price} / ${main.unit}` : ''
}

const prices = new Intl.NumberFormat('en-US', {
  style: 'currency',
  currency: 'USD',
  minimumFractionDigits: 2,
  maximumFractionDigits: 9,
})

/** Formats a price without rounding: "$2.625", "$0.01575". */
export function priceText(amount: number): string {
  // Further digits are rounding errors of the multiplication.
  return amount === 0 ? '$0' : prices.format(Number(amount.toPrecision(6)))
}

/** The types of models without a tab of their own in the playground. */
const untried = ['live_video', 'rerank', 'moderation', 'ocr']

/** The playground route for a model; null if there is none. */
export function playgroundOf({ type, endpoint }: Pick<CatalogModel, 'type' | 'endpoint'>): string | null {
  if (endpoint === '/v1/completions') return 'completions'
  return untried.includes(type) ? null : type
}
