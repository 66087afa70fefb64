import { usageList } from '../../api/schemas/usage.ts'
import { newId } from '../../shared/base/ids.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { failure } from '../emulators/openai.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { chargedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** GET /api/v1/usage: what an organisation used, for its own books. */

let organisationId: string
let live: string
let provisioning: string
const nowMs = Date.parse('2026-11-18T12:30:00Z')
let hoursAgo = 0

const world = use(test, () => startWorld({}, { now: () => nowMs - hoursAgo * 3_600_000 }))
test.before(async () => {
  const { gateway, openai } = world
  ;({ organisationId, live } = await gateway.account({ usd: '20' }))
  provisioning = await provisioningKey(gateway, organisationId)
  const other = await gateway.key(organisationId, 'live', { name: '=Other, key' })
  const sandbox = await gateway.key(organisationId, 'test')
  const ask = async (key: string, body: object) => (await gateway.fetch('/v1/chat/completions', { key, body })).text()
  for (hoursAgo of [30, 5, 0]) await ask(live, saying('gpt-5-mini'))
  await ask(other, saying('gpt-5', 'Hello', { stream: true }))
  openai.next(failure(400, 'No.', 'invalid_request_error', null))
  await ask(other, saying('gpt-5'))
  await ask(other, { model: 'gpt-5' })
  await ask(sandbox, saying('gpt-5'))
  await gateway.services.refusalLog.flush()
  await gateway.settled()
})

async function usage(query = '', key = provisioning) {
  const response = await world.gateway.fetch(`/api/v1/usage${query}`, { key })
  const body = (await response.json()) as { has_more?: boolean; error: { param: string } }
  return { status: response.status, body, ...(response.ok && { rows: usageList.parse(body).data }) }
}
const rowsOf = async (query: string) => (await usage(query)).rows!

test('what every period and group cost adds up to what was charged', async t => {
  const charged = await chargedNano(world, { organisationId, live, test: live })
  for (const query of [
    '',
    '?granularity=hour&group_by=model',
    '?granularity=week&group_by=key,outcome',
    '?granularity=month&group_by=provider,type',
    '?granularity=total&environment=live',
  ]) {
    const rows = await rowsOf(query)
    t.is(Math.round(rows.reduce((sum, { cost_usd }) => sum + cost_usd, 0) * 1e9), charged, query)
    for (const { requests, ok, cancelled, rate_limited, refused, invalid, failed } of rows)
      t.is(requests, ok + cancelled + rate_limited + refused + invalid + failed)
  }
  t.deepEqual(
    (await rowsOf('?granularity=day')).map(({ start, requests }) => [start, requests]),
    [
      ['2026-11-17T00:00:00.000Z', 1],
      ['2026-11-18T00:00:00.000Z', 6],
    ],
  )
  const byKey = await rowsOf('?granularity=total&group_by=key&environment=live')
  t.deepEqual(
    byKey.map(({ key, requests, invalid }) => [key?.name, requests, invalid]).sort(),
    [
      ['=Other, key', 3, 2],
      ['live key', 3, 0],
    ].sort(),
  )
  const mine = await rowsOf(`?granularity=total&key=${hashSecret(live)}`)
  t.like(mine[0], { start: null, requests: 3, ok: 3 })
  t.true(mine[0]!.prompt_tokens > 0 && mine[0]!.latency_p50_ms !== null)
  t.deepEqual((await rowsOf('?granularity=total&model=gpt-5&provider=openai&type=chat'))[0]?.requests, 3)
})

test('listed in pages, and as CSV: usage by hour and model', async t => {
  const all = await rowsOf('?granularity=hour&group_by=model')
  const [first, second] = await Promise.all([
    usage('?granularity=hour&group_by=model&limit=2'),
    usage('?granularity=hour&group_by=model&limit=100&offset=2'),
  ])
  t.true(first.body.has_more)
  t.false(second.body.has_more)
  t.deepEqual([...first.rows!, ...second.rows!], all)
  const response = await world.gateway.fetch('/api/v1/usage?format=csv&granularity=total&group_by=key', {
    key: provisioning,
  })
  t.is(response.headers.get('content-type'), 'text/csv; charset=utf-8')
  const lines = (await response.text()).trimEnd().split('\r\n')
  t.regex(lines[0]!, /^start,key,requests,ok,.*,cost_usd,/)
  t.is(lines.length, 4)
  // A name cannot become a formula.
  t.true(
    lines.some(line => line.startsWith(`,"'=Other, key",3,`)),
    lines.join('\n'),
  )
})

test('400 for what is no usage, 404 for a key of others, nothing of other organisations', async t => {
  const cases: [query: string, status: number, param: string][] = [
    ['?group_by=colour', 400, 'group_by'],
    ['?group_by=key,model,type', 400, 'group_by'],
    ['?group_by=key,key', 400, 'group_by'],
    ['?granularity=minute', 400, 'granularity'],
    ['?from=yesterday', 400, 'from'],
    ['?from=2026-11-18T00:00:00Z&to=2026-11-17T00:00:00Z', 400, 'to'],
    ['?limit=100000', 400, 'limit'],
    [`?key=${hashSecret(newId('key'))}`, 404, 'hash'],
  ]
  for (const [query, status, param] of cases) {
    const answer = await usage(query)
    t.is(answer.status, status, query)
    if (status === 400) t.is(answer.body.error.param.replace('?', ''), param, query)
  }
  const stranger = await world.gateway.account()
  const theirs = await provisioningKey(world.gateway, stranger.organisationId)
  t.deepEqual((await usage('?granularity=total', theirs)).rows, [])
  t.is((await usage(`?key=${hashSecret(live)}`, theirs)).status, 404)
  t.is((await usage('', live)).status, 403)
})
