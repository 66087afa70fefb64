import { usdFromNano } from '../../../shared/base/money.ts'
import { serviceTierOf } from '../../../shared/base/service-tier.ts'
import { priceAt, type TokenPrice, tokenRates, webSearchCost } from '../../../shared/catalog/prices.ts'
import type { Generation, Prisma } from '../../../shared/generated/prisma/client.ts'
import { delayedKind } from '../../../shared/jobs/jobs.ts'
import { directKinds } from '../../../shared/kinds/index.ts'
import type { Platform } from '../../../shared/platform.ts'
import { chargeNano, marginOf } from '../../../shared/routing/pricing.ts'
import { firstTokenMs } from '../../../shared/wallet/durations.ts'
import type { RoutedAttempt, RoutingRecord } from '../../../shared/wallet/routing-record.ts'
import type { Keys } from '../queries/work.ts'
import type { RequestCall } from '../wire/request-calls.ts'
import type { CostPart, RequestRow } from '../wire/requests.ts'
import { presentWorkKey } from './work.ts'

/** The columns of a row of a list. */
export const listed = {
  id: true,
  createdAt: true,
  kind: true,
  environment: true,
  status: true,
  errorCode: true,
  model: true,
  provider: true,
  keyId: true,
  streamed: true,
  attempts: true,
  promptTokens: true,
  completionTokens: true,
  costNano: true,
  firstByteMs: true,
  durationMs: true,
  calls: true,
  endUser: true,
  session: true,
} satisfies Prisma.GenerationSelect
type Listed = Pick<Generation, keyof typeof listed>

export function presentRow(row: Listed, keys: Keys): RequestRow {
  return {
    id: row.id,
    created_at: row.createdAt.toISOString(),
    type: row.kind,
    environment: row.environment,
    status: row.status,
    error_code: row.errorCode,
    model: row.model,
    provider: row.provider,
    key: presentWorkKey(keys, row),
    streamed: row.streamed,
    attempts: row.attempts,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cost_usd: usdFromNano(row.costNano),
    first_byte_ms: firstTokenMs(row),
    duration_ms: row.durationMs,
    count: row.calls,
    end_user: row.endUser,
    session: row.session,
  }
}

/** The recorded provider calls; a single call is derived from the figures of the request. */
export function callsOf(row: Generation, { attempts }: RoutingRecord): RequestCall[] {
  if (attempts) return attempts.map(presentCall)
  const { provider, model, attempts: made, status, errorCode, durationMs } = row
  if (provider === null || made === 0) return []
  const call = { provider, model, status: errorCode === null ? status : null, fault: errorCode, durationMs }
  return [presentCall(call)]
}

/** A call to a provider, as pages show it. */
export function presentCall({ durationMs, startedMs, pause, message, ...call }: RoutedAttempt): RequestCall {
  return {
    ...call,
    duration_ms: durationMs,
    started_ms: startedMs ?? null,
    pause: pause ?? null,
    message: message ?? null,
  }
}

/**
 * The cost of a request's tokens by class, and the margin. Null if current prices do not add up to the charge (they
 * changed, or the request had token classes that the log does not distinguish), or if nothing was charged.
 */
export function costParts({ catalog, config }: Platform, row: Generation, isOfBatch: boolean): CostPart[] | null {
  const { kind, model, provider, promptTokens, completionTokens, cachedTokens, cacheWriteTokens, cacheWrite1hTokens } =
    row
  const direct = kind in directKinds ? (kind as keyof typeof directKinds) : kind === delayedKind ? 'chat' : null
  const deployment = catalog.models.get(model)?.providers.find(one => one.provider === provider)
  if (!direct || deployment?.price.unit !== 'token' || row.costNano === 0n) return null
  const tier = serviceTierOf(row.serviceTier)
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: {
      cached_tokens: cachedTokens,
      cache_write_tokens: cacheWriteTokens ?? 0,
      cache_write_1h_tokens: cacheWrite1hTokens ?? 0,
    },
    web_searches: row.webSearches ?? 0,
    ...(tier && { service_tier: tier }),
  }
  const { '1h': hour, '6h': sixHours, batch } = config.discountsPpm
  const discounts = kind === delayedKind ? [hour, sixHours, 0n] : [isOfBatch ? batch : 0n]
  const margins = discounts.map(discountPpm => marginOf(config, direct, discountPpm))
  if (!margins.some(marginPpm => BigInt(chargeNano({ deployment }, usage, marginPpm)) === row.costNano)) return null
  const rates = tokenRates(priceAt(deployment.price, tier), promptTokens)
  const cached = Math.min(cachedTokens, promptTokens)
  const written = Math.min(cacheWriteTokens ?? 0, promptTokens - cached)
  const writtenFor1h = Math.min(cacheWrite1hTokens ?? 0, written)
  const parts: CostPart[] = [
    partOf('input', promptTokens - cached - written, rates.input),
    partOf('cached_input', cached, rates.cachedInput),
    partOf('cache_write', written - writtenFor1h, rates.cacheWrite),
    partOf('cache_write_1h', writtenFor1h, rates.cacheWrite1h),
    partOf('output', completionTokens, rates.output),
  ].filter(({ tokens }) => tokens !== 0)
  if (row.webSearches) parts.push(partOfSearches(deployment.price, row.webSearches))
  const providersUsd = parts.reduce((sum, { cost_usd }) => sum + cost_usd, 0)
  const marginUsd = Number(row.costNano) / 1e9 - providersUsd
  return [...parts, { part: 'margin', tokens: null, usd_per_million: null, cost_usd: roundUsd(marginUsd) }]
}

function partOf(part: CostPart['part'], tokens: number, picoPerToken: bigint) {
  return {
    part,
    tokens,
    usd_per_million: Number(picoPerToken) / 1e6,
    cost_usd: roundUsd((tokens * Number(picoPerToken)) / 1e12),
  }
}

function partOfSearches(price: TokenPrice, searches: number): CostPart {
  const cost_usd = roundUsd(Number(webSearchCost(price, searches)) / 1e12)
  return { part: 'web_search', tokens: null, usd_per_million: null, cost_usd }
}

/** Fractions of a nano-dollar are shown too: only their sum was rounded. */
function roundUsd(usd: number): number {
  return Number(usd.toFixed(12))
}
