import type { RequestCount, RequestDetail } from '../../api/dashboard/wire/requests.ts'
import type { Activity, Attention, Notice, UsageChart, UsageGroups, UsageRow } from '../../api/dashboard/wire/usage.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import type { Prisma } from '../../shared/generated/prisma/client.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { requestLogRow } from '../support/wallet/request-log-row.ts'

/** What the Overview and Usage pages show of the hours of usage. */

const nowMs = Date.parse('2026-11-21T14:20:00Z')
const hourMs = 3_600_000
let keyId: string
let key: string

const world = use(test, () => startWorld({}, { now: () => nowMs }))
const owner = use(test, () => signUp(world.gateway))
test.before(async () => {
  key = await world.gateway.key(owner.organisationId, 'live', { name: 'Shop', monthly_spend_cap_usd: 1 })
  keyId = await idOf(key)
  await log({ at: '2026-11-21T13:10:00Z', durationMs: 300, firstByteMs: 60, streamed: true }, 90)
  await log({ at: '2026-11-21T13:20:00Z', durationMs: 5_000, firstByteMs: 3_000, cachedTokens: 8 }, 10)
  await log({ at: '2026-11-21T14:15:00Z', status: 429, errorCode: 'rate_limit_exceeded', provider: null, calls: 40 }, 1)
  // An outage of three hours, a day ago.
  for (const hour of ['07', '08', '09'])
    await log({ at: `2026-11-20T${hour}:30:00Z`, status: 502, provider: 'anthropic', model: 'claude-haiku-4-5' }, 10)
  await log({ at: '2026-11-20T08:40:00Z', provider: 'anthropic', model: 'claude-haiku-4-5' }, 5)
})

const idOf = async (secret: string) =>
  (await world.gateway.services.db.apiKey.findFirstOrThrow({ where: { hash: hashSecret(secret) } })).id
const get = <T>(path: string, { visitor, base } = owner) => visitor.json<T>(base + path)

/** Writes rows of the request log that cost a cent each. */
async function log(
  { at, ...fields }: { at: string } & Partial<Prisma.GenerationCreateManyInput>,
  count: number,
  { organisationId } = owner,
) {
  const row = requestLogRow({
    createdAt: new Date(at),
    organisationId,
    keyId,
    promptTokens: 10,
    completionTokens: 5,
    costNano: 10_000_000n,
    durationMs: 100,
    ...fields,
  })
  await world.gateway.services.db.generation.createMany({
    data: Array.from({ length: count }, () => ({ ...row, id: newId('chatcmpl') })),
  })
}

test('outcomes, durations, tokens and cost by period, and the same time before', async t => {
  const { times, values, step_ms, total, before, environment } = await get<Activity>('/activity?span=24h')
  t.is(environment, 'live')
  t.is(step_ms, hourMs)
  t.is(times.length, 24)
  t.deepEqual([times[0], times.at(-1)], ['2026-11-20T15:00:00.000Z', '2026-11-21T14:00:00.000Z'])
  t.like(total, { requests: 140, ok: 100, rate_limited: 40, failed: 0, cached_tokens: 80, prompt_tokens: 1_010 })
  t.is(total.cost_usd, 1.01)
  t.like(total, { latency_p50_ms: 300, latency_p95_ms: 5_000 })
  t.like(total, { first_byte_p50_ms: 60, first_byte_p95_ms: 60 }, 'of what was streamed')
  t.like(values[22], { requests: 100, ok: 100 })
  t.like(values[23], { requests: 40, rate_limited: 40, latency_p50_ms: null })
  t.is(values[21], null)
  t.like(before, { requests: 35, failed: 30, ok: 5 })

  const week = await get<Activity>('/activity?span=7d')
  t.is(week.times.length, 42)
  t.like(week.total, { requests: 175, failed: 30 })
  const hour = await get<Activity>('/activity?span=1h')
  t.is(hour.step_ms, 300_000)
  t.is(hour.times.length, 12)
  // 13:25 to now, from the log: without what began at 13:20.
  t.like(hour.total, { requests: 40, rate_limited: 40 })
  const custom = await get<Activity>('/activity?from=2026-11-20T07:00:00Z&to=2026-11-20T10:00:00Z&provider=anthropic')
  t.like(custom.total, { requests: 35, failed: 30 })
  t.like((await get<Activity>(`/activity?span=7d&key=${keyId}&model=gpt-5&outcome=ok`)).total, { requests: 100 })
})

test('an organisation that only used test keys sees their requests', async t => {
  const other = await signUp(world.gateway)
  const secret = await world.gateway.key(other.organisationId, 'test')
  t.is((await get<Activity>('/activity', other)).environment, 'live')
  const answer = await world.gateway.fetch('/v1/chat/completions', { key: secret, body: saying('gpt-5') })
  await answer.text()
  await generationOf(world, answer.headers.get('x-generation-id')!)
  const { environment, total } = await get<Activity>('/activity', other)
  t.is(environment, 'test')
  t.is(total.requests, 1)
  t.is((await get<Activity>('/activity?environment=live', other)).total.requests, 0)
})

test('usage by two properties adds up, as rows and as CSV', async t => {
  const { rows, total } = await get<UsageGroups>('/usage/groups?span=7d&by=provider&then_by=outcome')
  t.deepEqual(
    rows.map(({ groups, requests }) => [...groups.map(({ name }) => name), requests]),
    [
      ['openai', 'ok', 100],
      ['anthropic', 'failed', 30],
      ['anthropic', 'ok', 5],
      ['No provider', 'rate_limited', 40],
    ],
  )
  t.is(
    rows.reduce((sum, row) => sum + row.requests, 0),
    total.requests,
  )
  const members = await get<UsageGroups>('/usage/groups?span=7d&by=member')
  t.deepEqual(
    members.rows.map(({ groups }) => groups[0]!.name),
    ['API or operator'],
  )
  const file = await owner.visitor.fetch(`${owner.base}/usage/groups.csv?span=7d&by=key&then_by=model`)
  t.regex(file.headers.get('content-disposition')!, /"[a-z0-9-]+-usage-\d{4}-\d\d-\d\d-to-\d{4}-\d\d-\d\d\.csv"$/)
  const [head, first] = (await file.text()).split('\r\n')
  t.regex(head!, /^start,key,model,requests,ok,/)
  t.regex(head!, /,requests_before,cost_usd_before,key_id$/)
  t.regex(first!, /^,Shop,gpt-5,140,100,.*,0,0,\w+$/)
  t.is((await owner.visitor.fetch(`${owner.base}/usage/groups?by=key&then_by=key`)).status, 400)
})

test('groups are compared with the same time before', async t => {
  const { rows, before } = await get<UsageGroups>('/usage/groups?span=24h&by=provider')
  const byName = (all: UsageRow[]) => all.map(row => [row.groups[0]!.id, row.requests, row.before]).sort()
  t.deepEqual(byName(rows), [
    ['', 40, { requests: 0, cost_usd: 0 }],
    ['openai', 100, { requests: 0, cost_usd: 0 }],
  ])
  t.deepEqual(before, { requests: 35, cost_usd: 0.35 })
  const outage = 'from=2026-11-20T08:00:00Z&to=2026-11-20T09:00:00Z'
  const hour = await get<UsageGroups>(`/usage/groups?${outage}&by=model`)
  t.like(hour.rows[0], { requests: 15, start: null, end: null, before: { requests: 10, cost_usd: 0.1 } })
})

test('usage is rolled up by hour, day, week and month, as a chart, rows and files', async t => {
  const periods = async (query: string) => {
    const { series, times } = await get<UsageChart>(`/usage?by=environment&measure=requests&${query}`)
    return times.map((time, i) => [time.slice(0, 13), series[0]?.values[i] ?? 0])
  }
  const since = 'from=2026-11-20T08:00:00Z'
  t.deepEqual(await periods(`${since}&granularity=day`), [
    ['2026-11-20T00', 35],
    ['2026-11-21T00', 140],
  ])
  t.deepEqual(await periods(`${since}&granularity=week`), [['2026-11-16T00', 175]])
  t.deepEqual(
    (await periods('from=2026-09-15T00:00:00Z&granularity=month')).map(([time]) => time),
    [...['2026-09-01T00', '2026-10-01T00', '2026-11-01T00']],
  )
  t.is((await periods(`${since}&granularity=hour`)).length, 31)
  const path = `/usage/groups?${since}&by=provider&granularity=hour`
  const { rows, before, total } = await get<UsageGroups>(path)
  t.deepEqual(
    rows.map(({ start, end, groups, requests }) => [start!.slice(5, 16), end!.slice(5, 16), groups[0]!.id, requests]),
    [
      ['11-21T14:00', '11-21T14:20', '', 40],
      ['11-21T13:00', '11-21T14:00', 'openai', 100],
      ['11-20T09:00', '11-20T10:00', 'anthropic', 10],
      ['11-20T08:00', '11-20T09:00', 'anthropic', 15],
    ],
  )
  t.is(before, null)
  t.is(total.requests, 165)
  const file = async (format: string) => {
    const answer = await owner.visitor.fetch(owner.base + path.replace('groups', `groups.${format}`))
    return (await answer.text()).trimEnd().split(/\r?\n/)
  }
  const [head, ...lines] = await file('csv')
  t.regex(head!, /^start,provider,requests,ok,/)
  t.is(lines.length, 4)
  t.regex(lines[1]!, /^2026-11-21T13:00:00.000Z,openai,100,100,/)
  const objects = (await file('jsonl')).map(line => JSON.parse(line) as Record<string, unknown>)
  t.like(objects[1], { start: rows[1]!.start, provider: { id: 'openai', name: 'openai' }, requests: 100, before: null })
  for (const query of ['span=90d&granularity=hour', 'granularity=year'])
    t.is((await owner.visitor.fetch(`${owner.base}/usage/groups?${query}`)).status, 400, query)
})

test('an outage, a key at its cap, rate limits and credits that run out need attention', async t => {
  const { services } = world.gateway
  const { organisationId } = owner
  await services.db.keySpend.create({ data: { keyId, month: '2026-11', spentNano: 1_000_000_000n } })
  await world.gateway.key(organisationId, 'live', { name: 'Old', expires_in_days: 3 })
  for (let i = 0; i < 3; i++) {
    const url = 'https://hooks.example/failing'
    const at = new Date(nowMs - hourMs)
    const delivery = { id: newId('evt'), organisationId, type: 'job.completed', url, data: {} }
    await services.db.webhookDelivery.create({
      data: { ...delivery, status: 'failed', nextAttemptAt: at, createdAt: at },
    })
  }
  const { notices, over } = await get<Attention>('/attention?span=7d')
  const of = <K extends Notice['kind']>(kind: K) => notices.filter(notice => notice.kind === kind)
  t.deepEqual(of('failing'), [])
  t.deepEqual(over, [
    {
      kind: 'failing',
      provider: 'anthropic',
      from: '2026-11-20T07:30:00.000Z',
      to: '2026-11-20T09:30:00.000Z',
      failed: 30,
      requests: 35,
    },
  ])
  t.like(of('key_cap')[0], { key: { name: 'Shop' }, spent_usd: 1, cap_usd: 1 })
  t.like(of('key_expiry')[0], { key: { name: 'Old' } })
  t.like(of('rate_limited')[0], { key: { name: 'Shop' }, refused: 40, requests: 50 }, 'in the last hour')
  t.like(of('webhook')[0], { url: 'https://hooks.example/failing', failed: 3 })
  t.like(of('credits')[0], { days: 0 })
  t.deepEqual((await get<Attention>('/attention?span=1h')).over, [])
  const stranger = await signUp(world.gateway)
  t.deepEqual(await get<Attention>('/attention?span=90d', stranger), { notices: [], over: [] })
  await services.db.keySpend.deleteMany({ where: { keyId } })
})

test('times are whole periods, however odd the clock', async t => {
  const { from, times } = await get<Activity>('/activity?span=90d')
  t.is(times.length, 90)
  t.is(from, new Date(Date.parse('2026-11-21') - 89 * dayMs).toISOString())
})

test('an outage is current from its first failure until the provider answers again', async t => {
  const other = await signUp(world.gateway)
  const add = (at: string, status: number, count: number) =>
    log({ at: `2026-11-21T${at}Z`, status, provider: 'openai' }, count, other)
  const outages = async () => {
    const { notices, over } = await get<Attention>('/attention?span=24h', other)
    return { now: notices.filter(({ kind }) => kind === 'failing'), over }
  }
  await add('13:10:00', 200, 40)
  await add('13:31:20', 502, 3)
  await add('14:12:30', 503, 2)
  const failing = { kind: 'failing', provider: 'openai', from: '2026-11-21T13:31:20.000Z', to: null }
  t.like(await outages(), { now: [{ ...failing, failed: 5, requests: 5 }], over: [] }, 'in no hour a quarter, or five')
  await add('14:13:00', 502, 10)
  t.like(await outages(), { now: [{ ...failing, failed: 15, requests: 15 }], over: [] })
  await add('14:14:00', 200, 4)
  t.is((await outages()).now.length, 1, 'four answers may be luck')
  await add('14:15:00', 200, 1)
  t.deepEqual(await outages(), {
    now: [],
    over: [
      {
        kind: 'failing',
        provider: 'openai',
        failed: 12,
        requests: 17,
        from: '2026-11-21T14:12:30.000Z',
        to: '2026-11-21T14:13:00.000Z',
      },
    ],
  })
})

test('an answered request is its own median and 95th percentile, and without a stream has no first token', async t => {
  const other = await signUp(world.gateway)
  const secret = await world.gateway.key(other.organisationId, 'test')
  const send = async (stream: boolean) => {
    const body = { ...saying('gpt-5'), stream }
    const answer = await world.gateway.fetch('/v1/chat/completions', { key: secret, body })
    await answer.text()
    return generationOf(world, answer.headers.get('x-generation-id')!)
  }
  const figures = async () => (await get<Activity>('/activity?span=24h&environment=test', other)).total
  const row = await send(false)
  t.not(row.firstByteMs, null)
  const { durationMs: ms } = row
  t.like(await figures(), { latency_p50_ms: ms, latency_p95_ms: ms, first_byte_p50_ms: null, first_byte_p95_ms: null })
  const shown = await get<RequestDetail>(`/requests/${row.id}`, other)
  t.is(shown.first_byte_ms, null)
  const listed = await world.gateway.fetch(`/v1/generation?id=${row.id}`, { key: secret })
  t.is(((await listed.json()) as { first_byte_ms: unknown }).first_byte_ms, null)
  const file = await other.visitor.fetch(`${other.base}/requests.csv`)
  const [head, line] = (await file.text()).split('\r\n').map(text => text.split(','))
  t.is(line![head!.indexOf('first_byte_ms')], '')

  const streamed = await send(true)
  t.like(await figures(), { first_byte_p50_ms: streamed.firstByteMs, first_byte_p95_ms: streamed.firstByteMs })
  t.is((await get<RequestDetail>(`/requests/${streamed.id}`, other)).first_byte_ms, streamed.firstByteMs)
})

test('a chart counts what its list has: every status, and times within an hour', async t => {
  const statuses = ['ok', 'error', 'refused', 'invalid', 'failed', '429', '499']
  const times = ['span=7d', 'from=2026-11-20T08:35:00Z&to=2026-11-21T13:15:00Z', 'from=2026-11-21T13:15:00Z']
  for (const time of [...times, 'from=2026-11-20T07:29:59Z&to=2026-11-20T07:30:01Z'])
    for (const status of [undefined, ...statuses]) {
      const query = `${time}${status === undefined ? '' : `&status=${status}`}`
      const { total, values } = await get<Activity>(`/activity?environment=all&${query}`)
      const { requests } = await get<RequestCount>(`/request-count?${query}`)
      t.is(total.requests, requests, query)
      t.is(
        values.reduce((sum, one) => sum + (one?.requests ?? 0), 0),
        requests,
        query,
      )
    }
  const errors = await get<Activity>('/activity?environment=all&span=24h&status=error')
  t.like(errors.total, { ok: 0, rate_limited: 40, requests: 40 })
  t.is((await owner.visitor.fetch(`${owner.base}/activity?status=418`)).status, 400)
})
