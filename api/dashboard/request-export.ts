import { csvLine } from '../../shared/base/csv.ts'
import { formatUsd, usdFromNano } from '../../shared/base/money.ts'
import type { Generation, Prisma } from '../../shared/generated/prisma/client.ts'
import type { Services } from '../../shared/services.ts'
import { orderBy } from './present/request-order.ts'
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
type Row = Pick<Generation, keyof typeof columns>
const rowsPerPage = 1_000

export const exportFormats = {
  csv: { contentType: 'text/csv; charset=utf-8' },
  jsonl: { contentType: 'application/jsonl' },
}
export type ExportFormat = keyof typeof exportFormats

/** Streams at most `max` requests, newest first, one page in memory at a time. */
export async function* exportRequests(
  services: Services,
  where: Prisma.GenerationWhereInput,
  { format, max }: { format: ExportFormat; max: number },
): AsyncGenerator<string> {
  if (format === 'csv') yield csvLine(names)
  let last: Pick<Generation, 'id' | 'createdAt'> | null = null
  for (let count = 0; count < max; count += rowsPerPage) {
    const beyond: Prisma.GenerationWhereInput = last
      ? { createdAt: { lte: last.createdAt }, OR: [{ createdAt: { lt: last.createdAt } }, { id: { lt: last.id } }] }
      : {}
    const rows = await services.db.generation.findMany({
      where: { AND: [where, beyond] },
      select: columns,
      orderBy: orderBy({ sort: 'time', order: 'desc' }),
      take: rowsPerPage,
    })
    const keys = await readWorkKeys(services, rows)
    yield rows.map(row => lineOf(row, keys.get(row.keyId)?.name ?? null, format)).join('')
    if (rows.length < rowsPerPage) return
    last = rows.at(-1)!
  }
}

const fields: [name: string, read: (row: Row, key: string | null) => string | number | boolean | null][] = [
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
  ['key', (_, key) => key],
  ['streamed', row => row.streamed],
  ['attempts', row => row.attempts],
  ['prompt_tokens', row => row.promptTokens],
  ['cached_tokens', row => row.cachedTokens],
  ['completion_tokens', row => row.completionTokens],
  ['cost_usd', row => usdFromNano(row.costNano)],
  ['first_byte_ms', row => row.firstByteMs],
  ['duration_ms', row => row.durationMs],
  ['overhead_ms', row => row.overheadMs],
  ['end_user', row => row.endUser],
  ['session', row => row.session],
  ['request_id', row => row.requestId],
]
const names = fields.map(([name]) => name)

function lineOf(row: Row, key: string | null, format: ExportFormat): string {
  const values = fields.map(([name, read]) => [name, read(row, key)] as const)
  if (format === 'jsonl') return `${JSON.stringify(Object.fromEntries(values))}\n`
  const texts = values.map(([name, value]) => {
    // A plain decimal, which numbers below a millionth are not as text.
    if (name === 'cost_usd') return formatUsd(row.costNano)
    return typeof value === 'boolean' ? String(value) : value
  })
  return csvLine(texts)
}
