import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Provider } from '../../../api/dashboard/wire/operator-home.ts'
import { keyIdOf } from '../../../shared/providers/connections.ts'
import { Emulator, type Recorded } from '../../emulators/emulator.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { type Gateway, startGateway } from '../../support/gateway.ts'
import { runOperator, storesEnv } from '../../support/operator.ts'
import { test } from '../../support/test.ts'
import { use, useFolder, useGateway, useStores } from '../../support/use.ts'

const [ofEnvironment, first, second, wrong] = [
  'sk-environment-0001',
  'sk-added-first-0002',
  'sk-added-second-0003',
  'sk-wrong-0004',
]
const encryption = { ENCRYPTION_KEY: 'a key for the tests of provider keys 6f2c' }

/** Ends the stream that a request has begun. */
let endStream: () => void = () => {}

const upstream = use(test, () =>
  Emulator.start(async (request, response) => {
    const isAccepted = !request.headers.authorization?.includes(wrong)
    response.writeHead(isAccepted ? 200 : 401, {
      'content-type': request.body?.stream ? 'text/event-stream' : 'application/json',
    })
    if (!isAccepted) return void response.end(JSON.stringify({ error: { message: 'Incorrect API key provided.' } }))
    if (request.method === 'GET') return void response.end(JSON.stringify({ data: [] }))
    const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
    const common = { id: 'c1', created: 1, model: request.body.model }
    if (!request.body.stream) {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
      return void response.end(JSON.stringify({ ...common, object: 'chat.completion', choices, usage }))
    }
    const event = (data: object) =>
      response.write(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', ...data })}\n\n`)
    event({ choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }] })
    await new Promise<void>(resolve => {
      endStream = resolve
    })
    event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage })
    response.end('data: [DONE]\n\n')
  }),
)
const stores = useStores(test)
const folder = useFolder(test)
const env = () => ({
  ...encryption,
  OPENAI_API_KEY: ofEnvironment,
  OPENAI_BASE_URL: `${upstream.url}/v1`,
  MISTRAL_BASE_URL: `${upstream.url}/v1`,
})
const gateway = useGateway(test, env, { stores })
/** Another process of the same deployment. */
const other = use(test, () => startGateway(stores, env()))
const operator = use(test, () => signUp(gateway, { name: 'Op' }))
const account = use(test, () => gateway.account())
test.before(async () => {
  await runOperator({ ...storesEnv(stores), ...encryption }, 'user', 'promote', '--email', operator.visitor.email)
})

const command = (...args: string[]) => runOperator({ ...storesEnv(stores), ...env() }, ...args)
const ask = (at: Gateway, body: object = {}) =>
  at.fetch('/v1/chat/completions', {
    key: account.live,
    body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hi' }], ...body },
  })
const keyOf = ({ headers }: Recorded) => String(headers.authorization).replace('Bearer ', '')

/** The API key that a process uses now. One call at a time: it is that of the upstream's last request. */
async function usedBy(at: Gateway, model = 'gpt-4o-mini'): Promise<string | number> {
  const { status } = await ask(at, { model })
  return status === 200 ? keyOf(upstream.requests.at(-1)!) : status
}

/** Waits until another process uses a key. */
async function takenBy(at: Gateway, expected: string | number, model?: string): Promise<void> {
  while ((await usedBy(at, model)) !== expected) await new Promise(resolve => setTimeout(resolve, 50))
}

async function add(provider: string, key: string, ...more: string[]) {
  const file = join(folder, 'key')
  await writeFile(file, `${key}\n`)
  return command('provider-key', 'add', '--provider', provider, '--key-file', file, ...more)
}

test.serial('exit 1 for a key that the provider does not accept, which is not stored', async t => {
  const { exitCode, stderr } = await add('openai', wrong)
  t.is(exitCode, 1)
  t.regex(stderr, /openai does not accept the API key: HTTP 401/)
  t.false(stderr.includes(wrong))
  t.is(await gateway.services.db.catalogOverride.count(), 0)
  t.is(await usedBy(gateway), ofEnvironment)
})

test.serial(
  'an added key is used by all processes in place of that of the environment, and a running stream ends with its own',
  async t => {
    const running = await ask(other, { stream: true })
    const reader = running.body!.getReader()
    await reader.read()
    const streamed = upstream.requests.at(-1)!
    const { exitCode, stdout } = await add('openai', first)
    t.is(exitCode, 0)
    t.regex(stdout, /is a key of openai, which accepts it/)
    t.false(stdout.includes(first))
    await takenBy(gateway, first)
    await takenBy(other, first)
    endStream()
    let text = ''
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += Buffer.from(part.value).toString()
    t.regex(text, /\[DONE\]/)
    t.is(keyOf(streamed), ofEnvironment)
  },
)

test.serial('work that an earlier key has started is continued with it', async t => {
  const { catalog, upstreams } = gateway.services
  const openai = catalog.providers.get('openai')!
  const keysOf = async (id: string | null) => {
    await upstreams.connectionTo(openai, 'live', id).send({ method: 'GET', path: '/models' })
    return keyOf(upstream.requests.at(-1)!)
  }
  t.is(await keysOf(keyIdOf(ofEnvironment)), ofEnvironment)
  t.is(await keysOf(keyIdOf('sk-never-there')), first)
})

test.serial('a stored key is sealed, and neither it nor its hash is in lists or the audit log', async t => {
  const { db } = gateway.services
  const row = await db.catalogOverride.findUniqueOrThrow({ where: { kind_name: { kind: 'keys', name: 'openai' } } })
  t.regex(row.secret!, /^sealed:1:/)
  const { stdout } = await command('provider-key', 'list', '--json')
  t.like(JSON.parse(stdout), { data: [{ provider: 'openai', last4: first.slice(-4) }] })
  const noted = await db.auditEvent.findMany({ where: { action: 'catalog_keys.added' } })
  t.is(noted.length, 1)
  t.false(JSON.stringify([row.value, stdout, noted]).includes(first))
})

test.serial(
  '200 on the dashboard: a key replaces another, and is removed; then that of the environment is used again',
  async t => {
    const path = '/dashboard/api/operator/providers/openai/keys'
    const bad = await operator.visitor.fetch(path, { body: { key: wrong } })
    t.is(bad.status, 400)
    t.false((await bad.text()).includes(wrong))
    const stored = gateway.services.catalogOverrides.current.overrides
    const { id } = stored.flatMap(one => (one.kind === 'keys' ? one.value.keys : []))[0]!
    const replaced = await operator.visitor.fetch(path, { body: { key: second, replaces: id } })
    t.is(replaced.status, 200)
    const { added_keys: keys } = (await replaced.json()) as Provider
    t.is(keys.length, 1)
    t.is(keys[0]!.last4, second.slice(-4))
    t.is(await usedBy(gateway), second)
    const removed = await operator.visitor.fetch(`${path}/${keys[0]!.id}`, { method: 'DELETE' })
    t.deepEqual(((await removed.json()) as Provider).added_keys, [])
    t.is((await operator.visitor.fetch(`${path}/${keys[0]!.id}`, { method: 'DELETE' })).status, 404)
    await takenBy(gateway, ofEnvironment)
    await takenBy(other, ofEnvironment)
  },
)

test.serial('two added keys take turns', async t => {
  await add('openai', first)
  await add('openai', second)
  await takenBy(other, second)
  t.deepEqual(new Set([await usedBy(other), await usedBy(other)]), new Set([first, second]))
})

test.serial(
  'a provider without a key in the environment is enabled by an added one, and disabled without it',
  async t => {
    t.is(await usedBy(gateway, 'mistral-small-latest'), 503)
    t.is((await add('mistral', first)).exitCode, 0)
    await takenBy(other, first, 'mistral-small-latest')
    const { stdout } = await command('provider-key', 'list', '--provider', 'mistral', '--json')
    const [{ id }] = JSON.parse(stdout).data
    t.is((await command('provider-key', 'remove', '--provider', 'mistral', '--id', id)).exitCode, 0)
    await takenBy(other, 503, 'mistral-small-latest')
  },
)

test.serial('exit 1 for a provider that there is not, for a server, and for a file that has no key', async t => {
  t.regex((await add('opnai', first)).stderr, /no provider "opnai"/)
  t.regex((await add('openai', 'two words')).stderr, /printable ASCII/)
  t.regex(
    (await command('provider-key', 'remove', '--provider', 'openai', '--id', 'nothing')).stderr,
    /has no API key nothing/,
  )
  await command('server', 'add', '--name', 'lab', '--base-url', `${upstream.url}/v1`, '--models', '[]')
  t.regex((await add('lab', first)).stderr, /lab is a server: change its own API key/)
})

test.serial('secrets encrypt seals added keys with the newest encryption key', async t => {
  const rotated = {
    ...storesEnv(stores),
    ...env(),
    ENCRYPTION_KEY: `a newer key for the tests of provider keys 81d3, ${encryption.ENCRYPTION_KEY}`,
  }
  const { exitCode, stderr } = await runOperator(rotated, 'secrets', 'encrypt')
  t.is(exitCode, 0, stderr)
  const listed = await runOperator(
    { ...rotated, ENCRYPTION_KEY: 'a newer key for the tests of provider keys 81d3' },
    'provider-key',
    'list',
    '--provider',
    'openai',
  )
  t.regex(listed.stdout, /…0002/)
})
