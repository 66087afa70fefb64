import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { parseApplyFile } from '../../api/operator/apply/apply-file.ts'
import { importLiteLlm } from '../../api/operator/import/litellm.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useFolder, useStores } from '../support/use.ts'

const path = join(import.meta.dirname, '../fixtures/litellm/config.yaml')
const text = readFileSync(path, 'utf8')
const catalog = loadCatalog()
const { file, left } = importLiteLlm(text, catalog)
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
