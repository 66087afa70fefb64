import { csvLine } from '../../shared/base/csv.ts'
import { formatUsd } from '../../shared/base/money.ts'
import type { Generation, Prisma } from '../../shared/generated/prisma/client.ts'
import type { Services } from '../../shared/services.ts'
import { readWorkKeys } from './present/work.ts'

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
  costNano: true,
  firstByteMs: true,
  durationMs: true,
  overheadMs: true,
  endUser: true,
  session: true,
  requestId: true,
} satisfies Prisma.GenerationSelect
const names = [
  ...['id', 'created_at', 'type', 'environment', 'status', 'error_code', 'error_message', 'count', 'model', 'provider'],
  ...[
    'key',
    'streamed',
    'attempts',
    'prompt_tokens',
    'cached_tokens',
    'completion_tokens',
    'cost_usd',
    'first_byte_ms',
  ],
  ...['duration_ms', 'overhead_ms', 'end_user', 'session', 'request_id'],
]
const rowsPerPage = 1_000

/** Streams at most `max` requests as CSV, newest first, one page in memory at a time. */
export async function* requestsCsv(
  services: Services,
  where: Prisma.GenerationWhereInput,
  max: number,
): AsyncGenerator<string> {
  yield csvLine(names)
  let last: Pick<Generation, 'id' | 'createdAt'> | null = null
  for (let count = 0; count < max; count += rowsPerPage) {
    const beyond: Prisma.GenerationWhereInput = last
      ? { createdAt: { lte: last.createdAt }, OR: [{ createdAt: { lt: last.createdAt } }, { id: { lt: last.id } }] }
      : {}
    const rows = await services.db.generation.findMany({
      where: { AND: [where, beyond] },
      select: columns,
      orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
      take: rowsPerPage,
    })
    const keys = await readWorkKeys(services, rows)
    yield rows.map(row => lineOf(row, keys.get(row.keyId)?.name ?? null)).join('')
    if (rows.length < rowsPerPage) return
    last = rows.at(-1)!
  }
}

function lineOf(row: Pick<Generation, keyof typeof columns>, key: string | null): string {
  return csvLine([
    ...[row.id, row.createdAt.toISOString(), row.kind, row.environment, row.status, row.errorCode, row.errorMessage],
    ...[
      row.calls,
      row.model,
      row.provider,
      key,
      String(row.streamed),
      row.attempts,
      row.promptTokens,
      row.cachedTokens,
    ],
    ...[row.completionTokens, formatUsd(row.costNano), row.firstByteMs, row.durationMs, row.overheadMs, row.endUser],
    ...[row.session, row.requestId],
  ])
}
