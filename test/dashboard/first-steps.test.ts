// What a new account can do before its email address is confirmed.

import type { FirstRequestAnswer } from '../../api/dashboard/wire/first-steps.ts'
import type { KeySecretAnswer } from '../../api/dashboard/wire/keys.ts'
import type { PlaygroundSecretAnswer } from '../../api/dashboard/wire/playground.ts'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { join, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

const gateway = useGateway(test)

const firstKey = ({ visitor, base }: SignedUp) => visitor.fetch(`${base}/first-key`, { method: 'POST' })
const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as ErrorBody
  return { status: response.status, code: error.code }
}
const unconfirmed = { status: 403, code: 'email_not_verified' } as const

test('an unconfirmed owner gets one test key, once, and its request is found', async t => {
  const owner = await signUp(gateway, { verified: false })
  const { visitor, base, organisationId } = owner
  const answers = await Promise.all([firstKey(owner), firstKey(owner), firstKey(owner)])
  t.deepEqual(answers.map(({ status }) => status).sort(), [201, 400, 400])
  const { data, key } = (await answers.find(({ status }) => status === 201)!.json()) as KeySecretAnswer
  t.like(data, { environment: 'test', rpm_limit: 20, tpm_limit: 40_000, mine: true, scopes: '*' })
  t.is(await gateway.services.db.apiKey.count({ where: { organisationId } }), 1)
  t.deepEqual(await visitor.json<FirstRequestAnswer>(`${base}/first-request`), { data: null })

  const body = { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }
  const secretPath = `${base}/keys/${data.hash}/playground-secret`
  const { secret } = await visitor.json<PlaygroundSecretAnswer>(secretPath, { method: 'POST' })
  for (const credential of [key, secret]) {
    const answer = await gateway.fetch('/v1/chat/completions', { key: credential, body })
    t.deepEqual([answer.status, answer.headers.get('x-sandbox')], [200, 'true'])
  }
  await gateway.settled()
  const latest = await gateway.services.db.generation.findFirstOrThrow({
    where: { organisationId },
    orderBy: { createdAt: 'desc' },
  })
  t.like(await visitor.json<FirstRequestAnswer>(`${base}/first-request`), { data: { id: latest.id } })
})

test('403 for everything that would get round the limits of an unconfirmed account', async t => {
  const owner = await signUp(gateway, { verified: false })
  const { visitor, base, userId } = owner
  const { data, key } = (await (await firstKey(owner)).json()) as KeySecretAnswer
  const path = `${base}/keys/${data.hash}`
  const refused = async (route: string, options: Parameters<typeof visitor.fetch>[1]) =>
    t.like(await errorOf(await visitor.fetch(route, options)), unconfirmed, route)
  await refused(path, { method: 'PATCH', body: { rpm_limit: 10_000 } })
  for (const environment of ['test', 'live']) await refused(`${base}/keys`, { body: { environment } })
  await refused(`${base}/top-ups`, { body: { amount_usd: 10 } })

  const rolled = await visitor.json<KeySecretAnswer>(`${path}/roll`, { method: 'POST' })
  t.like(rolled.data, { rpm_limit: 20, tpm_limit: 40_000 })
  t.is((await gateway.fetch('/v1/models', { key })).status, 401)
  await visitor.json(`${base}/keys/${rolled.data.hash}`, { method: 'DELETE' })
  t.is((await firstKey(owner)).status, 400, 'a revoked key is not replaced')
  const other = await visitor.json<{ id: string }>('/dashboard/api/auth/organization/create', {
    body: { name: 'Another', slug: crypto.randomUUID() },
  })
  const there = { ...owner, base: `/dashboard/api/organisations/${other.id}` }
  t.like(await errorOf(await firstKey(there)), unconfirmed)

  await gateway.services.db.user.update({ where: { id: userId }, data: { emailVerified: true } })
  t.is((await firstKey(there)).status, 201)
  const member = await signUp(gateway)
  await join(gateway, member.userId, other.id, 'admin')
  t.like(await errorOf(await firstKey({ ...member, base: there.base })), { status: 403, code: 'insufficient_role' })
})
