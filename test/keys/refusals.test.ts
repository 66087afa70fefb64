// A key that does not work says what happened to it and who can undo that: on every route, in its dialect, and on both sockets.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { operatorActor } from '../../shared/io/audit.ts'
import { blockKey } from '../../shared/keys/cost-control.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { eventually } from '../support/gateway.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

const gateway = useGateway(test)

type Change = (key: string, hash: string) => Promise<unknown>
const states: [state: string, code: string, words: RegExp, change: Change][] = [
  [
    'revoked',
    'revoked_api_key',
    /was revoked for good\. Create a new one\.$/,
    (_key, hash) => gateway.services.keys.revoke(null, hash, operatorActor),
  ],
  [
    'disabled',
    'revoked_api_key',
    /is disabled\. Its creator, or an owner or admin of the organisation, can enable it again/,
    (_key, hash) => gateway.services.keys.patch(null, hash, { disabled: true }, operatorActor),
  ],
  [
    'blocked',
    'revoked_api_key',
    /is blocked: its requests cost more than was reserved for them\. .* can look at them and enable it again/,
    async (_key, hash) => blockKey(gateway.services, await gateway.services.keys.get(null, hash), async () => {}),
  ],
  [
    'expired',
    'expired_api_key',
    /has expired\. Its creator, or an owner or admin of the organisation, can change its date, or create a new one\.$/,
    (_key, hash) => gateway.services.keys.patch(null, hash, { expires_at: '2026-01-01T00:00:00Z' }, operatorActor),
  ],
  [
    'replaced',
    'revoked_api_key',
    /was replaced by a newer secret\. Use the new one\.$/,
    (_key, hash) => gateway.services.keys.roll(null, hash, operatorActor),
  ],
]

const messages = [{ role: 'user', content: 'Hi' }]
const calls: [path: string, body?: object][] = [
  ['/v1/models'],
  ['/v1/chat/completions', { model: 'auto', messages }],
  ['/v1/messages', { model: 'auto', max_tokens: 9, messages }],
  ['/v1/responses', { model: 'auto', input: 'Hi' }],
  ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hi' }],
  ['/v1/jobs', { completion_window: '1h', body: { model: 'auto', messages } }],
]

/** The refusal of an upgrade. */
async function refusedSocket(path: string, key: string) {
  const socket = new WebSocket(gateway.url.replace('http', 'ws') + path, {
    headers: { authorization: `Bearer ${key}` },
  })
  socket.on('error', () => {})
  const [, response] = await once(socket, 'unexpected-response')
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return { status: response.statusCode, error: JSON.parse(text).error }
}

for (const [state, code, words, change] of states)
  test.serial(`401 with a key that is ${state} says so on every route and both sockets`, async t => {
    const { live, test: sandbox, organisationId } = await gateway.account()
    for (const key of [live, sandbox]) {
      t.is((await gateway.fetch('/v1/models', { key })).status, 200)
      await change(key, hashSecret(key))
      for (const [path, body] of calls) {
        const answer = await gateway.fetch(path, { key, body })
        t.is(answer.status, 401, path)
        const { error } = await answerOf(answer)
        t.is(error.code, code, path)
        t.regex(error.message, words, path)
        // Anthropic's errors have no metadata.
        if (path !== '/v1/messages') t.deepEqual(error.metadata, { reason: state }, path)
      }
      for (const path of ['/v1/realtime?model=gpt-realtime-2.1', '/v1/responses']) {
        const { status, error } = await refusedSocket(path, key)
        t.is(status, 401, path)
        t.regex(error.message, words, path)
      }
    }
    if (state === 'expired' || state === 'replaced') return
    const { secret } = await gateway.services.keys.createProvisioning(organisationId, operatorActor)
    const { data } = await answerOf(await gateway.fetch('/api/v1/keys?include_revoked=true', { key: secret }))
    for (const key of data) t.like(key, { status: 'revoked', status_reason: state })
    const enabled = await gateway.fetch(`/api/v1/keys/${hashSecret(live)}`, {
      key: secret,
      method: 'PATCH',
      body: { disabled: false },
    })
    t.is(enabled.status, state === 'revoked' ? 404 : 200)
    if (enabled.ok) t.is((await gateway.fetch('/v1/models', { key: live })).status, 200)
  })

test('401 at the end of a stream whose key is blocked meanwhile, with the same words', async t => {
  const { test: key } = await gateway.account()
  const body = { model: 'auto', stream: true, messages: [{ role: 'user', content: 'sandbox:slow=60000' }] }
  const answering = gateway.fetch('/v1/chat/completions', { key, body })
  await eventually(() => gateway.services.admission !== undefined, 'the gateway is up')
  await blockKey(gateway.services, await gateway.services.keys.get(null, hashSecret(key)), async () => {})
  const text = await (await answering).text()
  t.regex(text, /is blocked: its requests cost more/)
})

test('401 with a provisioning key that was revoked says who can create a new one', async t => {
  const { organisationId } = await gateway.account()
  const { secret } = await gateway.services.keys.createProvisioning(organisationId, operatorActor)
  await gateway.services.keys.revokeProvisioning(organisationId, operatorActor)
  const answer = await gateway.fetch('/api/v1/keys', { key: secret })
  t.is(answer.status, 401)
  t.like((await answerOf(answer)).error, {
    message: 'This provisioning key was revoked for good. An operator of this service can create a new one.',
    metadata: { reason: 'revoked' },
  })
})
