import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { usdFromNano } from '../../shared/base/money.ts'
import type { Generation } from '../../shared/generated/prisma/client.ts'
import type { WalletView } from '../../shared/wallet/accounts.ts'
import { wallet } from '../account-answers.ts'
import { generation } from '../answers.ts'
import { endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'

export const balance = endpoint({
  method: 'get',
  path: '/v1/balance',
  operationId: 'getBalance',
  tag: 'Wallet',
  summary: 'Retrieve the balance',
  description: 'balance = available + reserved + held. New requests are checked against what is available.',
  access: { scope: null },
  answers: { 200: { description: 'The wallet of the key’s organisation.', schema: wallet } },
  async handle({ services, known, ctx }) {
    ctx.set(await admitFree(services, known))
    return walletJson(await services.accounts.view(known.policy.organisationId))
  },
})

/** A wallet as every route shows it. */
export function walletJson(view: WalletView) {
  return {
    object: 'wallet',
    balance_usd: usdFromNano(view.balanceNano),
    available_usd: usdFromNano(view.availableNano),
    reserved_usd: usdFromNano(view.reservedNano),
    held_usd: usdFromNano(view.heldNano),
    held_release_at: view.heldReleaseAt?.toISOString() ?? null,
  }
}

/** A request just finished may still be on its way to the log: so long, and no longer, a look-up waits for it. */
const looks = 8
const betweenLooksMs = 250

export const readGeneration = endpoint({
  method: 'get',
  path: '/v1/generation',
  operationId: 'getGeneration',
  tag: 'Wallet',
  summary: 'Retrieve a generation',
  description:
    'By the `x-generation-id` of an answer, or by the answer’s own `id`. Live keys find live generations, test keys test ones.',
  access: { scope: '*' },
  query: z.strictObject({
    id: z.string().min(1).max(200).describe('An `x-generation-id`, or the `id` of an answer.'),
  }),
  answers: { 200: { description: 'What the request log has.', schema: generation } },
  errors: ['not_found'],
  async handle({ services, known, query, ctx }) {
    ctx.set(await admitFree(services, known))
    const { organisationId, environment } = known.policy
    const where = { organisationId, environment, OR: [{ id: query.id }, { upstreamId: query.id }] }
    for (let look = 0; look < looks; look++) {
      const row = await services.db.generation.findFirst({ where, orderBy: { createdAt: 'desc' } })
      if (row) return generationJson(row)
      await sleep(betweenLooksMs)
    }
    throw new GatewayError('not_found', 'There is no such generation.', { param: 'id' })
  },
})

/** A line of the request log as every route shows it. */
export function generationJson(row: Generation) {
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
    attempts: row.attempts,
    usage: {
      prompt_tokens: row.promptTokens,
      completion_tokens: row.completionTokens,
      cached_tokens: row.cachedTokens,
      reasoning_tokens: row.reasoningTokens,
      estimated: row.estimated,
    },
    cost_usd: usdFromNano(row.costNano),
    first_byte_ms: row.firstByteMs,
    duration_ms: row.durationMs,
  }
}
