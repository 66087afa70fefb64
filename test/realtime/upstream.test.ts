import { mkdtemp, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { hang, refuse, reset } from '../emulators/sessions.ts'
import { eventually } from '../support/gateway.ts'
import {
  joined,
  leftBehind,
  providerSecret,
  RealtimeClient,
  type RealtimeWorld,
  realtimeModel,
  refusedSession,
  startRealtime,
} from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

type Upgrade = (request: IncomingMessage, socket: Socket) => void

/** A key that is refused rests for a while: one more than are refused here. */
const secrets = [providerSecret, 'second-secret-0123456789', 'third-secret-0123456789']
let world: RealtimeWorld
/** A provider that never opens a session: how it answers, and the API keys it was asked with. */
const broken = use(test, startBroken)
test.before(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-catalog-'))
  const file = join(folder, 'catalog.json')
  await writeFile(file, JSON.stringify({ models }))
  const env = {
    MODEL_CATALOG: file,
    OPENAI_API_KEY: secrets.join(','),
    XAI_API_KEY: providerSecret,
    XAI_BASE_URL: `${broken.url}/v1`,
    UPSTREAM_CONNECT_TIMEOUT_MS: '500',
    UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '1500',
    UPSTREAM_MAX_PAUSE_MS: '10',
  }
  world = await startRealtime({ env })
})
test.after.always(async () => {
  await world?.close()
})
test.beforeEach(() => {
  broken.keys = []
})

async function startBroken() {
  const server = http.createServer().listen(0, '127.0.0.1')
  await eventually(() => server.listening, 'it listens')
  const connections = new Set<Socket>()
  server.on('connection', socket => connections.add(socket))
  const self = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answer: hang as Upgrade,
    keys: [] as string[],
    close() {
      for (const connection of connections) connection.destroy()
      server.close()
    },
  }
  server.on('upgrade', (request, socket: Socket) => {
    socket.on('error', () => {}) // The gateway may leave first.
    self.keys.push(String(request.headers.authorization))
    self.answer(request, socket)
  })
  return self
}

const says =
  (text: string): Upgrade =>
  (_request, socket) =>
    void socket.end(text)

/** One byte now and then, for ever. */
const drips =
  (text: string): Upgrade =>
  (_request, socket) => {
    socket.write(text)
    const drip = setInterval(() => socket.write('x'), 50)
    socket.on('close', () => clearInterval(drip))
    socket.resume()
  }

const switching = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n'
const leak = { error: { message: `Incorrect API key provided: ${providerSecret}`, type: 'x', code: 'invalid_api_key' } }

const failures: [title: string, answer: Upgrade, code: string][] = [
  ['401', refuse(401, leak), 'upstream_error'],
  ['403', refuse(403, leak), 'upstream_error'],
  ['404', refuse(404, { error: { message: 'No such model', code: 'model_not_found' } }), 'upstream_error'],
  ['429', refuse(429, {}, { 'retry-after': '20' }), 'upstream_error'],
  ['500', refuse(500), 'upstream_error'],
  ['503', refuse(503), 'upstream_error'],
  ['redirect', refuse(302, {}, { location: 'http://127.0.0.1:1/elsewhere' }), 'upstream_invalid_response'],
  ['200', refuse(200, { hello: 'world' }), 'upstream_invalid_response'],
  ['400', refuse(400, { error: { message: 'The beta is over.' } }), 'invalid_request'],
  ['broken connection', reset, 'upstream_error'],
  ['closed connection', says(''), 'upstream_error'],
  ['garbage', says('SSH-2.0-OpenSSH_9.6\r\n'), 'upstream_error'],
  ['101 without a digest', says(`${switching}\r\n`), 'upstream_error'],
  ['101 with another digest', says(`${switching}sec-websocket-accept: AAAA\r\n\r\n`), 'upstream_error'],
  ['silence', hang, 'upstream_timeout'],
  ['head without an end', drips(`${switching}x-slow: `), 'upstream_timeout'],
  [
    'refusal without an end',
    drips('HTTP/1.1 500 Internal Server Error\r\ncontent-length: 9999\r\n\r\n'),
    'upstream_timeout',
  ],
]
/** A model of each test's own, so that no circuit that another one opened is in its way; with these providers. */
function modelOf(id: string, providers: string[]) {
  const { id: _id, providers: offers, ...row } = loadCatalog().find(realtimeModel)!
  const upstream_model = `${id}-upstream`
  return { ...row, id, providers: providers.map(provider => ({ ...offers[0]!, provider, upstream_model })) }
}
const models = [
  ...failures.flatMap((_, i) => [modelOf(`broken-${i}`, ['xai']), modelOf(`talk-${i}`, ['xai', 'openai'])]),
  ...[401, 429].map(status => modelOf(`keys-${status}`, ['openai'])),
]

for (const [i, [title, answer, code]] of failures.entries()) {
  test.serial(`an error event and 1011 for a provider’s ${title}, without its secret or address`, async t => {
    broken.answer = answer
    const client = await joined(new RealtimeClient(world.gateway.url, { key: world.live, query: `model=broken-${i}` }))
    t.deepEqual(await client.end(), { code: 1011, reason: code })
    t.is(client.frames.length, 1)
    const [{ type, error }] = client.events
    t.is(type, 'error')
    t.is(error.code, code)
    const seen = JSON.stringify([client.events, client.headers])
    for (const secret of [providerSecret, new URL(broken.url).host]) t.false(seen.includes(secret))
    t.true(broken.keys.length > 0)
    t.is(client.headers['x-gateway-attempts'], String(broken.keys.length))
    const id = String(client.headers['x-generation-id'])
    const { db } = world.gateway.services
    await eventually(async () => (await db.generation.count({ where: { id } })) === 1, 'it is in the log')
    const logged = await db.generation.findFirstOrThrow({ where: { id } })
    t.is(logged.errorCode, code)
    t.is(logged.costNano, 0n)
  })
}

test.serial('another API key is tried after one that is refused or limited', async t => {
  for (const status of [401, 429]) {
    world.provider.next(refuse(status, leak))
    const query = `model=keys-${status}`
    const client = await joined(new RealtimeClient(world.gateway.url, { key: world.live, query }))
    t.is(client.headers['x-gateway-attempts'], '2')
    client.socket.close()
    await client.end()
  }
  for (const { headers } of world.provider.sessions) t.true(secrets.includes(headers.authorization!.split(' ')[1]!))
})

test.serial('another provider of the model is tried after one that fails', async t => {
  for (const [i, [, answer, code]] of failures.entries()) {
    if (code === 'invalid_request') continue
    broken.answer = answer
    const client = await joined(new RealtimeClient(world.gateway.url, { key: world.live, query: `model=talk-${i}` }))
    t.is(client.headers['x-gateway-provider'], 'openai')
    t.is(client.headers['x-gateway-attempts'], '2')
    t.is(world.provider.last.query.get('model'), `talk-${i}-upstream`)
    client.socket.close()
    await client.end()
  }
})

test.serial('503 before the upgrade once the circuit of the only provider is open', async t => {
  broken.answer = refuse(500)
  const opening = { key: world.live, query: 'model=grok-voice' }
  await eventually(async () => {
    const client = new RealtimeClient(world.gateway.url, opening)
    await client.end()
    return client.headers['x-generation-id'] === undefined
  }, 'the circuit is open')
  const asked = broken.keys.length
  const { status, body, headers } = await refusedSession(world.gateway.url, opening)
  t.is(status, 503)
  t.is(body.error.code, 'no_provider_available')
  t.truthy(headers['retry-after'])
  t.is(broken.keys.length, asked)
})

test.serial('ok: no session slot and no reservation remains after all of these', async t => {
  t.deepEqual(await leftBehind(world), [])
})
