import { key as recordSchema } from '../../api/schemas/account.ts'
import { page } from '../../api/schemas/core.ts'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import type { KeyRecord } from '../../shared/keys/keys.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const upstream = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }))

type Page = { data: KeyRecord[]; has_more: boolean; first_id: string | null; last_id: string | null }

/** A new organisation without keys, as the holder of its provisioning key sees it. */
async function tenant() {
  const { organisationId } = await gateway.account()
  await gateway.services.db.apiKey.deleteMany({ where: { organisationId } })
  const { secret, id } = await gateway.services.keys.createProvisioning(organisationId, operatorActor)
  const ask = async <T>(method: string, path = '', body?: unknown) => {
    const response = await gateway.fetch(`/api/v1/keys${path}`, { method, key: secret, body })
    return { status: response.status, body: (await response.json()) as T }
  }
  return {
    organisationId,
    provisioning: { id, secret },
    create: async (fields: object = {}) => {
      const { status, body } = await ask<{ data: KeyRecord; key: string }>('POST', '', fields)
      if (status !== 201) throw new Error(JSON.stringify(body))
      return body
    },
    one: (method: string, path: string, body?: unknown) => ask<{ data: KeyRecord; key: string }>(method, path, body),
    list: (query = '') => ask<Page>('GET', query),
    refused: async (method: string, path: string, body?: unknown) => {
      const answer = await ask<ErrorBody>(method, path, body)
      return { status: answer.status, ...answer.body.error }
    },
  }
}

const policy = {
  mode: 'quality',
  rpm_limit: 60,
  tpm_limit: 90_000,
  monthly_spend_cap_usd: 12.345678901,
  model_allowlist: ['gpt-4o', 'gpt-4o-mini'],
  scopes: 'chat,embeddings',
  denied_service_tiers: ['flex'],
}

test('201 with the defaults of every field, and the secret this once', async t => {
  const { create, one } = await tenant()
  const { data, key } = await create()
  recordSchema.parse(data)
  t.regex(key, /^svc_sk_live_[0-9A-Za-z]{32,}$/)
  const { created_at, updated_at, ...fixed } = data
  t.deepEqual(fixed, {
    hash: hashSecret(key),
    name: 'live key',
    environment: 'live',
    mode: 'balanced',
    rpm_limit: null,
    tpm_limit: null,
    monthly_spend_cap_usd: null,
    model_allowlist: null,
    scopes: '*',
    learning: true,
    cache: null,
    guardrails: null,
    denied_service_tiers: null,
    provider: null,
    own_keys: 'shared',
    expires_at: null,
    prefix: key.slice(0, 16),
    last4: key.slice(-4),
    status: 'active',
    status_reason: null,
    spend_month_usd: 0,
    last_used_at: null,
    previous_secret_last4: null,
    previous_secret_valid_until: null,
  })
  t.is(created_at, new Date(created_at).toISOString())
  t.is(updated_at, new Date(updated_at).toISOString())
  const read = await one('GET', `/${data.hash}`)
  t.is(read.status, 200)
  t.deepEqual(read.body, { data } as never)
})

test('201 with every field as it was given, for a live and a test key', async t => {
  const { create } = await tenant()
  for (const environment of ['live', 'test']) {
    const { data, key } = await create({ ...policy, name: 'Mine', environment, expires_in_days: 30 })
    t.true(key.startsWith(`svc_sk_${environment}_`))
    t.like(data, { ...policy, name: 'Mine', environment, status: 'active' })
    const days = (Date.parse(data.expires_at!) - Date.parse(data.created_at)) / 86_400_000
    t.true(Math.abs(days - 30) < 0.01)
  }
  const { data } = await create({ expires_at: '2099-01-01T01:00:00+01:00', rpm_limit: 0, model_allowlist: null })
  t.like(data, { expires_at: '2099-01-01T00:00:00.000Z', rpm_limit: null, model_allowlist: null })
})

test('200 with pages by age, forwards and backwards, also after a key of a page’s end was revoked', async t => {
  const { create, list, one } = await tenant()
  t.deepEqual((await list()).body, {
    object: 'list',
    data: [],
    has_more: false,
    first_id: null,
    last_id: null,
  } as never)
  const made: string[] = []
  for (let i = 0; i < 5; i++) made.push((await create({ name: `Key ${i}` })).data.hash)
  const newest = made.toReversed()
  const first = await list('?limit=2')
  page(recordSchema, 'ApiKeyList').parse(first.body)
  t.deepEqual(
    first.body.data.map(({ hash }) => hash),
    newest.slice(0, 2),
  )
  t.like(first.body, { object: 'list', has_more: true, first_id: newest[0], last_id: newest[1] })
  t.is((await one('DELETE', `/${newest[1]}`)).status, 200)
  const second = await list(`?limit=2&after=${newest[1]}`)
  t.deepEqual(
    second.body.data.map(({ hash }) => hash),
    newest.slice(2, 4),
  )
  const last = await list(`?limit=2&after=${newest[3]}`)
  t.like(last.body, { has_more: false, first_id: newest[4], last_id: newest[4] })
  const hashes = async (query: string) => (await list(query)).body.data.map(({ hash }) => hash)
  t.deepEqual(
    await hashes('?order=asc'),
    made.filter(hash => hash !== newest[1]),
  )
  t.deepEqual(
    await hashes('?include_revoked=false'),
    newest.filter(hash => hash !== newest[1]),
  )
  t.deepEqual(await hashes('?include_revoked=true'), newest)
  t.deepEqual(await hashes(`?include_revoked=true&order=asc&after=${made[2]}`), made.slice(3))
})

test('400 naming the field for a bad query, 404 for an unknown place to start', async t => {
  const { refused } = await tenant()
  for (const [query, param] of [
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=x', 'limit'],
    ['order=up', 'order'],
    ['include_revoked=yes', 'include_revoked'],
    [`after=${'a'.repeat(65)}`, 'after'],
  ])
    t.like(await refused('GET', `?${query}`), { status: 400, code: 'invalid_request', param })
  t.like(await refused('GET', '?page=2'), { status: 400, code: 'unknown_field', param: 'page' })
  t.like(await refused('GET', `?after=${'a'.repeat(64)}`), { status: 404, code: 'not_found' })
})

test('200 with what was patched and nothing else changed; null clears a limit', async t => {
  const { create, one } = await tenant()
  const { data } = await create()
  const patched = await one('PATCH', `/${data.hash}`, { ...policy, name: 'Mine', expires_at: '2099-01-01T00:00:00Z' })
  t.is(patched.status, 200)
  t.false('key' in patched.body)
  const { updated_at, ...rest } = patched.body.data
  const { updated_at: created, ...before } = data
  t.true(updated_at >= created)
  t.deepEqual(rest, { ...before, ...policy, name: 'Mine', expires_at: '2099-01-01T00:00:00.000Z' } as never)
  const { body } = await one('PATCH', `/${data.hash}`, {
    rpm_limit: null,
    tpm_limit: 0,
    monthly_spend_cap_usd: null,
    model_allowlist: null,
    denied_service_tiers: null,
    expires_at: null,
  })
  t.deepEqual({ ...body.data, updated_at }, {
    ...before,
    updated_at,
    mode: 'quality',
    scopes: policy.scopes,
    name: 'Mine',
  } as never)
  t.is((await one('PATCH', `/${data.hash}`, { disabled: true })).body.data.status, 'revoked')
  t.is((await one('GET', `/${data.hash}`)).body.data.status, 'revoked')
  t.is((await one('PATCH', `/${data.hash}`, { disabled: false })).body.data.status, 'active')
  t.is((await one('PATCH', `/${data.hash}`, { expires_at: '2020-01-01T00:00:00Z' })).body.data.status, 'expired')
})

test('400 unknown_field or invalid_request naming the field, and nothing is changed', async t => {
  const { create, refused, one, list } = await tenant()
  const { data } = await create()
  for (const [method, path] of [
    ['POST', ''],
    ['PATCH', `/${data.hash}`],
  ] as const) {
    for (const field of ['color', 'hash', 'spend_month_usd', 'status', '__proto__x'])
      t.like(await refused(method, path, { [field]: 1 }), { status: 400, code: 'unknown_field', param: field })
    for (const [field, value] of [
      ['mode', 'fast'],
      ['rpm_limit', -1],
      ['rpm_limit', '60'],
      ['tpm_limit', 1.5],
      ['monthly_spend_cap_usd', -0.01],
      ['model_allowlist', 'gpt-4o'],
      ['scopes', 'chat,root'],
      ['scopes', ''],
      ['expires_at', 'tomorrow'],
      // Postgres has no year 0, and of later years than 9999 other programs cannot read the text.
      ['expires_at', '0000-01-01T00:00:00Z'],
      ['expires_at', '0001-01-01T00:00:00+00:01'],
      ['expires_at', '9999-12-31T23:59:59-00:01'],
      ['name', ''],
      ['name', 'a key\nrevoked: no'],
      ['name', 'key \u202eyxorp'],
    ] as const)
      t.like(await refused(method, path, { [field]: value }), { status: 400, code: 'invalid_request', param: field })
    t.like(await refused(method, path, '['), { status: 400, code: 'invalid_json' })
  }
  t.like(await refused('POST', '', { environment: 'dev' }), { status: 400, param: 'environment' })
  t.like(await refused('POST', '', { expires_in_days: 0 }), { status: 400, param: 'expires_in_days' })
  t.like(await refused('POST', '', { expires_in_days: 1, expires_at: '2099-01-01T00:00:00Z' }), {
    status: 400,
    param: 'expires_in_days',
  })
  t.like(await refused('PATCH', `/${data.hash}`, { environment: 'test' }), { status: 400, code: 'unknown_field' })
  t.deepEqual((await one('GET', `/${data.hash}`)).body.data, data)
  t.is((await list()).body.data.length, 1)
})

test('200 with a new secret and hash after a roll; policy, spend and age stay', async t => {
  const { create, one, refused } = await tenant()
  const { data, key } = await create({ ...policy, name: 'Mine' })
  const { status, body } = await one('POST', `/${data.hash}/roll`)
  t.is(status, 200)
  t.not(body.key, key)
  t.is(body.data.hash, hashSecret(body.key))
  t.like(body.data, {
    ...policy,
    name: 'Mine',
    created_at: data.created_at,
    status: 'active',
    last4: body.key.slice(-4),
  })
  for (const path of [`/${data.hash}`, `/${data.hash}/roll`])
    t.is((await refused(path.endsWith('roll') ? 'POST' : 'GET', path)).status, 404)
  t.is((await one('GET', `/${body.data.hash}`)).status, 200)
})

test('200 deleted, again and again; a deleted key can be read but not changed', async t => {
  const { create, one, refused } = await tenant()
  const { data } = await create()
  for (let i = 0; i < 2; i++) {
    const { status, body } = await one('DELETE', `/${data.hash}`)
    t.is(status, 200)
    t.deepEqual(body as unknown, { data: { hash: data.hash, deleted: true } })
  }
  t.is((await one('GET', `/${data.hash}`)).body.data.status, 'revoked')
  t.like(await refused('PATCH', `/${data.hash}`, { disabled: false }), { status: 404, code: 'not_found' })
  t.like(await refused('POST', `/${data.hash}/roll`), { status: 404, code: 'not_found' })
})

test('404 for another organisation’s key and for what is no hash', async t => {
  const [mine, theirs] = [await tenant(), await tenant()]
  const { data } = await theirs.create()
  for (const hash of [data.hash, 'a'.repeat(64), 'short', '%20', "'--"]) {
    const calls = [
      mine.refused('GET', `/${hash}`),
      mine.refused('PATCH', `/${hash}`, { name: 'Stolen' }),
      mine.refused('POST', `/${hash}/roll`),
      mine.refused('DELETE', `/${hash}`),
    ]
    for (const answer of await Promise.all(calls)) t.like(answer, { status: 404, code: 'not_found' }, hash)
  }
  t.deepEqual((await theirs.one('GET', `/${data.hash}`)).body.data, data)
  t.like(await mine.refused('GET', `?after=${data.hash}`), { status: 404 })
  t.deepEqual((await mine.list()).body.data, [])
})

test('200 with the month’s spend right after a request, and when the key was last used', async t => {
  const { create, one } = await tenant()
  const { data, key } = await create()
  const startedMs = Date.now()
  let spent = 0
  for (let i = 0; i < 3; i++) {
    const response = await gateway.fetch('/v1/chat/completions', {
      key,
      body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] },
    })
    spent += ((await response.json()) as { usage: { cost: number } }).usage.cost
  }
  t.true(spent > 0)
  await gateway.services.admission.flush()
  const rounded = Number(spent.toFixed(9))
  t.is((await one('GET', `/${data.hash}`)).body.data.spend_month_usd, rounded)
  const used = async () => (await one('GET', `/${data.hash}`)).body.data
  await eventually(async () => (await used()).last_used_at !== null, 'the key’s use is booked')
  t.deepEqual(await gateway.settled(), [])
  const record = await used()
  t.is(record.spend_month_usd, rounded)
  const usedMs = Date.parse(record.last_used_at!)
  t.true(usedMs >= startedMs && usedMs <= Date.now())
  const { body } = await one('POST', `/${data.hash}/roll`)
  t.like(body.data, { spend_month_usd: rounded, last_used_at: record.last_used_at })
})

test('401 for a provisioning key that is unknown or revoked; those of other organisations work', async t => {
  const { organisationId, provisioning, refused } = await tenant()
  const other = await tenant()
  const { keys } = gateway.services
  const { secret } = await keys.createProvisioning(organisationId, operatorActor)
  t.is(await keys.revokeProvisioning(organisationId, operatorActor, other.provisioning.id), 0)
  t.is(await keys.revokeProvisioning(organisationId, operatorActor, provisioning.id), 1)
  t.like(await refused('GET', ''), { status: 401, code: 'revoked_api_key' })
  t.is((await gateway.fetch('/api/v1/keys', { key: secret })).status, 200)
  t.is(await keys.revokeProvisioning(organisationId, operatorActor), 1)
  t.is((await gateway.fetch('/api/v1/keys', { key: secret })).status, 401)
  t.is((await other.list()).status, 200)
  const unknown = await gateway.fetch('/api/v1/keys', { key: `svc_pk_${'a'.repeat(40)}` })
  t.is(unknown.status, 401)
  t.is(unknown.headers.get('www-authenticate'), 'Bearer')
})
