// What requests are attributed to by headers: tags and end users, in the request log and in usage.

import type { RequestDetail, RequestNeighbours, RequestsPage } from '../../api/dashboard/wire/requests.ts'
import type { UsageChart, UsageGroups } from '../../api/dashboard/wire/usage.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

let key: string
const ids: string[] = []

const body = (more: object = {}) => ({ model: 'gpt-5', messages: [{ role: 'user', content: 'Hello' }], ...more })

async function ask(headers: Record<string, string>, more: object = {}): Promise<void> {
  const answer = await gateway.fetch('/v1/chat/completions', { key, body: body(more), headers })
  await answer.text()
  ids.push(answer.headers.get('x-generation-id')!)
}

const gateway = useGateway(test)
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  key = await gateway.key(owner.organisationId, 'test')
  await ask({ 'x-gateway-tags': 'project:acme, env:prod', 'x-gateway-user': 'ada' }, { user: 'somebody' })
  await ask({ 'x-gateway-tags': 'project:acme' }, { metadata: { env: 'dev', project: 'other' } })
  await ask({}, { metadata: { project: 'zeta' }, user: 'bob' })
  await ask({})
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where: { id: { in: ids } } })) === 4, 'all are logged')
})

const read = <T>(path: string) => owner.visitor.json<T>(`${owner.base}${path}`)

test('headers add tags and the end user to a request, before what its body says', async t => {
  const [first, second] = await Promise.all(ids.map(id => read<RequestDetail>(`/requests/${id}`)))
  t.like(first, { end_user: 'ada', metadata: { project: 'acme', env: 'prod' } })
  t.like(second, { end_user: null, metadata: { project: 'acme', env: 'dev' } })
})

test('requests are logged and charged whatever the names in their metadata are', async t => {
  const { organisationId, test: own } = await gateway.account()
  const { db } = gateway.services
  // Names are truncated, which may cut a character in half.
  const metadata = { 'a\0b': 'c\0d', [`${'x'.repeat(63)}😀`]: 'y' }
  const message = body({ metadata })
  const line = { custom_id: 'a\0b', method: 'POST', url: '/v1/chat/completions', body: message }
  const calls: [path: string, body: object][] = [
    ['/v1/chat/completions', message],
    ['/v1/messages', { ...message, max_tokens: 64 }],
    ['/v1/responses', { model: 'gpt-5', input: 'Hello', metadata }],
    ['/v1/jobs', { body: message, completion_window: '1h' }],
    ['/v1/batches', { completion_window: '24h', requests: [line] }],
  ]
  for (const [path, sent] of calls) t.true((await gateway.fetch(path, { key: own, body: sent })).ok, path)
  const workers = startWorkers(gateway.services)
  t.teardown(() => workers.stop())
  const areOver = async () =>
    (await db.batch.count({ where: { organisationId, status: 'completed', completed: 1 } })) === 1 &&
    (await db.job.count({ where: { organisationId, status: 'completed' } })) === 1
  await eventually(areOver, 'the job and the batch are over')
  t.deepEqual(await gateway.settled(), [])
  const rows = await db.generation.findMany({ where: { organisationId } })
  t.is(rows.length, calls.length)
  for (const row of rows) t.is((row.metadata as Record<string, string>).ab, 'cd', row.kind)
})

test('requests are found by a tag, and have neighbours among those', async t => {
  const found = async (tag: string) => (await read<RequestsPage>(`/requests?tag=${tag}`)).data.map(({ id }) => id)
  t.deepEqual(await found('project:acme'), [ids[1], ids[0]])
  t.deepEqual(await found('env'), [ids[1], ids[0]])
  t.deepEqual(await found('project:none'), [])
  const neighbours = (id: string, query = '') => read<RequestNeighbours>(`/requests/${id}/neighbours${query}`)
  t.deepEqual(await neighbours(ids[1]!), { newer: ids[2], older: ids[0] })
  t.deepEqual(await neighbours(ids[1]!, '?tag=project:acme'), { newer: null, older: ids[0] })
})

test('usage is summed by tag, end user and member, on the pages and by the API', async t => {
  const groups = await read<UsageGroups>('/usage/groups?environment=test&by=tag&tag=project&then_by=end_user')
  const rows = groups.rows.map(({ groups: names, requests }) => [...names.map(({ id }) => id), requests])
  t.deepEqual(rows.sort(), [
    ['', '', 1],
    ['acme', '', 1],
    ['acme', 'ada', 1],
    ['zeta', 'bob', 1],
  ])
  const chart = await read<UsageChart>('/usage?environment=test&by=end_user&measure=requests')
  t.deepEqual(
    chart.series.map(({ id, total }) => [id, total]),
    [
      ['', 2],
      ['ada', 1],
      ['bob', 1],
    ],
  )
  const { secret } = await gateway.services.keys.createProvisioning(owner.organisationId, operatorActor)
  const usage = async (query: string) => {
    const answer = await gateway.fetch(`/api/v1/usage?${query}`, { key: secret })
    return { status: answer.status, ...((await answer.json()) as { data: Record<string, unknown>[]; error: object }) }
  }
  const byTag = await usage('granularity=total&group_by=tag&tag=project')
  t.deepEqual(byTag.data.map(({ tag, requests }) => [tag, requests]).sort(), [
    [null, 1],
    ['acme', 2],
    ['zeta', 1],
  ])
  const byMember = await usage('granularity=total&group_by=member')
  t.like(byMember.data[0], { member: null, requests: 4 })
  t.like((await usage('group_by=tag')).error, { param: 'tag' })
  t.like((await usage('group_by=end_user&from=2026-01-01T00:00:00Z')).error, { param: 'from' })
})

test('400 for tags that are no pairs, or too many or long ones', async t => {
  // Refusals are usage, too, which another test counts for its organisation.
  const { test: key } = await gateway.account()
  const tooMany = Array.from({ length: 17 }, (_, i) => `t${i}:1`).join(',')
  for (const tags of ['acme', 'project:', ':acme', tooMany, `a:${'x'.repeat(129)}`]) {
    const answer = await gateway.fetch('/v1/chat/completions', {
      key,
      body: body(),
      headers: { 'x-gateway-tags': tags },
    })
    t.is(answer.status, 400, tags)
    t.is(((await answer.json()) as { error: { param: string } }).error.param, 'x-gateway-tags')
  }
})
