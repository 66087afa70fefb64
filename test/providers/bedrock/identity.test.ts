import { noProxies } from '../../../shared/base/proxies.ts'
import { systemClock } from '../../../shared/base/time.ts'
import type { ProviderRow } from '../../../shared/catalog/schema.ts'
import { checkCredentials } from '../../../shared/providers/credential-check.ts'
import { awsIdentity } from '../../../shared/providers/identities/aws.ts'
import type { UnauthorizedRequest } from '../../../shared/providers/identities/identity.ts'
import { signatureFault } from '../../emulators/aws-signature.ts'
import { startBedrockEmulator } from '../../emulators/bedrock.ts'
import type { Recorded } from '../../emulators/emulator.ts'
import { chargedNano, dataOf, saying } from '../../support/chat/gateway.ts'
import { createAccount } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** Bedrock with an identity at AWS instead of an API key. */

const first = { accessKeyId: 'AKIAEMULATED00000001', secretAccessKey: 'first/secret+key' }
const second = { accessKeyId: 'ASIAEMULATED00000002', secretAccessKey: 'second', sessionToken: 'session=token' }
const keys = [first, second]
const names = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'] as const
const before = names.map(name => process.env[name])

/** The environment of the process, where AWS' library looks for credentials first. */
function become({ accessKeyId, secretAccessKey, sessionToken }: Partial<typeof second>): void {
  for (const [at, value] of [accessKeyId, secretAccessKey, sessionToken].entries())
    if (value === undefined) delete process.env[names[at]!]
    else process.env[names[at]!] = value
}

test.atEnd(() => {
  for (const [at, value] of before.entries())
    if (value === undefined) delete process.env[names[at]!]
    else process.env[names[at]!] = value
})

const ireland = use(test, () => startBedrockEmulator({ region: 'eu-west-1', keys }))
const gateway = useGateway(test, () => {
  become(second)
  return {
    BEDROCK_REGIONS: 'eu-west-1',
    BEDROCK_GLOBAL_REGIONS: 'eu-west-1',
    BEDROCK_BASE_URL: ireland.url,
    BEDROCK_ANTHROPIC_BASE_URL: `${ireland.url}/anthropic`,
    BEDROCK_GLOBAL_BASE_URL: `${ireland.url}/anthropic`,
  }
})

async function post(path: string, key: string, body: object): Promise<{ status: number; text: string }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

test.serial('requests to all parts of the cloud are signed, streamed and not', async t => {
  const account = await createAccount(gateway.services)
  for (const provider of ['bedrock/eu-west-1', 'bedrock/eu-west-1/anthropic', 'bedrock/eu-west-1/global'])
    for (const stream of [false, true]) {
      const others = provider === 'bedrock/eu-west-1' ? { ignore: [`${provider}/anthropic`, `${provider}/global`] } : {}
      const body = { ...saying('claude-haiku-4-5', 'Grüße'), stream, provider: { only: [provider], ...others } }
      const { status, text } = await post('/v1/chat/completions', account.live, body)
      t.is(status, 200, text)
      const said = stream
        ? dataOf(text)
            .map(event => event.choices?.[0]?.delta?.content ?? '')
            .join('')
        : JSON.parse(text).choices[0].message.content
      t.is(said, 'Echo: Grüße')
      t.false(text.includes(second.secretAccessKey))
    }
  t.deepEqual(
    ireland.requests.map(({ path, body }) => body?.model ?? decodeURIComponent(path)),
    [
      '/model/eu.anthropic.claude-haiku-4-5-20251001-v1:0/converse',
      '/model/eu.anthropic.claude-haiku-4-5-20251001-v1:0/converse-stream',
      'eu.anthropic.claude-haiku-4-5-20251001-v1:0',
      'eu.anthropic.claude-haiku-4-5-20251001-v1:0',
      'global.anthropic.claude-haiku-4-5-20251001-v1:0',
      'global.anthropic.claude-haiku-4-5-20251001-v1:0',
    ],
  )
  for (const { headers } of ireland.requests) {
    t.regex(
      String(headers.authorization),
      /^AWS4-HMAC-SHA256 Credential=ASIAEMULATED00000002\/\d{8}\/eu-west-1\/bedrock\//,
    )
    t.is(headers['x-amz-security-token'], second.sessionToken)
  }
  t.true((await chargedNano({ gateway }, account)) > 0)
})

test.serial('global inference costs a tenth less, and is off unless it is configured', t => {
  const model = gateway.services.catalog.find('claude-opus-5-5')!
  const prices = model.providers.filter(({ provider }) => provider.startsWith('bedrock/'))
  t.deepEqual(
    prices.map(({ provider, price }) => [provider, price.unit === 'token' && price.input]),
    [
      ['bedrock/eu-west-1/anthropic', '4.4'],
      ['bedrock/eu-west-1', '4.4'],
      ['bedrock/eu-west-1/global', '4'],
    ],
  )
})

const row = { name: 'bedrock/us-west-2', region: 'us-west-2', identity: 'aws' } as ProviderRow
const settings = { apiKeys: [], apiKeyOrigin: '', baseUrl: null, webhookSecret: null, proxy: null, cloud: {} }
const request: UnauthorizedRequest = {
  method: 'POST',
  url: 'https://bedrock-runtime.us-west-2.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aus-west-2%3A1%3Ainference-profile%2Fus.x-v1%3A0/converse?b=2&a=1%202',
  headers: { 'content-type': 'application/json', accept: 'application/json' },
  body: '{"messages":["Grüße"]}',
}

/** The request as AWS receives it. */
function received(headers: Record<string, string>): Recorded {
  const { host, pathname, searchParams } = new URL(request.url)
  const raw = Buffer.from(String(request.body))
  const all = { host, ...request.headers, ...headers }
  return {
    method: 'POST',
    path: pathname,
    query: searchParams,
    headers: all,
    raw,
    body: null,
    receivedAt: 0,
    aborted: Promise.resolve(),
  }
}

test.serial('a signature has the time of the gateway’s clock, and covers path, query, body and type', async t => {
  become(first)
  const nowMs = Date.UTC(2031, 0, 2, 3, 4, 5)
  const identity = awsIdentity({ provider: row, settings, proxies: noProxies, clock: { now: () => nowMs } })
  const headers = await identity.authorize(request)
  t.is(headers['x-amz-date'], '20310102T030405Z')
  const options = { keys, region: 'us-west-2', service: 'bedrock', now: () => nowMs }
  t.is(signatureFault(received(headers), options), null)
  const good = received(headers)
  for (const changed of [
    { ...good, path: `${good.path}x` },
    { ...good, query: new URLSearchParams('a=2') },
    { ...good, raw: Buffer.from('{}') },
    { ...good, headers: { ...good.headers, 'content-type': 'text/plain' } },
  ])
    t.not(signatureFault(changed, options), null)
  t.not(signatureFault(good, { ...options, now: () => nowMs + 10 * 60_000 }), null)
  identity.close()
})

test.serial(
  'credentials that AWS refuses are read again for the next request; a missing permission changes nothing',
  async t => {
    become(first)
    const identity = awsIdentity({ provider: row, settings, proxies: noProxies, clock: systemClock })
    const accessKey = async () => /Credential=([^/]+)/.exec((await identity.authorize(request)).authorization!)![1]
    t.is(await accessKey(), first.accessKeyId)
    become(second)
    t.is(await accessKey(), first.accessKeyId)
    t.false(identity.isRefusal!(403, { 'x-amzn-errortype': 'AccessDeniedException:http://internal' }))
    t.true(identity.isRefusal!(403, { 'x-amzn-errortype': 'ExpiredTokenException:http://internal' }))
    identity.recordRefusal()
    t.is(await accessKey(), second.accessKeyId)
    t.is(identity.secret, second.secretAccessKey)
    identity.close()
  },
)

test.serial('the check of credentials asks the runtime of each region once, with a signature', async t => {
  become(first)
  const { catalog, config } = gateway.services
  ireland.reset()
  const check = () => checkCredentials(catalog, config, systemClock)
  const ofBedrock = async () => (await check()).filter(({ provider }) => provider.startsWith('bedrock/'))
  t.deepEqual(
    (await ofBedrock()).map(({ provider, outcome }) => [provider, outcome]),
    [
      ['bedrock/eu-west-1', 'accepted'],
      ['bedrock/eu-west-1/anthropic', 'unknown'],
      ['bedrock/eu-west-1/global', 'unknown'],
    ],
  )
  t.deepEqual(
    ireland.requests.map(({ method, path }) => `${method} ${path}`),
    ['GET /async-invoke'],
  )
  become({ accessKeyId: 'AKIAUNKNOWN', secretAccessKey: 'hidden-secret' })
  const [refused] = await ofBedrock()
  t.is(refused?.outcome, 'failed')
  t.false(JSON.stringify(refused).includes('hidden-secret'))
})
