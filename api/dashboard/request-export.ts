import { formatUsd, usdFromNano } from '../../shared/base/money.ts'
import type { Generation, Prisma } from '../../shared/generated/prisma/client.ts'
import type { Platform } from '../../shared/platform.ts'
import { firstTokenMs } from '../../shared/wallet/durations.ts'
import { orderBy } from './queries/request-search.ts'
import { readWorkKeys } from './queries/work.ts'
import type { ExportField } from './row-export.ts'

const columns = {
  id: true,
  createdAt: true,
  kind: true,
  environment: true,
  status: true,
  errorCode: true,
  errorMessage: true,
  calls: true,
  model: true,
  provider: true,
  keyId: true,
  streamed: true,
  attempts: true,
  promptTokens: true,
  cachedTokens: true,
  completionTokens: true,
  serviceTier: true,
  costNano: true,
  firstByteMs: true,
  durationMs: true,
  overheadMs: true,
  endUser: true,
  session: true,
  metadata: true,
  requestId: true,
} satisfies Prisma.GenerationSelect
type Row = Pick<Generation, keyof typeof columns> & { keyName: string | null }

/** Reads a page of the requests that match, newest first. */
export async function readExported(
  services: Platform,
  where: Prisma.GenerationWhereInput,
  last: Row | null,
  limit: number,
): Promise<Row[]> {
  const beyond: Prisma.GenerationWhereInput = last
    ? { createdAt: { lte: last.createdAt }, OR: [{ createdAt: { lt: last.createdAt } }, { id: { lt: last.id } }] }
    : {}
  const rows = await services.db.generation.findMany({
    where: { AND: [where, beyond] },
    select: columns,
    orderBy: orderBy({ sort: 'time', order: 'desc' }),
    take: limit,
  })
  const keys = await readWorkKeys(services, rows)
  return rows.map(row => ({ ...row, keyName: keys.get(row.keyId)?.name ?? null }))
}

/** The columns of the request log's exports. */
export const requestFields: readonly ExportField<Row>[] = [
  ['id', row => row.id],
  ['created_at', row => row.createdAt.toISOString()],
  ['type', row => row.kind],
  ['environment', row => row.environment],
  ['status', row => row.status],
  ['error_code', row => row.errorCode],
  ['error_message', row => row.errorMessage],
  ['count', row => row.calls],
  ['model', row => row.model],
  ['provider', row => row.provider],
  ['key', row => row.keyName],
  ['streamed', row => row.streamed],
  ['attempts', row => row.attempts],
  ['prompt_tokens', row => row.promptTokens],
  ['cached_tokens', row => row.cachedTokens],
  ['completion_tokens', row => row.completionTokens],
  ['service_tier', row => row.serviceTier],
  // A plain decimal in CSV, which numbers below a millionth are not as text.
  ['cost_usd', row => usdFromNano(row.costNano), row => formatUsd(row.costNano)],
  ['first_byte_ms', firstTokenMs],
  ['duration_ms', row => row.durationMs],
  ['overhead_ms', row => row.overheadMs],
  ['end_user', row => row.endUser],
  ['session', row => row.session],
  ['request_id', row => row.requestId],
  ['key_id', row => row.keyId],
  ['metadata', row => row.metadata, row => (row.metadata === null ? null : JSON.stringify(row.metadata))],
]
