import { type Config, loadConfig } from '../../shared/base/config.ts'
import { CatalogError, loadCatalog } from '../../shared/catalog/catalog.ts'
import { namesProvider } from '../../shared/catalog/regions.ts'
import { test } from '../support/test.ts'

const stores = { DATABASE_URL: 'postgresql://localhost/x', REDIS_URL: 'redis://localhost' }
const settingsOf = (env: Record<string, string>): Config['providers'] => loadConfig({ ...stores, ...env }).providers
const offersOf = (env: Record<string, string>, model: string) =>
  loadCatalog(undefined, settingsOf(env))
    .models.get(model)!
    .providers.map(one => [one.provider, one.upstream_model, one.price.unit === 'token' ? one.price.input : null])
const faultsOf = (env: Record<string, string>): string[] => {
  try {
    loadCatalog(undefined, settingsOf(env))
  } catch (error) {
    if (error instanceof CatalogError) return error.faults
    throw error
  }
  return []
}

test('no model at a cloud that is not configured, whose row stays', t => {
  const { models, providers } = loadCatalog(undefined, settingsOf({}))
  for (const name of ['azure', 'azure/anthropic', 'vertex', 'vertex/anthropic']) t.true(providers.has(name), name)
  const names = [...models.values()].flatMap(model => model.providers.map(({ provider }) => provider))
  t.false(names.some(name => namesProvider('azure', name) || namesProvider('vertex', name)))
})

test('every model has a provider, which test keys need, whatever is configured of its cloud', t => {
  const all = loadCatalog(undefined, settingsOf({}))
  const isCloud = (name: string) => ['azure', 'bedrock', 'vertex'].some(cloud => namesProvider(cloud, name))
  const served = [...all.models.values()].filter(({ providers }) => providers.length > 0)
  const own = served.filter(({ providers }) => providers.every(({ provider }) => isCloud(provider)))
  t.true(own.some(({ id }) => id === 'nova-micro'))
  for (const env of [
    { BEDROCK_API_KEY: 'key', BEDROCK_REGIONS: 'eu-north-9' },
    { AZURE_API_KEY: 'key', AZURE_REGIONS: 'one', AZURE_DEPLOYMENTS: 'gpt-5.4=own' },
    { VERTEX_PROJECT: 'p', VERTEX_REGIONS: 'asia-x1' },
  ] as Record<string, string>[]) {
    const { models, providers } = loadCatalog(undefined, settingsOf(env))
    for (const { id } of served) {
      const offers = models.get(id)!.providers
      t.true(offers.length > 0, id)
      for (const { provider } of offers) t.true(providers.has(provider), provider)
    }
  }
  t.deepEqual(offersOf({ BEDROCK_API_KEY: 'key', BEDROCK_REGIONS: 'us-gov-west-1' }, 'nova-micro'), [
    ['bedrock', 'us.amazon.nova-micro-v1:0', '0.035'],
  ])
})

test('a provider for each region, with its deployments, base URL and the price of its zone', t => {
  const env = {
    AZURE_API_KEY: 'key',
    AZURE_REGIONS: 'one,two-b',
    AZURE_DEPLOYMENTS: 'gpt-5.4=shared',
    AZURE_TWO_B_DEPLOYMENTS: 'gpt-5.4=own@us,claude-haiku-4-5=claude',
    AZURE_TWO_B_BASE_URL: 'https://gateway.example/azure/openai/v1',
  }
  t.deepEqual(offersOf(env, 'gpt-5.4'), [
    ['openai', 'gpt-5.4', '2.5'],
    ['azure/one', 'shared', '2.5'],
    ['azure/two-b', 'own', '2.75'],
  ])
  t.deepEqual(offersOf(env, 'claude-haiku-4-5').at(-1), ['azure/two-b/anthropic', 'claude', '1'])
  const { providers } = loadCatalog(undefined, settingsOf(env))
  t.is(providers.get('azure/one')!.base_url, 'https://one.openai.azure.com/openai/v1')
  t.is(providers.get('azure/two-b')!.base_url, 'https://gateway.example/azure/openai/v1')
  t.is(providers.get('azure/two-b/anthropic')!.base_url, 'https://two-b.services.ai.azure.com/anthropic')
  t.false(providers.has('azure'))
  t.false(providers.has('azure/one/anthropic'))
})

test('offered: the deployments of a single Azure resource without a name', t => {
  const env = {
    AZURE_API_KEY: 'key',
    AZURE_BASE_URL: 'https://x.openai.azure.com/openai/v1',
    AZURE_DEPLOYMENTS: 'gpt-4o=a',
  }
  t.deepEqual(offersOf(env, 'gpt-4o').at(-1), ['azure', 'a', '2.5'])
})

test('the hosts and prices of locations, and only those that have a price', t => {
  const env = { VERTEX_PROJECT: 'p', VERTEX_REGIONS: 'global,us,us-east5,express' }
  const { providers } = loadCatalog(undefined, settingsOf(env))
  const url = (name: string) => providers.get(name)!.base_url
  t.is(url('vertex/global'), 'https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global')
  t.is(url('vertex/us'), 'https://aiplatform.us.rep.googleapis.com/v1beta1/projects/p/locations/us')
  t.is(url('vertex/us-east5/anthropic'), 'https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5')
  t.is(url('vertex/express'), 'https://aiplatform.googleapis.com/v1beta1')
  t.false(providers.has('vertex/express/anthropic'))
  t.is(
    url('vertex/us-east5/openai'),
    'https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/endpoints/openapi',
  )
  const at = (model: string) => offersOf(env, model).filter(([provider]) => namesProvider('vertex', String(provider)))
  t.deepEqual(
    at('gemini-3.1-pro-preview').map(([provider]) => provider),
    ['vertex/global', 'vertex/express'],
  )
  t.deepEqual(
    at('claude-haiku-4-5').map(([, , input]) => input),
    ['1', '1.1', '1.1'],
  )
  t.deepEqual(at('llama-4-maverick'), [
    ['vertex/us-east5/openai', 'meta/llama-4-maverick-17b-128e-instruct-maas', '0.35'],
  ])
  t.deepEqual(at('gpt-oss-120b'), [['vertex/global/openai', 'openai/gpt-oss-120b-maas', '0.09']])
})

for (const [title, env, fault] of [
  [
    'a zone without a price',
    { AZURE_DEPLOYMENTS: 'gpt-5.4=a@mars' },
    /AZURE_ONE_DEPLOYMENTS: gpt-5.4 has no price for the zone "mars"/,
  ],
  [
    'a model that is not there',
    { AZURE_DEPLOYMENTS: 'gpt-9=a' },
    /AZURE_ONE_DEPLOYMENTS: the catalog has no model "gpt-9" at azure/,
  ],
  ['a list that is none', { AZURE_DEPLOYMENTS: 'gpt-5.4' }, /AZURE_ONE_DEPLOYMENTS: must be a list/],
  ['a region twice', { AZURE_REGIONS: 'one,one' }, /AZURE_REGIONS: must be different names/],
  ['a region with other letters', { AZURE_REGIONS: 'one/two' }, /AZURE_REGIONS: must be different names/],
  ['no region', { AZURE_REGIONS: '' }, /AZURE_REGIONS is not set/],
  ['no project', { VERTEX_REGIONS: 'global' }, /VERTEX_PROJECT is not set/],
  [
    'credentials that are no JSON',
    { VERTEX_REGIONS: 'global', VERTEX_PROJECT: 'p', VERTEX_CREDENTIALS: 'secret words' },
    /^VERTEX_CREDENTIALS: must be the JSON of a credentials file$/,
  ],
] as const)
  test(`one fault for ${title}`, t => {
    const faults = faultsOf({ AZURE_API_KEY: 'key', AZURE_REGIONS: 'one', ...env })
    t.is(faults.length, 1, faults.join('\n'))
    t.regex(faults[0]!, fault)
  })

test('ok: variables of other programs are no fault', t => {
  const env = {
    GOOGLE_APPLICATION_CREDENTIALS: '/path',
    AWS_SHARED_CREDENTIALS_FILE: '/nowhere',
    CI_PROJECT: 'x',
    CI_REGIONS: 'a/b',
  }
  t.deepEqual(faultsOf(env), [])
})

test('the name of a provider means all of its regions and parts', t => {
  t.true(namesProvider('azure', 'azure/eastus/anthropic'))
  t.true(namesProvider('azure/eastus', 'azure/eastus/anthropic'))
  t.false(namesProvider('azure/east', 'azure/eastus'))
  t.false(namesProvider('azure/eastus', 'azure'))
})
