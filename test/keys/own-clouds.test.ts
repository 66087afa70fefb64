import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { operatorActor } from '../../shared/io/audit.ts'
import { startAnthropicEmulator } from '../emulators/anthropic.ts'
import { azureReply } from '../emulators/azure.ts'
import { startBedrockEmulator } from '../emulators/bedrock.ts'
import { Emulator, json, type Recorded } from '../emulators/emulator.ts'
import { saying } from '../support/chat/gateway.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { use, useFolder, useGateway, useStores } from '../support/use.ts'

/** Own keys of organisations at clouds: resources of Azure, whose deployments have names of the account, and access keys of AWS. */

const secrets = { contoso: 'contoso-secret-0123456789', fabrikam: 'fabrikam-secret-0123456789' }
const resources: Record<string, ReturnType<typeof azureReply>> = {
  contoso: azureReply({
    apiKey: secrets.contoso,
    deployments: { 'prod-five': 'gpt-5.4', vectors: 'text-embedding-3-small', omni: 'gpt-4o' },
  }),
  fabrikam: azureReply({ apiKey: secrets.fabrikam, deployments: { five: 'gpt-5.4' } }),
}
const awsKey = { accessKeyId: 'AKIAEMULATED00000001', secretAccessKey: 'own/secret+key' }

const folder = useFolder(test)
/** Every resource, at `/<name>`. */
const azure = use(test, () =>
  Emulator.start((request, response) => {
    const [, name = '', path = ''] = /^\/([^/]+)(\/.*)$/.exec(request.path) ?? []
    const reply = resources[name] ?? json(404, { error: { code: '404', message: 'Resource not found' } })
    return reply({ ...request, path } as Recorded, response)
  }),
)
const claude = use(test, () => startAnthropicEmulator())
const ireland = use(test, () => startBedrockEmulator({ region: 'eu-west-1', keys: [awsKey] }))

/** A catalog whose Azure is the emulator; the operator has a resource of its own, or none. */
const settings = (more: Record<string, string> = {}) => {
  const file = join(folder, `catalog-${Object.keys(more).length}.json`)
  const row = { protocol: 'openai', auth: 'api-key', named_deployments: true, identity: 'entra' }
  const quirks = { max_tokens_field: 'max_completion_tokens' }
  const providers = [
    { name: 'azure', base_url: `${azure.url}/{region}/openai/v1`, quirks, ...row },
    { name: 'azure/anthropic', base_url: `${claude.url}/{region}`, ...row, protocol: 'anthropic', auth: 'x-api-key' },
  ]
  writeFileSync(file, JSON.stringify({ providers }))
  return {
    MODEL_CATALOG: file,
    ENCRYPTION_KEY: 'a'.repeat(32),
    OWN_KEY_FEE_PERCENT: '10',
    BEDROCK_REGIONS: 'eu-west-1',
    BEDROCK_BASE_URL: ireland.url,
    ...more,
  }
}
const stores = useStores(test)
const gateway = useGateway(test, () => settings(), { stores })
/** With a resource of the operator's, to which nothing of an own key may go. */
const placed = useGateway(test, () =>
  settings({ AZURE_REGIONS: 'operators', AZURE_API_KEY: 'operator-secret', AZURE_DEPLOYMENTS: 'gpt-5.4=theirs' }),
)
test.beforeEach(() => {
  for (const emulator of [azure, ireland]) emulator.reset()
})

const contoso = {
  name: 'contoso',
  deployments: [
    { model: 'gpt-5.4', name: 'prod-five' },
    { model: 'text-embedding-3-small', name: 'vectors' },
    { model: 'gpt-4o', name: 'omni', zone: 'eu' },
  ],
}
const ofAzure = { provider: 'azure', name: 'Contoso', secret: secrets.contoso, resource: contoso }

// biome-ignore lint/suspicious/noExplicitAny: answers of the API
type Answer = Record<string, any>

/** An organisation with a live key in mode `own`, and its provisioning key. */
async function organisation(at = gateway) {
  const account = await at.account({ usd: '5' })
  const provisioning = (await at.services.keys.createProvisioning(account.organisationId, operatorActor)).secret
  const live = await at.key(account.organisationId, 'live', { own_keys: 'own' })
  const store = async (body: object, path = '', method = 'POST') => {
    const response = await at.fetch(`/api/v1/provider-keys${path}`, { key: provisioning, method, body })
    return { status: response.status, answer: (await response.json()) as Answer }
  }
  const ask = async (body: object, path = '/v1/chat/completions') => {
    const response = await at.fetch(path, { key: live, body })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  return { ...account, provisioning, live, store, ask }
}

for (const [title, at] of [
  ['an operator without Azure', () => gateway],
  ['an operator with a resource', () => placed],
] as const)
  test.serial(`200 from the deployment of the organisation’s resource at ${title}`, async t => {
    const { store, ask } = await organisation(at())
    const { status, answer } = await store(ofAzure)
    t.is(status, 201, JSON.stringify(answer))
    t.deepEqual(answer.data.resource, contoso)
    t.is(answer.data.test.outcome, 'accepted')
    t.false(JSON.stringify(answer).includes(secrets.contoso))
    azure.reset()
    const plain = await ask(saying('gpt-5.4'))
    t.is(plain.status, 200, plain.text)
    t.is(plain.headers.get('x-gateway-provider'), 'azure')
    t.is(plain.headers.get('x-gateway-own-key'), '1')
    const streamed = await ask(saying('gpt-4o', 'Hi', { stream: true }))
    t.is(streamed.status, 200, streamed.text)
    const messages = await ask({ ...saying('gpt-5.4'), max_tokens: 20 }, '/v1/messages')
    t.is(messages.status, 200, messages.text)
    const vectors = await ask({ model: 'text-embedding-3-small', input: 'Hi' }, '/v1/embeddings')
    t.is(vectors.status, 200, vectors.text)
    t.deepEqual(
      azure.requests.map(({ path, body, headers }) => [path, body.model, headers['api-key']]),
      [
        ['chat/completions', 'prod-five'],
        ['chat/completions', 'omni'],
        ['chat/completions', 'prod-five'],
        ['embeddings', 'vectors'],
      ].map(([path, model]) => [`/contoso/openai/v1/${path}`, model, secrets.contoso]),
    )
    t.deepEqual(await at().settled(), [])
  })

test.serial('the price is that of the zone, and a model without a deployment is not served', async t => {
  const { store, ask } = await organisation()
  t.is((await store(ofAzure)).status, 201)
  const { headers, text } = await ask(saying('gpt-4o'))
  const { usage } = JSON.parse(text)
  // USD 2.75 and 11 per million in the zone `eu`, of which a fee of 10 % is charged.
  const listUsd = (usage.prompt_tokens * 2.75 + usage.completion_tokens * 11) / 1e6
  t.is(usage.cost_details.upstream_inference_cost.toFixed(9), listUsd.toFixed(9))
  t.is(headers.get('x-gateway-own-key'), '1')
  const absent = await ask(saying('gpt-4o-mini'))
  t.is(absent.status, 403, absent.text)
  t.is(JSON.parse(absent.text).error.code, 'no_own_key')
})

test.serial('two organisations with resources of their own never meet', async t => {
  const [one, other] = await Promise.all([organisation(), organisation()])
  t.is((await one.store(ofAzure)).status, 201)
  const resource = { name: 'fabrikam', deployments: [{ model: 'gpt-5.4', name: 'five' }] }
  t.is((await other.store({ ...ofAzure, secret: secrets.fabrikam, resource })).status, 201)
  azure.reset()
  const answers = await Promise.all([one, other, one, other].map(({ ask }) => ask(saying('gpt-5.4'))))
  for (const { status, text } of answers) t.is(status, 200, text)
  for (const { path, headers, body } of azure.requests) {
    const [, name] = path.split('/') as [string, keyof typeof secrets]
    t.is(headers['api-key'], secrets[name])
    t.is(body.model, name === 'contoso' ? 'prod-five' : 'five')
  }
})

test.serial('400 for what no resource is, by the name of its field; nothing is stored', async t => {
  const { store, organisationId } = await organisation()
  const one = (deployment: object) => ({ name: 'contoso', deployments: [deployment] })
  const five = { model: 'gpt-5.4', name: 'five' }
  const wrong: [object, RegExp][] = [
    [{ resource: undefined }, /^`?resource/],
    [{ resource: { ...contoso, name: 'evil.example/x' } }, /resource\.name/],
    [{ resource: { ...contoso, name: 'evil.example#' } }, /resource\.name/],
    [{ resource: { ...contoso, name: 'a@b' } }, /resource\.name/],
    [{ resource: { ...contoso, deployments: [] } }, /resource\.deployments/],
    [{ resource: one({ ...five, name: '../models' }) }, /resource\.deployments\.0\.name/],
    [{ resource: one({ ...five, model: 'nothing' }) }, /resource\.deployments\.0/],
    [{ resource: one({ ...five, model: 'gemini-2.5-pro' }) }, /resource\.deployments\.0/],
    [{ resource: one({ ...five, zone: 'moon' }) }, /zone "moon"/],
    [{ resource: { name: 'contoso', deployments: [five, { ...five, name: 'other' }] } }, /twice/],
    [{ provider: 'openai' }, /resource/],
    [{ secret: 'wrong-secret-0123456789' }, /azure refused this key/],
  ]
  for (const [change, message] of wrong) {
    const { status, answer } = await store({ ...ofAzure, ...change })
    t.is(status, 400, JSON.stringify(answer))
    t.regex(answer.error.message, message)
  }
  t.deepEqual(await gateway.services.providerKeys.list(organisationId), [])
})

test.serial('a resource is changed with the next request, after its key was tested there', async t => {
  const { store, ask } = await organisation()
  const { answer } = await store(ofAzure)
  const path = `/${answer.data.id}`
  const moved = { name: 'fabrikam', deployments: [{ model: 'gpt-5.4', name: 'five' }] }
  const refused = await store({ resource: moved }, path, 'PATCH')
  t.is(refused.status, 400, JSON.stringify(refused.answer))
  t.is((await store({ resource: moved, secret: secrets.fabrikam }, path, 'PATCH')).status, 200)
  azure.reset()
  t.is((await ask(saying('gpt-5.4'))).status, 200)
  t.like(azure.requests[0], { path: '/fabrikam/openai/v1/chat/completions' })
})

test.serial('the operator stores one with names as in `AZURE_DEPLOYMENTS`', async t => {
  const { organisationId, ask } = await organisation()
  const file = join(folder, 'secret')
  writeFileSync(file, secrets.contoso)
  const flags = ['--org', organisationId, '--provider', 'azure', '--name', 'Mine', '--secret-file', file]
  const env = { ...storesEnv(stores), ...settings() }
  const add = (deployments: string) =>
    runOperator(env, 'own-key', 'add', ...flags, '--resource', 'contoso', '--deployments', deployments)
  t.not((await add('gpt-5.4')).exitCode, 0)
  const { exitCode, stderr } = await add('gpt-5.4=prod-five,gpt-4o=omni@eu')
  t.is(exitCode, 0, stderr)
  t.is((await ask(saying('gpt-4o'))).status, 200)
})

test.serial('200 from Amazon Bedrock, whose requests are signed with the organisation’s access key', async t => {
  const { store, ask } = await organisation()
  const secret = `${awsKey.accessKeyId}:${awsKey.secretAccessKey}`
  t.is((await store({ provider: 'bedrock', name: 'AWS', secret })).status, 201)
  for (const stream of [false, true]) {
    const { status, text, headers } = await ask(saying('nova-lite', 'Hello', { stream }))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-own-key'), '1')
    t.false(text.includes(awsKey.secretAccessKey))
  }
  for (const { headers } of ireland.requests) t.regex(String(headers.authorization), new RegExp(awsKey.accessKeyId))
})

test.serial('400 for an access key that AWS refuses', async t => {
  const { store } = await organisation()
  const secret = 'AKIAEMULATED00000009:somebody/elses+key00'
  const { status, answer } = await store({ provider: 'bedrock', name: 'Wrong', secret })
  t.is(status, 400, JSON.stringify(answer))
  t.regex(answer.error.message, /bedrock refused this key/)
  t.false(JSON.stringify(answer).includes('somebody'))
})
