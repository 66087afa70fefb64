import type { RequestFilters, RequestViews } from '../../api/dashboard/wire/requests.ts'
import { newId } from '../../shared/base/ids.ts'
import type { Prisma } from '../../shared/generated/prisma/client.ts'
import { errorCode, join, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { requestLogRow } from '../support/wallet/request-log-row.ts'

/** The views of requests that members save, and the numbers beside the choices of filters. */

const gateway = useGateway(test, {})
const owner = use(test, () => signUp(gateway))

const viewsOf = async ({ visitor }: SignedUp, base: string) =>
  (await visitor.json<RequestViews>(`${base}/request-views`)).data
const save = ({ visitor }: SignedUp, base: string, body: object) => visitor.fetch(`${base}/request-views`, { body })

test('views are kept for each member, replaced by name, deleted, and gone with the membership', async t => {
  const { base, organisationId } = owner
  const grace = await signUp(gateway, { name: 'Grace' })
  await join(gateway, grace.userId, organisationId, 'member')
  const slow = { name: 'Slow / costly', query: 'min_duration_ms=5000&model=gpt-5' }
  t.is((await save(owner, base, slow)).status, 200)
  t.is((await save(owner, base, { name: 'Mine', query: '' })).status, 200)
  t.is((await save(grace, base, { name: 'Mine', query: 'status=502' })).status, 200)
  t.is((await save(owner, base, { ...slow, query: 'status=429' })).status, 200)
  t.deepEqual(await viewsOf(owner, base), [
    { ...slow, query: 'status=429' },
    { name: 'Mine', query: '' },
  ])
  t.deepEqual(await viewsOf(grace, base), [{ name: 'Mine', query: 'status=502' }])
  t.deepEqual(await viewsOf(grace, grace.base), [])
  const path = `${base}/request-views/${encodeURIComponent(slow.name)}`
  t.deepEqual((await owner.visitor.json<RequestViews>(path, { method: 'DELETE' })).data, [{ name: 'Mine', query: '' }])
  t.is(await errorCode(await owner.visitor.fetch(path, { method: 'DELETE' })), 'not_found')
  await gateway.services.db.membership.deleteMany({ where: { userId: grace.userId, organisationId } })
  t.is(await gateway.services.db.requestView.count({ where: { userId: grace.userId } }), 0)
})

test('400 for a view that has no name or too long a query; 422 or 429 beyond twenty, also at the same time', async t => {
  const ada = await signUp(gateway)
  for (const body of [
    { name: ' ', query: '' },
    { name: 'x'.repeat(41), query: '' },
    { name: 'a', query: 'x'.repeat(2_001) },
    { name: 'a' },
  ])
    t.is((await save(ada, ada.base, body)).status, 400, JSON.stringify(body).slice(0, 60))
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, i) => save(ada, ada.base, { name: `View ${i}`, query: '' })),
  )
  t.is(answers.filter(({ status }) => status === 200).length, 20)
  t.is(await errorCode(answers.find(({ status }) => status !== 200)!), 'quota_exceeded')
  const [{ name } = { name: '' }] = await viewsOf(ada, ada.base)
  t.is((await save(ada, ada.base, { name, query: 'status=ok' })).status, 200, 'one of them can still be replaced')
})

test('choices of filters have the number of requests that they find with the other filters', async t => {
  const ada = await signUp(gateway)
  const log = (count: number, fields: Partial<Prisma.GenerationCreateManyInput>) => {
    const row = requestLogRow({
      createdAt: new Date(Date.now() - 90_000),
      organisationId: ada.organisationId,
      ...fields,
    })
    const data = Array.from({ length: count }, () => ({ ...row, id: newId('chatcmpl') }))
    return gateway.services.db.generation.createMany({ data })
  }
  await log(5, {})
  await log(3, { status: 502 })
  await log(2, { status: 429, provider: null })
  await log(4, { model: 'grok-4', provider: 'xai', kind: 'messages', environment: 'test' })
  await log(7, { createdAt: new Date(Date.now() - 60 * 86_400_000) })
  const counts = async (query: string) =>
    (await ada.visitor.json<RequestFilters>(`${ada.base}/request-filters${query}`)).counts
  t.deepEqual(await counts(''), {
    model: { 'gpt-5': 10, 'grok-4': 4 },
    provider: { openai: 8, xai: 4 },
    type: { chat: 10, messages: 4 },
    status: { 429: 2, ok: 9, error: 5, failed: 3 },
  })
  t.deepEqual(await counts('?span=7d&model=gpt-5&status=error'), {
    model: { 'gpt-5': 5 },
    provider: { openai: 3 },
    type: { chat: 5 },
    status: { 429: 2, ok: 5, error: 5, failed: 3 },
  })
  t.deepEqual((await counts('?environment=test')).model, { 'grok-4': 4 })
  t.deepEqual((await counts('?span=90d')).model, { 'gpt-5': 17, 'grok-4': 4 })
  t.is((await ada.visitor.fetch(`${ada.base}/request-filters?span=2d`)).status, 400)
})
