import { generateKeyPairSync } from 'node:crypto'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { operatorActor } from '../../shared/io/audit.ts'
import { startGoogleTokens } from '../emulators/google-tokens.ts'
import { startVertex } from '../emulators/vertex.ts'
import { saying } from '../support/chat/gateway.ts'
import { createAuthority } from '../support/io/certificates.ts'
import { startEgressProxy } from '../support/io/egress-proxy.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/**
 * Own keys that are service accounts of Google Cloud. Google's library asks for tokens at one address, whatever the account says; here a proxy of
 * the operator leads from there to an emulator whose certificate is trusted.
 */

const tokenHost = 'oauth2.googleapis.com'
const projects = ['first-project', 'other-project'] as const
const accounts = projects.map(project => {
  const encoding = { publicKeyEncoding: { type: 'spki', format: 'pem' } } as const
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    ...encoding,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  })
  return { project, email: `gateway@${project}.iam.gserviceaccount.com`, publicKey, privateKey }
})
const [first, other] = accounts as [(typeof accounts)[0], (typeof accounts)[0]]

const authority = use(test, createAuthority, one => one.remove())
const tokens = use(test, async () => startGoogleTokens(await authority.issue('google', [tokenHost]), accounts))
const proxy = use(test, () => startEgressProxy({ routes: { [`${tokenHost}:443`]: `127.0.0.1:${tokens.port}` } }))
/** Each project of its own account. */
const vertex = use(test, () => startVertex({ project: first.project, acceptsToken: ownedBy(first.email) }))
const otherVertex = use(test, () => startVertex({ project: other.project, acceptsToken: ownedBy(other.email) }))
function ownedBy(email: string) {
  return (token: string) => tokens.owners.get(token) === email
}

const trusted = getCACertificates('default')
const formerProxy = process.env.HTTPS_PROXY
test.atEnd(() => {
  setDefaultCACertificates(trusted)
  if (formerProxy === undefined) delete process.env.HTTPS_PROXY
  else process.env.HTTPS_PROXY = formerProxy
})

const gatewayAt = (url: () => string) =>
  useGateway(test, () => {
    setDefaultCACertificates([...trusted, authority.cert])
    process.env.HTTPS_PROXY = proxy.url
    return {
      ENCRYPTION_KEY: 'a'.repeat(32),
      VERTEX_PROJECT: 'operators-project',
      VERTEX_REGIONS: 'global',
      VERTEX_BASE_URL: `${url()}/v1beta1/projects/{project}/locations/{region}`,
      VERTEX_ANTHROPIC_BASE_URL: `${url()}/v1/projects/{project}/locations/{region}`,
      VERTEX_OPENAI_BASE_URL: `${url()}/v1/projects/{project}/locations/{region}/endpoints/openapi`,
    }
  })
const gateway = gatewayAt(() => vertex.url)
const otherGateway = gatewayAt(() => otherVertex.url)

test.beforeEach(() => {
  vertex.reset()
  otherVertex.reset()
})

/** The file of a service account; `more` is not for the gateway to follow. */
const fileOf = ({ project, email, privateKey }: typeof first, more: object = {}) =>
  JSON.stringify({
    type: 'service_account',
    project_id: project,
    client_email: email,
    private_key: privateKey,
    ...more,
  })

/** An organisation whose live key uses its own service account only. */
async function organisation(secret: string, at = gateway) {
  const { organisationId } = await at.account({ usd: '5' })
  const key = (await at.services.keys.createProvisioning(organisationId, operatorActor)).secret
  const live = await at.key(organisationId, 'live', { own_keys: 'own' })
  const response = await at.fetch('/api/v1/provider-keys', { key, body: { provider: 'vertex', name: 'Ours', secret } })
  const stored = { status: response.status, text: await response.text() }
  const ask = async (model: string) => {
    const answer = await at.fetch('/v1/chat/completions', { key: live, body: saying(model) })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }
  return { stored, ask }
}

test.serial('200 from every part of Vertex AI in the project of the account, by tokens for it', async t => {
  const { stored, ask } = await organisation(fileOf(first))
  t.is(stored.status, 201, stored.text)
  t.false(stored.text.includes('PRIVATE KEY'))
  vertex.reset()
  for (const model of ['gemini-3.5-flash', 'claude-haiku-4-5', 'glm-5.2']) {
    const { status, headers, text } = await ask(model)
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-own-key'), '1')
  }
  t.is(vertex.requests.length, 3)
  for (const { path, headers } of vertex.requests) {
    t.regex(path, /\/projects\/first-project\/locations\/global\//)
    t.is(tokens.owners.get(String(headers.authorization).slice(7)), first.email)
  }
})

test.serial('tokens of an account are for its own project only', async t => {
  const { stored, ask } = await organisation(fileOf(other), otherGateway)
  t.is(stored.status, 201, stored.text)
  t.is((await ask('gemini-3.5-flash')).status, 200)
  t.regex(otherVertex.requests.at(-1)!.path, /\/projects\/other-project\//)
  t.is(tokens.owners.get(String(otherVertex.requests.at(-1)!.headers.authorization).slice(7)), other.email)
})

test.serial('the address and the universe that an account names are not followed', async t => {
  const before = proxy.targets.length
  const named = { token_uri: `${vertex.url}/token`, universe_domain: 'evil.example', auth_uri: `${vertex.url}/auth` }
  const { stored, ask } = await organisation(fileOf(first, named))
  t.is(stored.status, 201, stored.text)
  t.is((await ask('gemini-3.5-flash')).status, 200)
  t.deepEqual([...new Set(proxy.targets.slice(before))], [`${tokenHost}:443`])
  t.false(vertex.requests.some(({ path }) => path === '/token' || path === '/auth'))
})

test.serial(
  '403 without the words of Google where it does not know the account’s key, whose test told them',
  async t => {
    const { privateKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    })
    const { stored, ask } = await organisation(fileOf({ ...first, privateKey }))
    t.is(stored.status, 201, stored.text)
    t.is(JSON.parse(stored.text).data.test.outcome, 'failed')
    t.false(stored.text.includes('PRIVATE KEY'))
    const { status, text } = await ask('gemini-3.5-flash')
    t.is(status, 403, text)
    t.is(JSON.parse(text).error.code, 'own_key_refused')
    t.false(text.includes('Words of the service'))
    t.is(vertex.requests.length, 0)
  },
)
