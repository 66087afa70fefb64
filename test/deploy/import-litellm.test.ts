import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { parseApplyFile } from '../../api/operator/apply/apply-file.ts'
import { importLiteLlm } from '../../api/operator/import/litellm.ts'
import names from '../../api/operator/import/litellm-providers.json' with { type: 'json' }
import reasons from '../../api/operator/import/litellm-reasons.json' with { type: 'json' }
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useFolder, useStores } from '../support/use.ts'

const path = join(import.meta.dirname, '../fixtures/litellm/config.yaml')
const text = readFileSync(path, 'utf8')
const catalog = loadCatalog()
const environment: Record<string, string> = { AZURE_API_BASE: 'https://acme.openai.azure.com/' }
const source = { catalog, shipped: catalog, variable: (name: string) => environment[name] }
const { file, left } = importLiteLlm(text, source)
const stores = useStores(test)
const folder = useFolder(test)

// biome-ignore lint/suspicious/noExplicitAny: the shape is what is tested
const made = file as any
const variables = (name: string) => `value-of-${name}`
const placeOf = (part: string) => left.filter(({ place }) => place.includes(part))

test('a config of LiteLLM becomes a file that can be applied', t => {
  const read = parseApplyFile(stringify(file), { variable: variables, folder: '.' })
  t.deepEqual(Object.keys(read.models).sort(), ['bge-m3', 'our-chat', 'vllm-model'])
  t.is(read.owner, 'litellm')
})

test('deployments of one name are one model with several providers; Azure by its resource', t => {
  const { providers, ...model } = made.models['our-chat']
  t.like(model, { context_length: 128_000, supported_parameters: ['tools'], input_modalities: ['text', 'image'] })
  const [europe, canada] = providers
  t.like(made.providers[europe.provider], {
    base_url: 'https://our-endpoint-europe.openai.azure.com/openai/v1',
    auth: 'api-key',
  })
  t.like(europe, {
    upstream_model: 'our-gpt-4o-eu',
    headers: { 'X-Team': 'search', 'x-token': `\${TEAM_TOKEN}` },
    parameters: { default: { temperature: 0.2 } },
  })
  t.is(canada.upstream_model, 'our-gpt-4o-ca')
  t.deepEqual(
    europe.price.input,
    catalog.find('gpt-4o')!.providers[0]!.price.unit === 'token'
      ? (catalog.find('gpt-4o')!.providers[0]!.price as { input: string }).input
      : null,
  )
  t.deepEqual(made.provider_keys[europe.provider], [`\${AZURE_API_KEY_EU}`])
})

test('a server of one’s own has its price, its settings and no key', t => {
  const [offer] = made.models['vllm-model'].providers
  t.like(offer, {
    upstream_model: 'facebook/opt-125m',
    price: { unit: 'token', input: '0.25', output: '1' },
    parameters: { default: { top_k: 40 } },
  })
  t.like(made.providers[offer.provider], { base_url: 'http://0.0.0.0:4000/v1', auth: 'none' })
  t.is(made.models['bge-m3'].type, 'embeddings')
})

test('models of the catalog become aliases, and aliases of groups too', t => {
  t.deepEqual(made.aliases, {
    'claude-for-us': catalog.find('claude-sonnet-4-5')!.id,
    'our-alias': 'our-chat',
    fast: 'gpt-4o',
  })
  t.deepEqual(made.provider_keys.anthropic, [`\${ANTHROPIC_API_KEY_TWO}`])
  t.false('openai' in made.provider_keys, 'the gateway reads OPENAI_API_KEY itself')
})

test('what is not carried over is listed with its place, its line and a reason, and without a secret', t => {
  for (const part of [
    '0.litellm_params.rpm',
    '0.litellm_params.timeout',
    '0.litellm_params.stream_timeout',
    'api_version',
    '3.litellm_params.max_tokens',
    'model_list.6',
    'model_list.7',
    'drop_params',
    'num_retries',
    'success_callback',
    'fallbacks',
    'something_new',
    'routing_strategy',
    'redis_password',
    'model_group_alias.lost',
    'master_key',
    'environment_variables',
  ])
    t.is(placeOf(part).length >= 1, true, part)
  for (const { line, reason } of left) {
    t.true(Number(line) > 1)
    t.true(reason.length > 10)
  }
  t.is(placeOf('2.litellm_params.api_key').length, 1)
  t.regex(text.split('\n')[placeOf('master_key')[0]!.line! - 1]!, /master_key/)
  const all = JSON.stringify({ file, left })
  for (const secret of ['written-into-the-config', 'the-master-key', 'secret-value-0815']) t.false(all.includes(secret))
})

/** Imports entries of `model_list`, each a name and its `litellm_params`. */
function importList(entries: Record<string, object>) {
  const list = Object.entries(entries).map(([name, params]) => ({ model_name: name, litellm_params: params }))
  const { file, left } = importLiteLlm(stringify({ model_list: list }), source)
  // biome-ignore lint/suspicious/noExplicitAny: the shape is what is tested
  return { file: file as any, left }
}

test('models of the clouds become aliases, whatever route, region and version LiteLLM’s name has', t => {
  const names = {
    'bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0': 'claude-haiku-4-5',
    'bedrock/converse/us.anthropic.claude-opus-4-5-20251101-v1:0': 'claude-opus-4-5',
    'bedrock/invoke/eu.anthropic.claude-haiku-4-5-20251001-v1:0': 'claude-haiku-4-5',
    'bedrock/us-west-2/anthropic.claude-haiku-4-5-20251001-v1:0': 'claude-haiku-4-5',
    'bedrock/global.anthropic.claude-opus-4-7': 'claude-opus-4-7',
    'vertex_ai/claude-sonnet-4-5@20250929': 'claude-sonnet-4-5',
    'vertex_ai/claude-haiku-4-5': 'claude-haiku-4-5',
    'vertex_ai/gemini-2.5-pro': 'gemini-2.5-pro',
    'cohere_chat/command-a-03-2025': catalog.find('command-a-03-2025')!.id,
  }
  const entries = Object.keys(names).map((model, index) => [`own-${index}`, { model }])
  const { file, left } = importList(Object.fromEntries(entries))
  t.deepEqual(Object.values(file.aliases), Object.values(names))
  t.false('models' in file)
  t.deepEqual(left, [])
})

test('names without a provider are OpenAI’s, Anthropic’s or Cohere’s, as LiteLLM reads them', t => {
  const { file } = importList({
    old: { model: 'gpt-3.5-turbo', input_cost_per_token: 5e-7, output_cost_per_token: 1.5e-6 },
    tuned: { model: 'ft:gpt-4o-mini-2024-07-18:acme::a1', input_cost_per_token: 3e-7, output_cost_per_token: 1.2e-6 },
    older: { model: 'claude-3-opus-20240229', input_cost_per_token: 1.5e-5, output_cost_per_token: 7.5e-5 },
  })
  t.deepEqual(
    Object.values<{ providers: { provider: string }[] }>(file.models).map(({ providers }) => providers[0]!.provider),
    ['openai', 'openai', 'anthropic'],
  )
})

test('a price that is not known is left out at a provider that charges, so that apply asks for it', t => {
  const azure = 'https://acme.openai.azure.com'
  const { file, left } = importList({
    premier: { model: 'bedrock/converse/us.amazon.nova-premier-v1:0' },
    routed: { model: 'openrouter/acme/unknown' },
    deployed: { model: 'azure/our-deployment', api_base: azure, api_key: 'os.environ/AZURE_API_KEY' },
    server: { model: 'openai/our-model', api_base: 'http://10.0.0.7:8000/v1' },
    local: { model: 'ollama_chat/qwen9:8b' },
  })
  const offers = Object.fromEntries(
    Object.entries<{ providers: object[] }>(file.models).map(([name, { providers }]) => [name, providers[0]]),
  )
  t.deepEqual(offers.premier, { provider: 'bedrock', upstream_model: 'us.amazon.nova-premier-v1:0' })
  for (const name of ['premier', 'routed', 'deployed']) t.false('price' in offers[name]!, name)
  for (const name of ['server', 'local']) t.like(offers[name]!, { price: { unit: 'token', input: '0', output: '0' } })
  t.is(left.filter(({ reason }) => reason.includes('price')).length, 5)
  const error = t.throws(() => parseApplyFile(stringify(file), { variable: variables, folder: '.' }))
  t.regex(error.message, /models\.premier\.providers\.0\.price: is required/)
})

test('Claude at Azure AI Foundry is reached by Anthropic’s protocol', t => {
  const { file } = importList({
    foundry: {
      model: 'azure_ai/claude-haiku-4-5',
      api_base: 'https://acme.services.ai.azure.com/anthropic',
      api_key: 'os.environ/AZURE_AI_API_KEY',
    },
  })
  const [offer] = file.models.foundry.providers
  t.like(file.providers[offer.provider], {
    base_url: 'https://acme.services.ai.azure.com/anthropic',
    protocol: 'anthropic',
    auth: 'x-api-key',
  })
  t.is(offer.price.input, (catalog.find('claude-haiku-4-5')!.providers[0]!.price as { input: string }).input)
})

test('an address in a variable is that of the environment of the import; one that is not set is listed', t => {
  const entry = { model: 'azure/prod', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 }
  const { file, left } = importList({
    set: { ...entry, api_base: 'os.environ/AZURE_API_BASE', api_key: 'os.environ/AZURE_API_KEY' },
    unset: { ...entry, api_base: 'os.environ/OTHER_API_BASE' },
  })
  const [offer] = file.models.set.providers
  t.like(file.providers[offer.provider], { base_url: 'https://acme.openai.azure.com/openai/v1', auth: 'api-key' })
  t.false('unset' in file.models)
  t.regex(left.find(({ place }) => place.endsWith('1.litellm_params.api_base'))!.reason, /set OTHER_API_BASE/)
})

test('a server of Ollama is called at /v1; models for vectors are told by their names, those for media left out', t => {
  const { file, left } = importList({
    'llama 3.2': { model: 'ollama_chat/llama3.2', api_base: 'http://ollama:11434' },
    vectors: { model: 'openai/nomic-embed-text', api_base: 'http://10.0.0.8:8080/v1' },
    pictures: { model: 'vertex_ai/imagen-9.0-generate-001' },
    'Nova Pro': { model: 'bedrock/apac.amazon.nova-pro-v1:0' },
    'Our Nova': { model: 'bedrock/apac.amazon.nova-pro-v1:0' },
  })
  const [offer] = file.models['llama-3.2'].providers
  t.like(file.providers[offer.provider], { base_url: 'http://ollama:11434/v1', auth: 'none' })
  t.is(file.models.vectors.type, 'embeddings')
  t.false('pictures' in file.models)
  t.deepEqual(file.aliases, { 'our-nova': 'nova-pro' })
  t.regex(left.map(({ reason }) => reason).join(), /image_generation/)
})

test('every provider has its name at LiteLLM, or none', t => {
  const families = new Set([...catalog.providers.keys()].map(name => name.split('/')[0]!))
  const named = new Set([...Object.values(names.providers), ...names.unknown])
  t.deepEqual(
    [...families].filter(name => !named.has(name)),
    [],
  )
})

test('reasons name variables that there are', t => {
  const documented = ['configuration', 'providers']
    .map(name => readFileSync(join(import.meta.dirname, `../../docs/${name}.md`), 'utf8'))
    .join()
  const variablesOf = (reason: string) => reason.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? []
  const unknown = [...Object.values(reasons.litellm_params), ...Object.values(reasons.sections)]
    .flatMap(variablesOf)
    .filter(name => !documented.includes(name))
  t.deepEqual([...new Set(unknown)], [])
})

test('exit 0: import litellm prints the file, and apply takes it', async t => {
  const env = storesEnv(stores)
  const printed = await runOperator(env, 'import', 'litellm', path)
  t.is(printed.exitCode, 0, printed.stderr)
  t.regex(printed.stdout, /# Not carried over \(\d+\):\n# line \d+: model_list\.0/)
  const applied = join(folder, 'gateway.yaml')
  writeFileSync(applied, printed.stdout)
  const named = Object.fromEntries(
    [...printed.stdout.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => [name!, `value-of-${name}`]),
  )
  const { exitCode, stdout, stderr } = await runOperator({ ...env, ...named }, 'apply', applied, '--yes', '--skip-test')
  t.is(exitCode, 0, stderr)
  t.regex(stdout, /\d+ to create, 0 to change, 0 to delete, 0 unchanged\nApplied\./)
})
