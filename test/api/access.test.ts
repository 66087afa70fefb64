// Every route of the API against every kind of caller that must not use it, and against those whom its things do not belong to.
// New routes are covered by being in the table.

import type { Access, Endpoint } from '../../api/endpoint.ts'
import { endpoints } from '../../api/routes/index.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { keyPatch } from '../../shared/keys/key-requests.ts'
import { scopes } from '../../shared/keys/policy.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { setSuspension } from '../../shared/keys/suspensions.ts'
import { errorIn, provisioningKey } from '../support/api/edge.ts'
import { exampleRequest } from '../support/api/openapi-examples.ts'
import { keepingAccount } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let provisioning: string

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
const account = use(test, () => keepingAccount({ gateway }))
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})

const nameOf = ({ method, path }: Endpoint) => `${method.toUpperCase()} ${path}`
const scopeOf = (access: Access) => (typeof access === 'object' && 'scope' in access ? access.scope : undefined)
const namesOf = (matches: (access: Access) => boolean) =>
  endpoints
    .filter(({ access }) => matches(access))
    .map(nameOf)
    .sort()

/** Calls a route; `ids`: the values of its path. Answers the status and the error's code. */
async function ask(
  endpoint: Endpoint,
  key: string,
  { ids = {}, body, query = '' }: { ids?: Record<string, string>; body?: unknown; query?: string } = {},
): Promise<[status: number, code: string | null]> {
  const path = endpoint.path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? 'none') + query
  const sent = endpoint.method === 'get' || endpoint.method === 'delete' ? undefined : (body ?? {})
  const response = await gateway.fetch(path, { key, method: endpoint.method.toUpperCase(), body: sent })
  const text = await response.text()
  return [response.status, response.ok ? null : errorIn(response, text).code]
}

test.serial('these routes need no key, and these any key', t => {
  t.deepEqual(
    namesOf(access => access === 'public'),
    [
      'GET /files/{key}',
      'GET /healthz',
      'GET /openapi.json',
      'GET /readyz',
      'POST /callbacks/{id}/{token}',
      'POST /callbacks/{provider}',
      'POST /webhooks/stripe',
    ],
  )
  t.deepEqual(
    namesOf(access => scopeOf(access) === null).filter(name => !name.endsWith('/models')),
    [
      'GET /v1/avatars',
      'GET /v1/avatars/voices',
      'GET /v1/balance',
      'GET /v1/models/{model}',
      'GET /v1beta/models/{model}',
    ],
  )
})

test.serial('403 insufficient_scope on exactly the routes that a scope does not name', async t => {
  for (const scope of scopes) {
    const key = await gateway.key(account.organisationId, 'test', { scopes: scope })
    for (const endpoint of endpoints) {
      const needed = scopeOf(endpoint.access)
      if (needed === undefined) continue
      const [, code] = await ask(endpoint, key)
      const mayCall = needed === null || scope === '*' || scope === needed
      t.is(code === 'insufficient_scope', !mayCall, `${nameOf(endpoint)} with ${scope}: ${code}`)
    }
  }
})

test.serial(
  'a key that may call nothing is refused on every route, and each route takes its kind of key alone',
  async t => {
    const { services } = gateway
    const made = () => gateway.key(account.organisationId, 'test')
    const [revoked, disabled] = [await made(), await made()]
    await services.keys.revoke(null, hashSecret(revoked), operatorActor)
    await services.keys.patch(null, hashSecret(disabled), keyPatch.parse({ disabled: true }), operatorActor)
    const expired = await gateway.key(account.organisationId, 'test', { expires_at: '2020-01-01T00:00:00Z' })
    const suspended = await gateway.account()
    const theirs = await provisioningKey(gateway, suspended.organisationId)
    await setSuspension(services, suspended.organisationId, 'fraud', operatorActor)
    const refused: [key: string, code: string][] = [
      [revoked, 'revoked_api_key'],
      [disabled, 'revoked_api_key'],
      [expired, 'expired_api_key'],
      [suspended.test, 'organisation_suspended'],
      [suspended.live, 'organisation_suspended'],
      [provisioning, 'wrong_key_type'],
    ]
    for (const endpoint of endpoints.filter(({ access }) => access !== 'public')) {
      const isStandard = endpoint.access !== 'provisioning'
      const cases = isStandard
        ? refused
        : [
            [theirs, 'organisation_suspended'],
            [account.live, 'wrong_key_type'],
          ]
      for (const [key, code] of cases) t.is((await ask(endpoint, key!))[1], code!, nameOf(endpoint))
    }
  },
)

/** One thing of each kind that has a route of its own, made by the test key: the ids of its routes. */
async function makeThings(): Promise<[prefix: string, ids: Record<string, string>][]> {
  const made = async (path: string, body: unknown, key = account.test) => {
    const response = await gateway.fetch(path, { key, body })
    return (await response.json()) as { id: string; data: { id: string; hash: string } }
  }
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob(['{}\n']), 'requests.jsonl')
  const headers = { authorization: `Bearer ${account.test}` }
  const file = (await (await fetch(`${gateway.url}/v1/files`, { method: 'POST', headers, body: form })).json()) as {
    id: string
  }
  const items = [{ type: 'message', role: 'user', content: 'Hello' }]
  const { id: conversation } = await made('/v1/conversations', { items })
  const listed = await gateway.fetch(`/v1/conversations/${conversation}/items`, { key: account.test })
  const { data } = (await listed.json()) as { data: { id: string }[] }
  const background = { model: 'gpt-4o-mini', input: 'Hello', background: true }
  const key = await made('/api/v1/keys', { environment: 'test' }, provisioning)
  const hook = await made('/api/v1/webhook-endpoints', { url: `${gateway.url}/hook`, events: ['*'] }, provisioning)
  await made('/api/v1/presets/support', { model: 'gpt-4o-mini' }, provisioning)
  const ownKey = { provider: 'magic_hour', name: 'Own', secret: 'mhk_live_0123456789' }
  const providerKey = await made('/api/v1/provider-keys', ownKey, provisioning)
  const exported = { name: 'Log', kind: 'https', url: `${gateway.url}/hook`, streams: ['requests'] }
  const logExport = await made('/api/v1/log-exports', exported, provisioning)
  const message = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }
  const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: message }
  const queued = endpoints.filter(({ path, method }) => method === 'post' && `${path}/{id}/cancel` in routes)
  const jobs = queued.map(async ({ path, example }): Promise<[string, Record<string, string>]> => {
    const { body } = await exampleRequest('application/json', example)
    const { id } = await made(path, path === '/v1/responses' ? background : JSON.parse(String(body)))
    return [path, { id }]
  })
  return [
    ['/v1/conversations', { id: conversation, item: data[0]!.id }],
    ['/v1/files', { id: file.id }],
    ['/v1/batches', { id: (await made('/v1/batches', { completion_window: '24h', requests: [line] })).id }],
    ['/api/v1/keys', { hash: key.data.hash }],
    ['/api/v1/webhook-endpoints', { id: hook.data.id }],
    ['/api/v1/presets', { name: 'support' }],
    ['/api/v1/provider-keys', { id: providerKey.data.id }],
    ['/api/v1/log-exports', { id: logExport.data.id, replay: 'replay_none' }],
    ...(await Promise.all(jobs)).filter(([path]) => path !== '/v1/batches'),
  ]
}

const routes = Object.fromEntries(endpoints.map(endpoint => [endpoint.path, endpoint]))

test.serial(
  '404 for the things of another organisation and of the other environment, and lists do not begin at them',
  async t => {
    const stranger = await keepingAccount({ gateway })
    const theirs = await provisioningKey(gateway, stranger.organisationId)
    const things = await makeThings()
    const idsOf = ({ path }: Endpoint) =>
      things.find(([prefix]) => path.startsWith(`${prefix}/`) || path === prefix)?.[1]
    const bodies: Record<string, unknown> = {
      'POST /v1/conversations/{id}': { metadata: {} },
      'POST /api/v1/presets/{name}/current': { version: 1 },
      'PATCH /api/v1/provider-keys/{id}': { name: 'New' },
      'PATCH /api/v1/log-exports/{id}': { name: 'New' },
      'POST /api/v1/log-exports/{id}/replays': { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' },
      'POST /v1/conversations/{id}/items': { items: [{ type: 'message', role: 'user', content: 'Hello' }] },
    }
    const ofThings = endpoints.filter(
      ({ access, path }) => access !== 'public' && path.includes('{') && !path.includes('{model}'),
    )
    t.true(ofThings.length > 40)
    /** These are about what the organisation of the key has by a name, or shall have. */
    const byName = ({ path, method }: Endpoint) =>
      path.startsWith('/api/v1/budgets/') || (method === 'post' && path === '/api/v1/presets/{name}')
    for (const endpoint of ofThings.filter(one => !byName(one))) {
      const ids = idsOf(endpoint)
      t.truthy(ids, nameOf(endpoint))
      const others = endpoint.access === 'provisioning' ? [theirs] : [stranger.test, stranger.live, account.live]
      for (const key of others) {
        const answer = await ask(endpoint, key, { ids: ids!, body: bodies[nameOf(endpoint)] })
        t.deepEqual(answer, [404, 'not_found'], nameOf(endpoint))
      }
      if (endpoint.method !== 'get' || endpoint.path.endsWith('/content')) continue
      // Its owner finds it: the 404 is about whose it is.
      const own = endpoint.access === 'provisioning' ? provisioning : account.test
      t.is((await ask(endpoint, own, { ids: ids! }))[0], 200, nameOf(endpoint))
    }
    const lists = endpoints.filter(({ query, path }) => query && 'after' in query.shape && !path.includes('{'))
    t.true(lists.length > 8)
    for (const endpoint of lists) {
      const id = Object.values(idsOf(endpoint)!)[0]!
      const others = endpoint.access === 'provisioning' ? [theirs] : [stranger.test, account.live]
      for (const key of others) {
        const path = `${endpoint.path}?after=${id}&order=asc`
        const { data = [] } = (await (await gateway.fetch(path, { key })).json()) as { data?: unknown[] }
        t.deepEqual(data, [], path)
      }
    }
  },
)
