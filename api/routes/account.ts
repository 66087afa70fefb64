import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { usdFromNano } from '../../shared/base/money.ts'
import type { Generation } from '../../shared/generated/prisma/client.ts'
import type { Policy } from '../../shared/keys/policy.ts'
import type { Platform } from '../../shared/platform.ts'
import { firstTokenMs } from '../../shared/wallet/durations.ts'
import type { WalletView } from '../../shared/wallet/wallets.ts'
import { endpoint } from '../endpoint.ts'
import { wallet } from '../schemas/account.ts'
import { generation } from '../schemas/core.ts'

export const balance = endpoint({
  method: 'get',
  path: '/v1/balance',
  operationId: 'getBalance',
  tag: 'Wallet',
  summary: 'Retrieve the wallet',
  description:
    'Returns the prepaid balance: `balance_usd` = available + reserved + held. New requests are checked against the available amount.',
  access: { scope: null },
  free: true,
  answers: { 200: { description: 'The wallet of the key’s organisation.', schema: wallet } },
  async handle({ services, apiKey }) {
    return presentWallet(await services.wallets.view(apiKey.policy.organisationId))
  },
})

/** Presents a wallet, for every route that shows one. */
export function presentWallet(view: WalletView) {
  return {
    object: 'wallet',
    balance_usd: usdFromNano(view.balanceNano),
    available_usd: usdFromNano(view.availableNano),
    reserved_usd: usdFromNano(view.reservedNano),
    held_usd: usdFromNano(view.heldNano),
    held_release_at: view.heldReleaseAt?.toISOString() ?? null,
  }
}

/** A request just finished may not be logged yet: a lookup waits for it for at most this time. */
const maxLookups = 8
const lookupIntervalMs = 250

export const readGeneration = endpoint({
  method: 'get',
  path: '/v1/generation',
  operationId: 'getGeneration',
  tag: 'Wallet',
  summary: 'Retrieve a generation',
  description:
    'Looks up a request by the `x-generation-id` header of its response, or by the response’s own `id`. Live keys see live generations, test keys test ones.',
  access: { scope: '*' },
  free: true,
  query: z.strictObject({
    id: z.string().min(1).max(200).describe('The `x-generation-id` header, or the `id`, of a response.'),
  }),
  answers: { 200: { description: 'The generation: the request log’s record.', schema: generation } },
  errors: ['not_found'],
  async handle({ services, apiKey, query }) {
    const row = await findGeneration(services, apiKey.policy, query)
    if (row) return presentGeneration(row)
    throw new GatewayError('not_found', 'No such generation.', { param: 'id' })
  },
})

/**
 * Finds a request of a key's organisation and environment by its own id or its provider's, the newest of several; null if
 * there is none. Waits for one that is not logged yet.
 */
export async function findGeneration(
  { db }: Pick<Platform, 'db'>,
  { organisationId, environment }: Policy,
  { id, since }: { id: string; since?: Date },
): Promise<Generation | null> {
  const where = {
    organisationId,
    environment,
    OR: [{ id }, { upstreamId: id }],
    ...(since && { createdAt: { gte: since } }),
  }
  for (let lookups = 0; lookups < maxLookups; lookups++) {
    const row = await db.generation.findFirst({ where, orderBy: { createdAt: 'desc' } })
    if (row) return row
    await sleep(lookupIntervalMs)
  }
  return null
}

/** Presents a record of the request log, for every route that shows one. */
export function presentGeneration(row: Generation) {
  return {
    id: row.id,
    object: 'generation',
    upstream_id: row.upstreamId,
    request_id: row.requestId,
    created_at: row.createdAt.toISOString(),
    type: row.kind,
    environment: row.environment,
    model: row.model,
    provider: row.provider,
    mode: row.mode,
    status: row.status,
    error_code: row.errorCode,
    finish_reason: row.finishReason,
    streamed: row.streamed,
    cached: row.cached === true,
    attempts: row.attempts,
    usage: {
      prompt_tokens: row.promptTokens,
      completion_tokens: row.completionTokens,
      cached_tokens: row.cachedTokens,
      cache_write_tokens: row.cacheWriteTokens ?? 0,
      cache_write_1h_tokens: row.cacheWrite1hTokens ?? 0,
      reasoning_tokens: row.reasoningTokens,
      web_searches: row.webSearches ?? 0,
      service_tier: row.serviceTier ?? 'standard',
      estimated: row.estimated,
    },
    cost_usd: usdFromNano(row.costNano),
    cache_discount_usd: usdFromNano(row.cacheDiscountNano ?? 0n),
    is_byok: row.providerKeyId !== null,
    upstream_inference_cost: row.upstreamCostNano === null ? null : usdFromNano(row.upstreamCostNano),
    first_byte_ms: firstTokenMs(row),
    duration_ms: row.durationMs,
  }
}
