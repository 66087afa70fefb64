import { responsesReply } from '../../emulators/openai-responses.ts'
import { provisioningKey } from '../../support/api/edge.ts'
import { keepingAccount, startWorld } from '../../support/responses/world.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

let key: string
let provisioning: string

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '', ALLOW_PRIVATE_URLS: 'true', LOG_LEVEL: 'fatal' }))
test.before(async () => {
  const account = await keepingAccount(world)
  key = account.live
  provisioning = await provisioningKey(world.gateway, account.organisationId)
})

/** Long enough for a file in storage. */
const long = 'long '.repeat(60_000)
const message = (id: string) => ({ type: 'message', id, role: 'user', content: long })
const rounds = 8

type Call = { method?: string; path: string; body?: unknown; key?: string }
/** What is deleted: how one is made, its path, and what may be asked of it meanwhile. */
type Resource = { create(): Promise<string>; path(id: string): string; key(): string; asked(id: string): Call[] }

async function send({ path, ...call }: Call): Promise<{ status: number; text: string }> {
  const response = await world.gateway.fetch(path, { key, ...call })
  return { status: response.status, text: await response.text() }
}

async function made(path: string, body: unknown, secret = key, field = (json: { id: string }) => json.id) {
  const { status, text } = await send({ path, body, key: secret })
  if (status >= 300) throw new Error(`${path}: ${status} ${text.slice(0, 300)}`)
  return field(JSON.parse(text))
}

const respond = (more: object) => ({ model: 'gpt-4o-mini', input: 'Hello', max_output_tokens: 50, ...more })
const responsePath = (id: string) => `/v1/responses/${id}`
const readsOfResponse = (id: string): Call[] => [
  { path: responsePath(id) },
  { path: `${responsePath(id)}/input_items` },
  { method: 'POST', path: `${responsePath(id)}/cancel`, body: {} },
  { path: '/v1/responses', body: respond({ previous_response_id: id }) },
]
const data = ({ data }: { data?: { id: string; hash: string } }) => data!

const resources: Record<string, Resource> = {
  response: {
    create: () => made('/v1/responses', respond({ input: long, store: true })),
    path: responsePath,
    key: () => key,
    asked: readsOfResponse,
  },
  'response in the background': {
    create: () => made('/v1/responses', respond({ input: long, background: true, stream: false })),
    path: responsePath,
    key: () => key,
    asked: readsOfResponse,
  },
  conversation: {
    create: () => made('/v1/conversations', { items: [message('msg_1'), message('msg_2')] }),
    path: id => `/v1/conversations/${id}`,
    key: () => key,
    asked: id => [
      { path: `/v1/conversations/${id}` },
      { path: `/v1/conversations/${id}`, body: { metadata: { topic: 'x' } } },
      { path: `/v1/conversations/${id}/items` },
      { path: `/v1/conversations/${id}/items`, body: { items: [message('msg_3')] } },
      { path: `/v1/conversations/${id}/items/msg_1` },
      { path: '/v1/responses', body: respond({ conversation: id }) },
    ],
  },
  'conversation item': {
    create: () => made('/v1/conversations', { items: [message('msg_1'), message('msg_2')] }),
    path: id => `/v1/conversations/${id}/items/msg_1`,
    key: () => key,
    asked: id => [
      { path: `/v1/conversations/${id}/items` },
      { path: `/v1/conversations/${id}/items/msg_1` },
      { method: 'DELETE', path: `/v1/conversations/${id}` },
      { path: '/v1/responses', body: respond({ conversation: id }) },
    ],
  },
  file: {
    create: async () => {
      const form = new FormData()
      form.set('purpose', 'batch')
      const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'gpt-4o-mini' } }
      form.set('file', new Blob([`${JSON.stringify(line)}\n`]), 'requests.jsonl')
      const headers = { authorization: `Bearer ${key}` }
      const response = await fetch(`${world.gateway.url}/v1/files`, { method: 'POST', body: form, headers })
      return ((await response.json()) as { id: string }).id
    },
    path: id => `/v1/files/${id}`,
    key: () => key,
    asked: id => [
      { path: `/v1/files/${id}` },
      { path: `/v1/files/${id}/content` },
      {
        path: '/v1/batches',
        body: { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' },
      },
    ],
  },
  key: {
    create: () =>
      made('/api/v1/keys', { name: 'one', environment: 'live' }, provisioning, json => data(json as never).hash),
    path: hash => `/api/v1/keys/${hash}`,
    key: () => provisioning,
    asked: hash => [
      { path: `/api/v1/keys/${hash}` },
      { method: 'PATCH', path: `/api/v1/keys/${hash}`, body: { rpm_limit: 5 } },
      { method: 'POST', path: `/api/v1/keys/${hash}/roll` },
    ],
  },
  'webhook endpoint': {
    create: async () => {
      const url = `http://127.0.0.1:9/${Math.random()}`
      return made('/api/v1/webhook-endpoints', { url, events: ['job.*'] }, provisioning, json => data(json as never).id)
    },
    path: id => `/api/v1/webhook-endpoints/${id}`,
    key: () => provisioning,
    asked: id => [
      { path: `/api/v1/webhook-endpoints/${id}` },
      { method: 'PATCH', path: `/api/v1/webhook-endpoints/${id}`, body: { events: ['*'] } },
      { method: 'POST', path: `/api/v1/webhook-endpoints/${id}/roll-secret` },
    ],
  },
}

for (const [name, { create, path, key: keyOf, asked }] of Object.entries(resources))
  test.serial(`404 or 200, never 500, for a ${name} that is deleted meanwhile`, async t => {
    for (let round = 0; round < rounds; round++) {
      world.openai.next(responsesReply())
      const id = await create()
      const calls = asked(id).map(call => ({ key: keyOf(), ...call }))
      const deletion = { method: 'DELETE', path: path(id), key: keyOf() }
      // The deletion is sent before, between and after the others.
      const order = calls.toSpliced(round % (calls.length + 1), 0, deletion)
      const answers = await Promise.all(order.map(async call => ({ call, ...(await send(call)) })))
      for (const { call, status, text } of answers)
        t.true(status < 500, `${call.method ?? ''} ${call.path}: ${status} ${text.slice(0, 300)}`)
      const { status } = await send(deletion)
      // A revoked key keeps its history; one that was rolled first has another hash.
      t.true(status === 404 || (name === 'key' && status === 200), `${status}`)
    }
    t.deepEqual(await world.gateway.settled(), [])
  })
