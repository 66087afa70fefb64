import pg from 'pg'
import { runSearch } from '../../api/dashboard/queries/run-search.ts'
import type {
  RequestCount,
  RequestDetail,
  RequestFilters,
  RequestRow,
  RequestsPage,
} from '../../api/dashboard/wire/requests.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { failure, serverError } from '../emulators/openai.ts'
import { generationOf, saying, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { errorCode, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { answerOf, over, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

let owner: SignedUp
let stranger: SignedUp
let live: string
let other: string
const ids: Record<string, string> = {}

const chat = '/v1/chat/completions'
const tool = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }

/** One request of every sort, by two keys. */
const world = use(test, startWorld)
test.before(async () => {
  const { gateway, openai, openrouter } = world
  ;[owner, stranger] = [await signUp(gateway), await signUp(gateway)]
  const { organisationId } = owner
  await gateway.services.wallets.deposit({ organisationId, amountNano: 25_000_000_000n, method: 'grant' })
  live = await gateway.key(organisationId, 'live', { name: 'Live key' })
  other = await gateway.key(organisationId, 'test', { name: 'Test key' })
  const ask = async (name: string, key: string, path: string, body: object, headers: Record<string, string> = {}) => {
    const response = await gateway.fetch(path, { key, body, headers })
    await response.text()
    ids[name] = response.headers.get('x-generation-id')!
  }
  const settings = { temperature: 0.5, max_tokens: 64, tools: [tool], user: 'customer-7', metadata: { team: 'search' } }
  await ask('plain', live, chat, saying('gpt-5', 'Hello', settings), { 'x-session-id': 'conversation-1' })
  await ask('auto', live, chat, saying('auto', 'Hello'))
  openai.next(serverError)
  await ask('second', live, chat, saying('gpt-5-mini', 'Hello', { stream: true }))
  openai.next(failure(400, 'That is no prompt.', 'invalid_request_error', null))
  await ask('refused', live, chat, saying('gpt-5-nano', 'Hello'))
  for (const emulator of [openai, openrouter]) emulator.next(failure(401, 'No.', 'authentication_error', null))
  await ask('failed', live, chat, saying('gpt-5.1', 'Hello'))
  await ask('embedding', live, '/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello' })
  await ask('sandbox', other, chat, saying('gpt-5', 'Hello'))
  const workers = startWorkers(gateway.services)
  const job = await submit(gateway, '/v1/videos', other, { prompt: 'A heron' })
  await over(gateway, other, '/v1/videos', job.id)
  ids.job = job.id
  await workers.stop()
  for (const id of Object.values(ids)) await generationOf(world, id)
})

const nameOf = ({ id }: RequestRow) => Object.keys(ids).find(name => ids[name] === id)
const list = (query = '', { visitor, base } = owner) => visitor.json<RequestsPage>(`${base}/requests${query}`)
const read = (name: string) => owner.visitor.json<RequestDetail>(`${owner.base}/requests/${ids[name]}`)
const rowOf = (name: string) => generationOf(world, ids[name]!)

test('a request is found by every filter, and by the beginning of each of its ids', async t => {
  const [plain, embedding, failed] = await Promise.all([rowOf('plain'), rowOf('embedding'), rowOf('failed')])
  const failedText = failed.errorMessage!
  const soon = new Date(plain.createdAt.getTime() + 1).toISOString()
  const cases: [query: string, found: string[]][] = [
    ['?status=ok', ['auto', 'embedding', 'job', 'plain', 'sandbox', 'second']],
    ['?status=error', ['failed', 'refused']],
    ['?status=502', ['failed']],
    ['?status=invalid_request', ['refused']],
    ['?model=gpt-5', ['plain', 'sandbox']],
    ['?model=gpt-5&environment=live', ['plain']],
    ['?provider=openrouter&model=gpt-5-mini', ['second']],
    [`?key=${hashSecret(other)}`, ['job', 'sandbox']],
    [`?key=${plain.keyId}&type=embedding`, ['embedding']],
    ['?type=video', ['job']],
    ['?type=video&status=error', []],
    [`?model=${failed.model}&status=error`, ['failed']],
    ['?provider=nobody', []],
    ['?end_user=customer-7', ['plain']],
    ['?session=conversation-1&status=ok', ['plain']],
    ['?status=failed', ['failed']],
    ['?status=invalid', ['refused']],
    ['?status=refused', []],
    ['?error_code=invalid_request', ['refused']],
    ['?error_code=invalid_request&status=502', []],
    [`?error_message=${encodeURIComponent(failedText.slice(3, 30).toUpperCase())}`, ['failed']],
    ['?error_message=%25', []],
    ['?error_message=_', []],
    ['?min_input_tokens=1&min_output_tokens=1&type=embedding', []],
    ['?min_output_tokens=1&model=gpt-5-mini', ['second']],
    ['?min_input_tokens=1000000', []],
    ['?batch=batch_none', []],
    ['?min_duration_ms=86400000', []],
    ['?min_cost_usd=1000', []],
    ['?span=1h&type=video', ['job']],
    [`?q=${ids.plain}`, ['plain']],
    [`?q=${ids.plain!.slice(0, -3)}`, ['plain']],
    [`?q=${plain.requestId}`, ['plain']],
    [`?q=${plain.upstreamId!}&model=gpt-5&environment=live`, ['plain']],
    [`?q=${ids.plain}&from=${soon}`, []],
    [`?q=${newId('req')}`, []],
    [`?to=${plain.createdAt.toISOString()}`, ['plain']],
    [`?from=${embedding.createdAt.toISOString()}&type=embedding`, ['embedding']],
    [`?from=${new Date(Date.now() + dayMs).toISOString()}`, []],
    ['?from=0000-01-01T00:00:00Z&type=video', ['job']],
    ['?to=0000-01-01T00:00:00Z', []],
  ]
  for (const [query, found] of cases) {
    const { data } = await list(query)
    t.deepEqual(data.map(nameOf).sort(), found, query)
  }
  const { models, types, providers } = await owner.visitor.json<RequestFilters>(`${owner.base}/request-filters`)
  t.true(['gpt-5', 'gpt-5-mini', 'text-embedding-3-small'].every(model => models.includes(model)))
  t.deepEqual(types, ['chat', 'embedding', 'video'])
  t.true(providers.includes('openrouter'))
})

test('pages follow each other without a gap, also where times are the same', async t => {
  const { db } = world.gateway.services
  const account = await signUp(world.gateway)
  const base = await rowOf('plain')
  const at = Math.floor(Date.now() / 1_000) * 1_000 - 3_600_000
  const { routing: _, parameters: _parameters, metadata: _metadata, ...row } = base
  const data = Array.from({ length: 25 }, (_, i) => ({
    ...row,
    id: newId('chatcmpl'),
    organisationId: account.organisationId,
    createdAt: new Date(at - Math.floor(i / 4) * 1_500_000),
  }))
  await db.generation.createMany({ data })
  const newest = [...data].sort((a, b) => +b.createdAt - +a.createdAt || (a.id < b.id ? 1 : -1))
  // The second search reads only hours that have such requests.
  for (const filter of ['', `&model=${base.model}&status=ok`]) {
    const seen: RequestRow[] = []
    for (let after = ''; ; ) {
      const page = await list(`?limit=3${filter}${after}`, account)
      seen.push(...page.data)
      t.is(page.has_more, seen.length < 25)
      if (!page.has_more) break
      after = `&after=${page.last_id}`
    }
    t.deepEqual(
      seen.map(({ id }) => id),
      newest.map(({ id }) => id),
      filter,
    )
  }
})

test('requests are sorted by cost, duration and tokens, and pages follow each other in any order', async t => {
  const { data: all } = await list()
  const amounts: Record<string, (row: RequestRow) => number | string> = {
    time: row => row.created_at,
    cost: row => row.cost_usd,
    duration: row => row.duration_ms,
    input_tokens: row => row.prompt_tokens,
    output_tokens: row => row.completion_tokens,
  }
  const after = (a: number | string, b: number | string) => Number(a > b) - Number(a < b)
  for (const [sort, amountOf] of Object.entries(amounts)) {
    for (const sign of [1, -1]) {
      const sorted = [...all].sort(
        (a, b) => sign * (after(amountOf(a), amountOf(b)) || after(a.created_at, b.created_at) || after(a.id, b.id)),
      )
      const seen: RequestRow[] = []
      let page: RequestsPage | null = null
      do {
        const cursor: string = page ? `&after=${page.last_id}` : ''
        page = await list(`?limit=3&sort=${sort}&order=${sign > 0 ? 'asc' : 'desc'}${cursor}`)
        seen.push(...page.data)
      } while (page.has_more)
      t.deepEqual(seen.map(nameOf), sorted.map(nameOf), `${sort} ${sign}`)
    }
  }
})

test.serial('lines of a batch are found by its id, and of more than 10,000 requests no more are counted', async t => {
  const { db } = world.gateway.services
  const { organisationId, visitor, base } = await signUp(world.gateway)
  const { routing: _, parameters: _parameters, metadata: _metadata, ...row } = await rowOf('plain')
  const line = { ...row, id: newId('chatcmpl'), organisationId, routing: { batch: 'batch_large' } }
  await db.generation.createMany({
    data: [line, ...[1, 2].map(() => ({ ...line, id: newId('chatcmpl'), routing: { batch: 'batch_small' } }))],
  })
  for (let from = 1; from < 10_000; from += 2_000)
    await db.$executeRaw`
      INSERT INTO generations SELECT (jsonb_populate_record(line, jsonb_build_object('id', 'line-' || n))).*
      FROM generations line, generate_series(${from}::int, ${from + 1_999}::int) n WHERE id = ${line.id}`
  const count = (batch: string) => visitor.json<RequestCount>(`${base}/request-count?span=7d&batch=${batch}`)
  t.deepEqual(await count('batch_small'), { requests: 2, has_more: false })
  t.deepEqual(await count('batch_large'), { requests: 10_000, has_more: true })
  t.deepEqual(await visitor.json(`${base}/request-count?span=7d`), { requests: 10_003, has_more: false })
  t.is((await visitor.json<RequestsPage>(`${base}/requests?batch=batch_small`)).data.length, 2)
})

test('what is newer than a request is listed by its id, oldest first', async t => {
  const [plain, embedding] = await Promise.all([rowOf('plain'), rowOf('embedding')])
  const { data } = await list(`?order=asc&after=${plain.id}`)
  t.is(data.length, Object.keys(ids).length - 1)
  t.deepEqual(
    data.map(row => row.created_at),
    data.map(row => row.created_at).sort(),
  )
  const later = await list(`?order=asc&after=${embedding.id}&model=gpt-5&environment=test`)
  t.deepEqual(later.data.map(nameOf), ['sandbox'])
  t.deepEqual((await list(`?order=asc&after=${embedding.id}&model=gpt-5.1`)).data, [])
})

test('requests are counted, by the sums of usage where these know the filter', async t => {
  const counted = (query: string, { visitor, base } = owner) =>
    visitor.json<RequestCount>(`${base}/request-count${query}`)
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)
  const cases: [query: string, requests: number][] = [
    ['?span=7d', 8],
    ['', 8],
    [`?from=${new Date(+hour - 3_600_000).toISOString()}`, 8],
    [`?to=${new Date(+hour - 3_600_001).toISOString()}`, 0],
    ['?span=7d&model=gpt-5', 2],
    ['?span=7d&status=error&environment=live', 2],
    ['?span=7d&status=502', 1],
    ['?span=7d&end_user=customer-7', 1],
    [`?q=${ids.plain}`, 1],
  ]
  for (const [query, requests] of cases) t.deepEqual(await counted(query), { requests, has_more: false }, query)
  t.is((await counted('?span=7d', stranger)).requests, 0)
})

test('a request is shown with its calls, its decision, what it belongs to and what its tokens cost', async t => {
  const plain = await read('plain')
  t.like(plain, { status: 200, model: 'gpt-5', provider: 'openai', mode: 'balanced', routing: null, job_id: null })
  t.deepEqual(plain.parameters, { temperature: 0.5, max_tokens: 64, tools: 1 })
  t.deepEqual([plain.metadata, plain.end_user, plain.session], [{ team: 'search' }, 'customer-7', 'conversation-1'])
  t.true(Number.isInteger(plain.overhead_ms) && plain.overhead_ms! >= 0)
  t.like(plain.key, { name: 'Live key', last4: live.slice(-4) })
  t.like(plain.calls, [
    { provider: 'openai', model: 'gpt-5', status: 200, fault: null, duration_ms: plain.duration_ms },
  ])
  const sum = plain.cost_parts!.reduce((usd, { cost_usd }) => usd + cost_usd, 0)
  t.is(Number(sum.toFixed(9)), plain.cost_usd)
  t.deepEqual(
    plain.cost_parts!.map(({ part, tokens }) => [part, tokens]),
    [
      ['input', plain.usage.prompt_tokens],
      ['output', plain.usage.completion_tokens],
      ['margin', null],
    ],
  )
  const public_ = await answerOf(await world.gateway.fetch(`/v1/generation?id=${ids.plain}`, { key: live }))
  t.like(plain, { ...public_, object: undefined, attempts: public_.attempts })

  const auto = await read('auto')
  t.regex(auto.routing!.reason, /^auto, mode balanced/)
  t.like(auto.routing!.candidates[0], { model: auto.model, provider: auto.provider, excluded: null })
  t.deepEqual(
    (await read('second')).calls.map(({ provider, status, fault }) => [provider, status, fault]),
    [
      ['openai', 500, 'server_error'],
      ['openrouter', 200, null],
    ],
  )
  const failed = await read('failed')
  t.like(failed, { status: 502, error_code: 'upstream_error', error_param: null, cost_usd: 0, cost_parts: null })
  t.regex(failed.error_message!, /refused the gateway’s API key\. Tell the operator/)
  // What a provider says about the gateway's own account there is nothing for its callers.
  t.deepEqual(
    failed.calls.map(({ message }) => message),
    [null],
  )
  const { calls, duration_ms: durationMs } = await read('second')
  t.regex(calls[0]!.message!, /\w/)
  t.is(calls[1]!.message, null)
  let endMs = 0
  for (const { started_ms, pause, duration_ms } of calls) {
    // Clocks count whole milliseconds.
    t.true(started_ms! >= endMs + (pause?.ms ?? 0) - 2, JSON.stringify(calls))
    endMs = started_ms! + duration_ms
  }
  t.true(endMs <= durationMs + 1)
  const byRequestId = `/requests/${failed.request_id}`
  t.is((await owner.visitor.json<RequestDetail>(owner.base + byRequestId)).id, failed.id)
  t.is((await stranger.visitor.fetch(stranger.base + byRequestId)).status, 404)
  t.false(JSON.stringify(failed).includes(upstreamSecret))
  t.like(await read('job'), { job_id: ids.job, batch_id: null, type: 'video', environment: 'test' })
})

test('exported as CSV: what a search finds', async t => {
  const { visitor, base } = owner
  const answer = await visitor.fetch(`${base}/requests.csv?type=chat&model=gpt-5`)
  t.is(answer.headers.get('content-type'), 'text/csv; charset=utf-8')
  const [head, ...lines] = (await answer.text()).trimEnd().split('\r\n')
  t.regex(head!, /^id,created_at,type,environment,status,error_code,/)
  t.deepEqual(lines.map(line => Object.keys(ids).find(name => line.startsWith(`${ids[name]},`))).sort(), [
    'plain',
    'sandbox',
  ])
  t.true(lines.some(line => line.includes(',customer-7,conversation-1,')))
  // Two keys may have one name; tags are what costs are split by.
  t.regex(head!, /,request_id,key_id,metadata$/)
  const json = await visitor.fetch(`${base}/requests.jsonl?type=chat&model=gpt-5`)
  t.is(json.headers.get('content-type'), 'application/jsonl')
  t.regex(json.headers.get('content-disposition')!, /-requests-\d{4}-\d\d-\d\d-to-\d{4}-\d\d-\d\d\.jsonl/)
  const objects = (await json.text())
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, unknown>)
  t.is(objects.length, 2)
  t.deepEqual(Object.keys(objects[0]!), head!.split(','))
  const plain = await rowOf('plain')
  t.true(lines.some(line => line.endsWith(`,${plain.keyId},"{""team"":""search""}"`)))
  t.like(
    objects.find(({ id }) => id === ids.plain),
    { streamed: false, prompt_tokens: plain.promptTokens, end_user: 'customer-7', error_code: null },
  )
})

test('400 and 404 for what cannot be asked, and for what another organisation has', async t => {
  const { visitor, base } = stranger
  t.deepEqual((await list('', stranger)).data, [])
  t.deepEqual((await list(`?q=${ids.plain}`, stranger)).data, [])
  t.deepEqual(await visitor.json(`${base}/request-filters`).then(it => (it as RequestFilters).models), [])
  const row = await rowOf('plain')
  const cases: [path: string, status: number, code: string][] = [
    [`/requests/${ids.plain}`, 404, 'not_found'],
    [`/requests?after=${ids.plain}`, 404, 'not_found'],
    [`/requests?key=${row.keyId}`, 404, 'not_found'],
    ['/requests?from=yesterday', 400, 'invalid_request'],
    ['/requests?limit=101', 400, 'invalid_request'],
    ['/requests?sort=colour', 400, 'invalid_request'],
    [`/requests?sort=cost&after=${ids.plain}`, 404, 'not_found'],
    ['/requests?min_input_tokens=many', 400, 'invalid_request'],
    ['/request-count?limit=5', 400, 'unknown_field'],
    [`/request-count?key=${row.keyId}`, 404, 'not_found'],
    [`/requests.jsonl?key=${row.keyId}`, 404, 'not_found'],
    ['/requests.csv?sort=cost', 400, 'unknown_field'],
    ['/requests?colour=red', 400, 'unknown_field'],
  ]
  for (const [path, status, code] of cases) {
    const answer = await visitor.fetch(base + path)
    t.is(answer.status, status, path)
    t.is(await errorCode(answer), code, path)
  }
  await t.throwsAsync(
    runSearch(world.gateway.services.db, { ms: 5, param: 'from' }, null, tx => tx.$queryRaw`SELECT pg_sleep(5)::text`),
    { code: 'invalid_request', message: /shorter time/ },
  )
})

const month = new Date().toISOString().slice(0, 7)
const ledger = `billing/ledger.csv?from=${month}&to=${month}`
const exported = ['requests.csv', 'requests.jsonl', 'audit.csv', 'audit.jsonl', ledger]

async function exportStatus(path: string): Promise<number> {
  const answer = await owner.visitor.fetch(`${owner.base}/${path}`)
  await answer.text()
  return answer.status
}

/** Locks what exports read. `waiting` calls a function of PostgreSQL with the process of each query that waits. */
async function lockExported() {
  const locker = new pg.Client(world.gateway.services.config.databaseUrl)
  await locker.connect()
  await locker.query('BEGIN; LOCK TABLE generations, audit_events, ledger_entries IN ACCESS EXCLUSIVE MODE')
  const waiting = async (call: 'abs' | 'pg_cancel_backend') => {
    // A transaction sees no session that began after the first look.
    await locker.query('SELECT pg_stat_clear_snapshot()')
    const { rows } = await locker.query(
      `SELECT ${call}(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    return rows.length
  }
  return { waiting, unlock: () => locker.end() }
}

test.serial('exports leave connections to others, however many there are at once', async t => {
  const { waiting, unlock } = await lockExported()
  const exports = Promise.all(Array.from({ length: 20 }, (_, i) => exportStatus(exported[i % exported.length]!)))
  try {
    await eventually(async () => (await waiting('abs')) >= 2, 'exports wait for the tables')
    t.is((await owner.visitor.fetch(`${owner.base}/keys`)).status, 200)
  } finally {
    await unlock()
  }
  // On a slow machine a query may have waited for too long.
  for (const status of await exports) t.true(status === 200 || status === 503)
})

for (const path of exported)
  test.serial(`503 for an export whose first page takes too long: ${path.split('?')[0]}`, async t => {
    const { waiting, unlock } = await lockExported()
    try {
      const status = exportStatus(path)
      let isAnswered = false
      void status.finally(() => (isAnswered = true))
      let cancelled = 0
      const isOver = async () => {
        cancelled = await waiting('pg_cancel_backend')
        return cancelled > 0 || isAnswered
      }
      await eventually(isOver, 'the export waits for the tables')
      t.deepEqual({ status: await status, isCancelled: cancelled > 0 }, { status: 503, isCancelled: true })
    } finally {
      await unlock()
    }
  })

test.serial('a search is made however many of another organisation wait', async t => {
  const { db } = world.gateway.services
  let made = 0
  const search = (organisationId: string) =>
    runSearch(db, { ms: 5_000, param: 'from' }, organisationId, tx => tx.$queryRaw`SELECT pg_sleep(0.1)::text`)
  const many = Array.from({ length: 30 }, () => search('org_many').then(() => made++))
  await search('org_one')
  t.true(made < 20, `after ${made} of theirs`)
  await Promise.all(many)
})

test('searches leave connections to others, however many there are at once', async t => {
  const { db } = world.gateway.services
  let running = 0
  let max = 0
  const search = () =>
    runSearch(db, { ms: 5_000, param: 'from' }, null, async tx => {
      max = Math.max(max, ++running)
      await tx.$queryRaw`SELECT pg_sleep(0.1)::text`
      running--
    })
  await Promise.all(Array.from({ length: 12 }, search))
  t.true(max <= 3, `${max} at once`)
})
