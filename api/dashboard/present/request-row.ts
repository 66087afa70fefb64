import { usdFromNano } from '../../../shared/base/money.ts'
import type { Generation, Prisma } from '../../../shared/generated/prisma/client.ts'
import type { RequestRow } from '../wire/requests.ts'
import { type Keys, presentWorkKey } from './work.ts'

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
    first_byte_ms: row.firstByteMs,
    duration_ms: row.durationMs,
    count: row.calls,
    end_user: row.endUser,
    session: row.session,
  }
}
