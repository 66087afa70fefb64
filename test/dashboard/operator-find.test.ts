import type { FindAnswer } from '../../api/dashboard/wire/operator-home.ts'
import { runCommand } from '../../api/operator/main.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

/** Operators find anything by its id, from anywhere. */

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
use(test, () => startWorkers(gateway.services))
const operator = use(test, () => signUp(gateway, { name: 'Op' }))
const customer = use(test, () => signUp(gateway, { name: 'Brightfin' }))
const account = use(test, () => gateway.account({ usd: '10', name: 'Production' }))

test.before(async () => {
  await gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
})

const find = async (text: string) =>
  (await operator.visitor.json<FindAnswer>(`/dashboard/api/operator/find?text=${encodeURIComponent(text)}`)).data
const post = async (path: string, body: object) => {
  const response = await gateway.fetch(path, { key: account.test, body })
  return { id: ((await response.json()) as { id: string }).id, request: response.headers.get('x-request-id')! }
}

test.serial(
  'a request is found by each of its ids, a job, a batch, a file, a key, an event and an endpoint by theirs',
  async t => {
    const { db } = gateway.services
    const { organisationId } = account
    const home = `/operator/organisations/${organisationId}`
    const chat = await post('/v1/chat/completions', {
      model: 'gpt-5-mini',
      messages: [{ role: 'user', content: 'Hello' }],
    })
    const where = { requestId: chat.request }
    await eventually(async () => (await db.generation.count({ where })) === 1, 'it is booked')
    const row = await db.generation.findFirst({ where })
    for (const id of [row!.id, row!.requestId])
      t.like(await find(id), [{ kind: 'Request', path: `${home}/requests/${row!.id}` }], id)
    const job = await post('/v1/videos', { prompt: 'A boat' })
    t.true(
      (await find(job.id)).some(({ path }) => path.startsWith(home)),
      job.id,
    )
    t.true(
      (await find(job.request)).some(({ path }) => path.startsWith(home)),
      job.request,
    )
    const key = await db.apiKey.findFirstOrThrow({ where: { organisationId } })
    t.like(await find(key.id), [{ kind: 'API key', path: `${home}/keys/${key.hash}` }])
    t.like(await find(key.hash), [{ kind: 'API key' }])
    const now = new Date()
    const made = { createdAt: now, updatedAt: now, enabledAt: now }
    await db.webhookEndpoint.create({
      data: { id: 'whe_found1', organisationId, url: 'https://hooks.example.com/s3cret', events: ['*'], ...made },
    })
    t.like(await find('whe_found1'), [{ kind: 'Webhook endpoint', label: 'hooks.example.com', path: home }])
    await db.webhookDelivery.create({
      data: {
        id: 'evt_found1',
        organisationId,
        type: 'alert.test',
        url: 'https://x.example',
        data: {},
        nextAttemptAt: now,
      },
    })
    t.like(await find('evt_found1'), [{ kind: 'Webhook event', path: home }])
    t.deepEqual(await find('chatcmpl-nothing123456'), [])
  },
)

test.serial(
  'people, organisations, models and providers are found by a part of their name; others find nothing',
  async t => {
    const { email } = customer.visitor
    t.like(await find(email), [{ kind: 'User', label: email }])
    t.true((await find('brightfin')).some(({ path }) => path === `/operator/organisations/${customer.organisationId}`))
    t.like(await find(customer.organisationId), [{ kind: 'Organisation' }])
    t.true((await find('gpt-5-mini')).some(({ kind }) => kind === 'Model'))
    t.true((await find('openai')).some(({ path }) => path === '/operator/providers/openai'))
    t.is((await operator.visitor.fetch('/dashboard/api/operator/find?text=a')).status, 400)
    t.not((await customer.visitor.fetch('/dashboard/api/operator/find?text=openai')).status, 200)
  },
)

test.serial('operator find prints what it is and its page; exit 1 when there is nothing', async t => {
  const { databaseUrl, redisUrl, publicUrl } = gateway.services.config
  const env = { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, PUBLIC_URL: publicUrl }
  const found = await runCommand(['find', account.organisationId], env)
  t.is(found.exitCode, 0, found.stderr)
  t.regex(found.stdout, new RegExp(`^Organisation .*\n.*/dashboard/operator/organisations/${account.organisationId}`))
  const none = await runCommand(['find', 'req_nothing123'], env)
  t.is(none.exitCode, 1)
  t.regex(none.stdout, /nothing has the id or name/)
  t.regex((await runCommand(['find'], env)).stderr, /--text is required/)
})
