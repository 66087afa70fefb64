import type { RequestCount, RequestNeighbours, RequestsPage } from '../../../api/dashboard/wire/requests.ts'
import { newId } from '../../../shared/base/ids.ts'
import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import { startWorld } from '../../support/chat/gateway.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Searches read the hours that may have matches. They find what a search of all rows would. */

type Row = Prisma.GenerationCreateManyInput & { createdAt: Date; costNano: bigint }
const nowMs = Date.parse('2026-11-21T14:20:00Z')
const hourMs = 3_600_000
const hours = 12 * 24
let rows: Row[]

const world = use(test, () => startWorld({}, { now: () => nowMs }))
const owner = use(test, () => signUp(world.gateway))
test.before(async () => {
  const stranger = await signUp(world.gateway)
  rows = Array.from({ length: 400 }, () => drawRow(owner.organisationId))
  const others = Array.from({ length: 100 }, () => drawRow(stranger.organisationId))
  const { db } = world.gateway.services
  await db.generation.createMany({ data: [...rows, ...others] })
  // A refund leaves the peak of its hour as it was.
  const refunded = rows.filter(({ costNano }) => costNano > 900_000_000n).slice(0, 3)
  for (const row of refunded) row.costNano = 0n
  await db.generation.updateMany({ where: { id: { in: refunded.map(({ id }) => id!) } }, data: { costNano: 0n } })
})

/** The same numbers in every run. */
let seed = 11
function draw(below: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
  return Math.floor((seed / 2 ** 31) * below)
}
const pick = <T>(values: readonly T[]): T => values[draw(values.length)]!

/** Most figures are small, some large. */
function drawRow(organisationId: string): Row {
  const small = draw(30) > 0
  return {
    id: newId('chatcmpl'),
    requestId: newId('req'),
    organisationId,
    keyId: 'key',
    kind: pick(['chat', 'chat', 'image']),
    createdAt: new Date(nowMs - draw(hours) * hourMs - pick([20 * 60_000, draw(hourMs)])),
    environment: pick(['live', 'live', 'test'] as const),
    model: draw(40) === 0 ? 'rare' : 'gpt-5',
    provider: 'openai',
    status: pick([200, 200, 200, 429, 502]),
    streamed: false,
    attempts: 1,
    cachedTokens: 0,
    reasoningTokens: 0,
    estimated: false,
    waiver: 'no_price',
    metadata: { team: pick(['a', 'b']) },
    calls: draw(20) === 0 ? 2 : 1,
    costNano: BigInt(draw(small ? 1_000 : 1_000_000_000)),
    durationMs: draw(small ? 100 : 100_000),
    promptTokens: draw(small ? 10 : 10_000),
    completionTokens: draw(small ? 10 : 10_000),
  }
}

type Search = Record<string, string | number | undefined>

function drawSearch(): Search {
  const fromMs = nowMs - draw(hours) * hourMs
  return {
    ...(draw(2) === 0 && {
      from: new Date(fromMs).toISOString(),
      to: new Date(fromMs + draw(hours) * hourMs).toISOString(),
    }),
    ...(draw(4) === 0 && { model: 'rare' }),
    ...(draw(4) === 0 && { environment: pick(['live', 'test']) }),
    ...(draw(4) === 0 && { type: 'image' }),
    ...(draw(4) === 0 && { status: pick(['ok', 'error', 'failed', '502']) }),
    ...(draw(5) === 0 && { tag: 'team:a' }),
    ...(draw(2) === 0 && { min_cost_usd: pick([0, 0.0000005, 0.5, 0.95, 5]) }),
    ...(draw(3) === 0 && { min_duration_ms: pick([50, 20_000, 1_000_000]) }),
    ...(draw(5) === 0 && { min_input_tokens: pick([5, 5_000]) }),
    ...(draw(5) === 0 && { min_output_tokens: pick([5, 5_000]) }),
  }
}

const statuses: Record<string, (status: number) => boolean> = {
  ok: status => status < 400,
  error: status => status >= 400,
  failed: status => status >= 500,
  '502': status => status === 502,
}

const figures: Record<string, (row: Row) => number> = {
  cost: row => Number(row.costNano),
  duration: row => row.durationMs,
  input_tokens: row => row.promptTokens,
  output_tokens: row => row.completionTokens,
}

/** What a search finds, newest first. */
function expected(search: Search): Row[] {
  const { from, to, status, ...least } = search
  const [fromMs, toMs] = from ? [Date.parse(String(from)), Date.parse(String(to))] : [0, nowMs]
  return rows
    .filter(
      row =>
        +row.createdAt >= fromMs &&
        +row.createdAt <= toMs &&
        (status === undefined || statuses[status]!(row.status)) &&
        (search.model === undefined || row.model === search.model) &&
        (search.environment === undefined || row.environment === search.environment) &&
        (search.type === undefined || row.kind === search.type) &&
        (search.tag === undefined || (row.metadata as { team: string }).team === 'a') &&
        Number(row.costNano) >= Number(least.min_cost_usd ?? 0) * 1e9 &&
        row.durationMs >= Number(least.min_duration_ms ?? 0) &&
        row.promptTokens >= Number(least.min_input_tokens ?? 0) &&
        row.completionTokens >= Number(least.min_output_tokens ?? 0),
    )
    .sort((a, b) => +b.createdAt - +a.createdAt || (a.id! < b.id! ? 1 : -1))
}

async function get<T>(path: string, search: Search): Promise<T> {
  const asked = new URLSearchParams()
  for (const [name, value] of Object.entries(search)) if (value !== undefined) asked.set(name, String(value))
  return owner.visitor.json<T>(`${owner.base}/${path}?${asked}`)
}

/** All pages of a search. */
async function listAll(search: Search): Promise<string[]> {
  const ids: string[] = []
  for (let after: string | undefined; ; after = ids.at(-1)) {
    const page = await get<RequestsPage>('requests', { ...search, limit: 60, after })
    ids.push(...page.data.map(({ id }) => id))
    if (!page.has_more) return ids
  }
}

test('every page of any search has what the search of all rows finds, in any order, as its count and neighbours do', async t => {
  let found = 0
  for (let i = 0; i < 30; i++) {
    const search = drawSearch()
    const said = JSON.stringify(search)
    const wanted = expected(search)
    const ids = wanted.map(({ id }) => id!)
    found += ids.length
    const order = pick(['asc', 'desc'])
    t.deepEqual(await listAll({ ...search, order }), order === 'asc' ? ids.toReversed() : ids, said)
    const requests = wanted.reduce((sum, row) => sum + row.calls!, 0)
    t.deepEqual(await get<RequestCount>('request-count', search), { requests, has_more: false }, said)
    const [sort, figureOf] = pick(Object.entries(figures))
    const largest = wanted.toSorted((a, b) => figureOf(b) - figureOf(a))
    t.deepEqual(
      await listAll({ ...search, sort }),
      largest.map(({ id }) => id),
      said,
    )
    const at = draw(ids.length)
    if (ids.length === 0) continue
    const neighbours = { newer: ids[at - 1] ?? null, older: ids[at + 1] ?? null }
    t.deepEqual(await get<RequestNeighbours>(`requests/${ids[at]}/neighbours`, search), neighbours, said)
  }
  t.true(found > 150)
})
