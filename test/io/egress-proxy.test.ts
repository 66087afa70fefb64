import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import OpenAI from 'openai'
import { examine } from '../../api/operator/doctor.ts'
import { loadConfig } from '../../shared/base/config.ts'
import { noProxies, proxyFor } from '../../shared/base/proxies.ts'
import { systemClock } from '../../shared/base/time.ts'
import { collect, openPool } from '../../shared/io/http.ts'
import { fetchPublic } from '../../shared/io/safe-url.ts'
import { openBlobs } from '../../shared/io/storage/open-blobs.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { RealtimeEmulator } from '../emulators/openai-realtime.ts'
import { startGateway } from '../support/gateway.ts'
import { createAuthority } from '../support/io/certificates.ts'
import { type EgressProxy, startEgressProxy } from '../support/io/egress-proxy.ts'
import { startS3 } from '../support/io/s3.ts'
import { openSsrfWorld } from '../support/io/ssrf.ts'
import { openTalk } from '../support/realtime/sdk.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
import { Receiver } from '../support/webhooks/receiver.ts'
import { newDelivery, newOrganisation, webhookServices } from '../support/webhooks/webhooks.ts'

const password = 'proxy-password-0123'
const stores = useStores(test)
const openai = use(test, () => startOpenAiEmulator())
const mistral = use(test, () => startOpenAiEmulator())
const realtime = use(test, () => RealtimeEmulator.start())
const proxy = use(test, () => startEgressProxy({ credentials: `team:${password}` }))
const other = use(test, () => startEgressProxy())

const hostOf = (url: string) => new URL(url).host

/** A gateway behind the proxy whose requests it counts, with these settings. */
async function behind(t: ExecutionContext, env: Record<string, string>) {
  const providers = {
    OPENAI_API_KEY: 'sk-openai',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    MISTRAL_API_KEY: 'sk-mistral',
    MISTRAL_BASE_URL: `${mistral.url}/v1`,
  }
  const gateway = await startGateway(stores, { ...providers, ...env })
  t.teardown(() => gateway.close())
  const { live } = await gateway.account()
  const client = new OpenAI({ apiKey: live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const ask = (model = 'gpt-4.1') =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }] })
  return { gateway, live, client, ask }
}

/** The targets that a proxy connects to while something runs. */
async function targetsOf({ targets }: EgressProxy, work: () => Promise<unknown>): Promise<string[]> {
  const before = targets.length
  await work()
  return targets.slice(before)
}

test.serial('200 through the proxy, whole and streamed, by one kept tunnel', async t => {
  const { ask, client } = await behind(t, { HTTP_PROXY: proxy.url })
  const targets = await targetsOf(proxy, async () => {
    t.truthy((await ask()).choices[0]!.message.content)
    const messages = [{ role: 'user' as const, content: 'Hi' }]
    const stream = await client.chat.completions.create({ model: 'gpt-4.1', messages, stream: true })
    let pieces = 0
    for await (const _ of stream) pieces++
    t.true(pieces > 1)
  })
  t.deepEqual(targets, [hostOf(openai.url)])
})

test.serial(
  '200 around the proxy for hosts of NO_PROXY, and through another one for a provider that has its own',
  async t => {
    const { ask } = await behind(t, {
      http_proxy: proxy.url,
      NO_PROXY: `example.com,${hostOf(openai.url)}`,
      MISTRAL_PROXY: other.url,
    })
    t.deepEqual(await targetsOf(proxy, () => Promise.all([ask(), ask('mistral-medium-3.5')])), [])
    t.deepEqual(other.targets, [hostOf(mistral.url)])
    const direct = await behind(t, { HTTP_PROXY: proxy.url, OPENAI_PROXY: 'direct' })
    t.deepEqual(await targetsOf(proxy, () => direct.ask()), [])
  },
)

test.serial(
  '200 from the next model while the first one’s proxy refuses, is away or hangs; nobody hears its password',
  async t => {
    const hanging = await startEgressProxy({ hangs: true })
    t.teardown(() => hanging.close())
    const refused = proxy.url.replace(password, 'wrong-password-42')
    for (const url of [refused, 'http://team:wrong-password-42@127.0.0.1:9', hanging.url]) {
      const connectTimeoutMs = url === hanging.url ? '1000' : '10000'
      const { client, ask } = await behind(t, { OPENAI_PROXY: url, UPSTREAM_CONNECT_TIMEOUT_MS: connectTimeoutMs })
      const error = await t.throwsAsync(ask(), { instanceOf: OpenAI.APIError }, url)
      t.is(error.status, url === hanging.url ? 504 : 502, url)
      t.false(JSON.stringify(error.error).includes('wrong-password'), url)
      const messages = [{ role: 'user' as const, content: 'Hi' }]
      const body = { model: 'gpt-4.1', models: ['mistral-medium-3.5'], messages }
      t.is((await client.chat.completions.create(body)).model, 'mistral-medium-3.5', url)
    }
  },
)

test.serial('101 for a realtime session through the proxy', async t => {
  const { gateway, live } = await behind(t, { HTTP_PROXY: proxy.url, OPENAI_BASE_URL: realtime.baseUrl })
  const targets = await targetsOf(proxy, async () => {
    const session = await openTalk(gateway.url, live, { model: 'gpt-realtime-2.1' })
    await session.heard('session.created')
    await session.close()
  })
  t.deepEqual(targets, [hostOf(realtime.baseUrl)])
})

test.serial(
  '200 over TLS to the host behind the tunnel, and a connection fault for a certificate that nobody knows',
  async t => {
    const authority = await createAuthority()
    t.teardown(() => authority.remove())
    const { cert, key } = await authority.issue('server')
    const server = createServer({ cert, key }, (request, response) => response.end(request.headers.host)).listen(0)
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000, totalTimeoutMs: 5_000 }
    const pool = openPool(`https://127.0.0.1:${port}`, timeouts, 1, other.url)
    t.teardown(() => pool.destroy())
    const request = { method: 'GET', path: '/', headers: {}, body: null } as const
    const targets = await targetsOf(other, async () => {
      await t.throwsAsync(collect(pool, request, timeouts, 1_000), { message: /certificate/ })
      const known = getCACertificates('default')
      setDefaultCACertificates([...known, authority.cert])
      t.teardown(() => setDefaultCACertificates(known))
      t.is((await collect(pool, request, timeouts, 1_000)).body.toString(), `127.0.0.1:${port}`)
    })
    t.deepEqual([...new Set(targets)], [`127.0.0.1:${port}`])
  },
)

test.serial(
  'url_not_allowed behind a proxy as well: it is told the checked address, and is never asked for a private one',
  async t => {
    const world = await openSsrfWorld()
    t.teardown(() => world.close())
    world.respond = (_request, response) => response.end('public')
    const proxies = { ...noProxies, http: other.url, https: other.url }
    const rules = { maxBytes: 1_000, timeoutMs: 10_000, ...world.door, proxies }
    const named = world.url.replace('127.77.0.1', 'public.test')
    const targets = await targetsOf(other, async () =>
      t.is((await fetchPublic(named, rules)).bytes.toString(), 'public'),
    )
    t.deepEqual(targets, [hostOf(world.url)])
    const asked = await targetsOf(other, async () => {
      for (const { name, url } of world.forbidden)
        await t.throwsAsync(fetchPublic(url, rules), { code: 'url_not_allowed' }, name)
    })
    t.deepEqual([...new Set(asked)], [hostOf(world.url)])
    t.is(world.contacts(), 0)
  },
)

test.serial('delivered: a webhook through the proxy', async t => {
  const services = await webhookServices(stores, systemClock, { HTTP_PROXY: proxy.url })
  const deliveries = new WebhookDeliveries(services)
  const receiver = await Receiver.start()
  t.teardown(async () => {
    await deliveries.close()
    await services.close()
    await receiver.close()
  })
  const { organisationId } = await newOrganisation(services)
  const { id } = await newDelivery(services, organisationId, receiver.url)
  const targets = await targetsOf(proxy, async () => t.deepEqual(await deliveries.attempt(id), { state: 'done' }))
  t.deepEqual(targets, [hostOf(receiver.url)])
  t.is(receiver.received.length, 1)
})

test.serial(
  'written, read and signed in S3 through the proxy, which is not used where NO_PROXY has the host',
  async t => {
    const s3 = await startS3('bucket')
    t.teardown(() => s3.close())
    const config = { storageUrl: s3.storageUrl('a'), publicUrl: 'http://localhost:3000' }
    const roundTrip = async (noProxy: string) => {
      const blobs = await openBlobs(
        { ...config, proxies: { ...noProxies, http: proxy.url, noProxy } },
        async () => '',
        systemClock,
      )
      try {
        async function* parts() {
          yield Buffer.from('bytes')
        }
        await blobs.write('a', parts(), 'text/plain')
        const { stream } = (await blobs.read('a'))!
        t.is(await text(stream), 'bytes')
        const url = await blobs.signedUrl({ key: 'a', contentType: 'text/plain' }, Date.now() + 60_000)
        t.is(await blobs.keyOf(url), 'a')
      } finally {
        blobs.close()
      }
    }
    t.true((await targetsOf(proxy, () => roundTrip(''))).length >= 3)
    t.deepEqual(await targetsOf(proxy, () => roundTrip('127.0.0.0/8')), [])
  },
)

test('ConfigError for what is no proxy, without its password', t => {
  for (const [name, value] of [
    ['HTTPS_PROXY', `socks5://team:${password}@proxy.example`],
    ['http_proxy', 'proxy.example:3128'],
    ['OPENAI_PROXY', `ftp://team:${password}@proxy.example`],
  ] as const) {
    const error = t.throws(() => loadConfig({ DATABASE_URL: 'postgres://a/b', REDIS_URL: 'redis://a', [name]: value }))
    t.regex(error.message, new RegExp(`^${name.toUpperCase()}: must be a URL starting with http:// or https://`))
    t.false(error.message.includes(password))
  }
})

test('failed: the doctor names a proxy that cannot be connected to', async t => {
  const findings = await examine({
    DATABASE_URL: stores.databaseUrl,
    REDIS_URL: stores.redisUrl,
    HTTPS_PROXY: `http://team:${password}@127.0.0.1:9`,
    MISTRAL_PROXY: other.url,
  })
  const found = findings.filter(({ check }) => check === 'proxy')
  t.deepEqual(found.map(({ state }) => state).sort(), ['failed', 'ok'])
  t.regex(found.find(({ state }) => state === 'failed')!.detail, /^127\.0\.0\.1:9 cannot be connected to/)
  t.false(JSON.stringify(findings).includes(password))
})

const https = 'http://proxy.example:3128'
/** As curl and Go read NO_PROXY. */
const direct: Record<string, { urls: string[]; not: string[] }> = {
  '*': { urls: ['https://a.example', 'https://10.0.0.1'], not: [] },
  'example.com': {
    urls: ['https://example.com', 'https://api.example.com', 'https://EXAMPLE.com:8443'],
    not: ['https://badexample.com'],
  },
  '.example.com': { urls: ['https://api.example.com'], not: ['https://example.org'] },
  '*.example.com': { urls: ['https://a.b.example.com'], not: ['https://example.com.evil.test'] },
  'example.com:8443': { urls: ['https://example.com:8443'], not: ['https://example.com'] },
  'localhost, 10.0.0.0/8 192.168.1.7': {
    urls: ['https://localhost:11434', 'https://10.200.3.4', 'https://192.168.1.7'],
    not: ['https://11.0.0.1', 'https://192.168.1.8'],
  },
  'fd00::/8,::1': { urls: ['https://[fd12::1]', 'https://[::1]:8443'], not: ['https://[fe80::1]', 'https://10.0.0.1'] },
  '10.0.0.0/99,/,:': { urls: [], not: ['https://10.0.0.1', 'https://example.com'] },
  '': { urls: [], not: ['https://example.com', 'wss://example.com'] },
}
for (const [noProxy, { urls, not }] of Object.entries(direct))
  test(`direct for what NO_PROXY covers: ${noProxy || '(empty)'}`, t => {
    const proxies = { http: null, https, noProxy }
    for (const url of urls) t.is(proxyFor(new URL(url), proxies), null, url)
    for (const url of not) t.is(proxyFor(new URL(url), proxies), https, url)
    t.is(proxyFor(new URL('http://example.com'), proxies), null, 'another scheme')
  })
