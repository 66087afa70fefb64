import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { page, withCatalogTables } from '../../docs/catalog-tables.ts'
import { CatalogError, loadCatalog } from '../../shared/catalog/catalog.ts'
import { maxTokenRates, tokenRates } from '../../shared/catalog/prices.ts'
import { type Deployment, endpoints, type ModelRow } from '../../shared/catalog/schema.ts'
import {
  billsDocumentText,
  canReason,
  maxAudioTokensPerSecond,
  maxImageTokens,
  maxPageTokens,
  maxPromptTokens,
  reasonsBesideLimit,
} from '../../shared/catalog/traits.ts'
import { test } from '../support/test.ts'

const today = '2026-11-20'
const catalog = loadCatalog()
const rows = [...catalog.models.values()]

function operatorFile(content: unknown): string {
  const path = join(mkdtempSync(join(tmpdir(), 'catalog-')), 'models.json')
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

function faultsOf(content: unknown): string[] {
  try {
    loadCatalog(operatorFile(content))
  } catch (error) {
    if (error instanceof CatalogError) return error.faults
    throw error
  }
  return []
}

const ownRow = {
  id: 'house-model',
  name: 'House model',
  type: 'chat',
  owned_by: 'house',
  created: 0,
  description: 'Ours.',
  context_length: 8192,
  max_output_tokens: 1024,
  input_modalities: ['text'],
  output_modalities: ['text'],
  supported_parameters: [],
  quality: null,
  expires_on: null,
  price_source: 'own',
  price_as_of: today,
  providers: [{ provider: 'house', upstream_model: 'h1', price: { unit: 'token', input: '1', output: '2' } }],
} satisfies Partial<Record<keyof ModelRow, unknown>>
const ownProvider = { name: 'house', protocol: 'openai', base_url: 'http://10.0.0.5:8000/v1', auth: 'bearer' }

test('shipped: at least 80 models, and an enabled one of every type', t => {
  t.true(rows.length >= 80)
  for (const type of Object.keys(endpoints)) {
    t.true(
      rows.some(row => row.type === type && !row.disabled),
      type,
    )
  }
})

test('shipped: an enabled row has providers and a price with date and source; a disabled one is never half priced', t => {
  for (const row of rows) {
    if (!row.disabled) t.true(row.providers.length > 0, row.id)
    const priced = row.providers.length > 0
    t.is(row.price_source !== null, priced, row.id)
    t.is(row.price_as_of !== null, priced, row.id)
    for (const { provider } of row.providers) t.true(catalog.providers.has(provider), row.id)
  }
})

test('a model is found by its id and its aliases, with its vendor or without, in any case', t => {
  const names: Record<string, string[]> = {
    'gpt-4o': ['gpt-4o', 'openai/gpt-4o', 'gpt-4o-2024-08-06', 'OpenAI/gpt-4o-2024-11-20'],
    'claude-sonnet-4-5': ['claude-sonnet-4-5-20250929', 'anthropic/claude-sonnet-4.5', 'claude-sonnet-4.5'],
    'grok-4.5': ['x-ai/grok-4.5', 'xai/grok-4.5'],
    'gpt-5.6-sol': ['gpt-5.6', 'openai/gpt-5.6'],
    'gemini-2.5-flash': ['models/gemini-2.5-flash', 'gemini/gemini-2.5-flash', 'google/gemini-2.5-flash'],
    'gemini-3.8-flash': ['gemini-flash-latest', 'models/gemini-flash-latest'],
    'mistral-large-3': ['mistral-large-latest', 'mistral/mistral-large-latest', 'mistralai/mistral-large-latest'],
    'mistral-medium-3.5': ['mistral-medium-latest', 'magistral-medium-latest'],
    'mistral-small-4': ['mistral-small-latest', 'magistral-small-latest'],
    'llama-4-maverick': ['meta-llama/llama-4-maverick-17b-128e-instruct'],
    'claude-haiku-5-5': ['claude-haiku-5.5', 'anthropic/claude-haiku-5-5'],
    'claude-fable-5-2': ['claude-fable-5.2'],
    'deepseek-v4.1-flash': ['deepseek-flash'],
  }
  for (const [id, slugs] of Object.entries(names)) for (const slug of slugs) t.is(catalog.find(slug)?.id, id, slug)
  // It has another price than the family.
  t.is(catalog.find('gpt-4o-2024-05-13'), undefined)
})

test('an alias that names something else is a fault; a shipped one yields to the operator’s own rows', t => {
  const providers = [ownProvider]
  const withAliases = (...aliases: string[]) => faultsOf({ providers, models: [{ ...ownRow, aliases }] })
  t.deepEqual(withAliases('house-1', 'house/house-2', 'gpt-4o-2024-08-06'), [])
  t.regex(withAliases('GPT-4o').join(), /models\[house-model\]: aliases: "GPT-4o" already names gpt-4o/)
  t.regex(withAliases('openai/gpt-4o').join(), /already names gpt-4o/)
  t.regex(withAliases('auto').join(), /already names the router/)
  t.regex(withAliases('house-1', 'house-1').join(), /already names house-model/)
  t.is(withAliases('two words').length, 1)
  const own = loadCatalog(operatorFile({ providers, models: [{ ...ownRow, id: 'gpt-4o-2024-08-06' }] }))
  t.is(own.find('gpt-4o-2024-08-06')?.owned_by, 'house')
  t.false(own.models.get('gpt-4o')!.aliases.includes('gpt-4o-2024-08-06'))
})

test('shipped: nothing that costs us money is free', t => {
  for (const row of rows) {
    if (row.type === 'moderation') continue // Free at OpenAI (platform.openai.com/docs/guides/moderation).
    for (const { provider, price } of row.providers) {
      const amount = price.unit === 'token' ? maxTokenRates(price).input : Number(price.usd)
      t.is(amount > 0, catalog.providers.get(provider)?.auth !== 'none', `${row.id} at ${provider}`)
    }
  }
})

test('shipped: an upper tier is never cheaper and prices the classes of the lower one', t => {
  for (const row of rows) {
    for (const { price } of row.providers) {
      if (price.unit !== 'token' || !price.above) continue
      const [below, above] = [tokenRates(price, price.above.tokens), tokenRates(price, price.above.tokens + 1)]
      for (const key of Object.keys(below) as (keyof typeof below)[])
        t.true(above[key] >= below[key], `${row.id}: ${key}`)
    }
  }
})

test('shipped: a model has a price of cached input at each provider, or says why there is none', t => {
  for (const { id, type, providers } of catalog.models.values()) {
    if (type === 'embeddings') continue
    for (const { provider, price, cached_input_source: source } of providers) {
      if (price.unit !== 'token' || Number(price.input) === 0) continue
      if (price.cached_input === undefined) t.regex(source ?? '', /^none\b.{10}/, `${id} at ${provider}`)
      else t.true(Number(price.cached_input) < Number(price.input), `${id} at ${provider}`)
    }
  }
})

test('shipped: no chat model takes video, as no route of chat does', t => {
  const taking = [...catalog.models.values()].filter(
    ({ type, input_modalities: takes }) => type === 'chat' && takes.includes('video'),
  )
  t.deepEqual(
    taking.map(({ id }) => id),
    [],
  )
})

test('shipped: no retired model, and no expiry in the past', t => {
  const retired =
    /^(sora-.*|dall-e-[23]|gpt-image-1|o1|o3-mini|o4-mini|gpt-4-turbo|gpt-4|gpt-3\.5-turbo.*|gemini-2\.5-.*-preview-tts|gemini-3\.1-flash-tts-preview)$/
  for (const row of rows) {
    t.notRegex(row.id, retired)
    for (const { upstream_model } of row.providers) t.notRegex(upstream_model, retired)
    t.true(row.expires_on === null || row.expires_on > today, row.id)
  }
})

test('shipped: a retired name is no row’s, and an enabled model that stays replaces it', t => {
  t.true(catalog.retired.size >= 80)
  for (const [name, { replaced_by: id }] of catalog.retired) {
    t.is(catalog.find(name), undefined, name)
    t.like(catalog.models.get(id), { disabled: false, expires_on: null }, name)
  }
})

test('an operator’s row takes a retired name, and an operator’s file may retire names of its own', t => {
  const retired = [{ names: ['House-0'], retired_on: null, replaced_by: 'house-model', source: 'own' }]
  const own = loadCatalog(
    operatorFile({ providers: [ownProvider], models: [{ ...ownRow, aliases: ['gpt-3.5-turbo'] }], retired }),
  )
  t.is(own.find('gpt-3.5-turbo')?.id, 'house-model')
  t.is(own.retired.get('house-0')?.replaced_by, 'house-model')
  t.deepEqual(faultsOf({ retired: [{ ...retired[0], replaced_by: 'nope' }, ...retired, ...retired] }), [
    'models.json: retired[house-model]: names: "house-0" is there twice',
    'models.json: retired[house-model]: names: "house-0" is there twice',
    'models.json: retired[house-0]: replaced_by: there is no model "house-model"',
  ])
})

test('shipped: announced ends are recorded', t => {
  const ends: Record<string, string> = {
    'gpt-5': '2026-12-11',
    'gpt-5-mini': '2026-12-11',
    'gpt-5-nano': '2026-12-11',
    o3: '2026-12-11',
    'gpt-4o': '2027-01-14',
    'gpt-4.1': '2027-01-14',
    'gpt-5.1': '2027-04-01',
    'gpt-5.4-nano': '2027-04-01',
    'tts-1': '2027-01-06',
    'gpt-4o-mini-tts': '2027-01-06',
    // TEN-framework/ten-framework#2302, kizuna-ai-lab/sokuji#349
    ...{ 'gpt-realtime': '2027-01-20', 'gpt-realtime-mini': '2027-01-20', 'gpt-audio': '2027-01-20' },
  }
  for (const [id, end] of Object.entries(ends)) t.is(catalog.models.get(id)?.expires_on, end, id)
})

test('shipped: models that reject sampling parameters say so', t => {
  for (const id of ['claude-opus-4-7', 'claude-opus-4-8', 'claude-opus-5', 'claude-sonnet-5', 'claude-fable-5']) {
    const row = catalog.models.get(id)
    t.is(row?.providers.find(({ provider }) => provider === 'anthropic')?.profile?.sampling, 'none', id)
    t.false(row?.supported_parameters.includes('temperature'), id)
  }
})

const targetsOf = (type: string) =>
  rows.filter(row => row.type === type).flatMap(model => catalog.targets(model).map(target => ({ model, ...target })))

test('shipped: what a prompt and an answer can have at most is known of every model that is priced by the token', t => {
  for (const target of [...targetsOf('chat'), ...targetsOf('embeddings')]) {
    const name = `${target.model.id} at ${target.provider.name}`
    t.true((target.model.context_length ?? 0) > 0, name)
    t.true(maxPromptTokens(target)! >= target.model.context_length!, name)
    if (target.model.type === 'chat') t.true((target.model.max_output_tokens ?? 0) > 0, name)
  }
})

test('shipped: what an image, a page and a second of sound can cost is known wherever they are taken and paid for', t => {
  for (const target of targetsOf('chat')) {
    const { input_modalities: takes, id } = target.model
    const name = `${id} at ${target.provider.name}`
    if (takes.includes('image')) t.true(maxImageTokens(target)! >= 1_000, name)
    if (takes.includes('file')) t.true(maxPageTokens(target)! >= 258, name)
    if (takes.includes('audio')) t.true(maxAudioTokensPerSecond(target)! >= 20, name)
  }
})

test('shipped: a model that takes a reasoning effort, or is known to reason, may reason', t => {
  for (const { model, deployment, provider } of targetsOf('chat')) {
    const name = `${model.id} at ${provider.name}`
    if (model.supported_parameters.includes('reasoning_effort')) t.true(canReason(deployment), name)
  }
  for (const id of ['deepseek-r1-0528', 'kimi-k2.6', 'glm-5.1', 'minimax-m3', 'gpt-oss-20b-local'])
    for (const { deployment } of catalog.targets(catalog.models.get(id)!)) t.true(canReason(deployment), id)
  for (const id of ['gpt-4o', 'gpt-audio-mini', 'llama-3.3-70b-instruct', 'qwen3-coder-480b'])
    for (const { deployment } of catalog.targets(catalog.models.get(id)!)) t.false(canReason(deployment), id)
})

test('shipped: gpt-4o-mini counts an image dearly, and xAI reasons beside the limit', t => {
  const [mini] = catalog.targets(catalog.models.get('gpt-4o-mini')!)
  t.is(maxImageTokens(mini!), 48_169)
  t.is(maxPageTokens(mini!), 48_169)
  t.true(billsDocumentText(mini!))
  t.false(reasonsBesideLimit(mini!))
  for (const target of targetsOf('chat'))
    t.is(reasonsBesideLimit(target), target.model.owned_by === 'xai', target.model.id)
})

test('a trait of a deployment wins over its provider’s quirk; without either nothing is known', t => {
  const provider = { ...ownProvider, auth: 'bearer' as const, quirks: { image_tokens_max: 900, documents_text: false } }
  const deployment = ownRow.providers[0]! as Deployment
  t.is(maxImageTokens({ deployment, provider }), 900)
  t.is(maxPageTokens({ deployment, provider }), 900)
  t.is(maxAudioTokensPerSecond({ deployment, provider }), null)
  t.false(billsDocumentText({ deployment, provider }))
  const own = { ...deployment, traits: { image_tokens_max: 70, page_tokens_max: 300, documents_text: true } }
  t.is(maxImageTokens({ deployment: own, provider }), 70)
  t.is(maxPageTokens({ deployment: own, provider }), 300)
  t.true(billsDocumentText({ deployment: own, provider }))
  t.false(canReason(own))
})

test('shipped: several models can fail over to a second and third provider', t => {
  t.true(rows.filter(row => row.providers.length >= 2).length >= 20)
  t.deepEqual(
    catalog.targets(catalog.models.get('llama-3.3-70b-instruct')!).map(({ provider }) => provider.name),
    ['groq', 'together', 'fireworks', 'bedrock', 'sambanova', 'deepinfra', 'nebius'],
  )
})

test('found: by id, by vendor/id and in any case; not found otherwise', t => {
  t.is(catalog.find('claude-haiku-4-5')?.id, 'claude-haiku-4-5')
  t.is(catalog.find('anthropic/claude-haiku-4-5')?.id, 'claude-haiku-4-5')
  t.is(catalog.find('Anthropic/Claude-Haiku-4-5')?.id, 'claude-haiku-4-5')
  t.is(catalog.find('openai/claude-haiku-4-5'), undefined)
  t.is(catalog.find('auto'), undefined)
})

test('replaced: an operator row takes the place of the shipped one of its id, and so does a provider', t => {
  const own = loadCatalog(
    operatorFile({
      providers: [ownProvider, { ...catalog.providers.get('groq'), base_url: 'http://10.0.0.6/v1' }],
      models: [ownRow, { ...catalog.models.get('gpt-6-luna'), quality: 1 }],
    }),
  )
  t.is(own.models.size, catalog.models.size + 1)
  t.is(own.targets(own.find('house/house-model')!)[0]?.provider.base_url, ownProvider.base_url)
  t.is(own.providers.get('groq')?.base_url, 'http://10.0.0.6/v1')
  t.is(own.models.get('gpt-6-luna')?.quality, 1)
})

test('refused: every fault of an operator file is one line with file, row and path', t => {
  const faults = faultsOf({
    providers: [ownProvider, ownProvider, { ...ownProvider, name: 'bad', base_url: 'nowhere' }],
    models: [
      { ...ownRow, providers: [{ ...ownRow.providers[0], provider: 'nobody' }] },
      { ...ownRow, id: 'auto' },
      { ...ownRow, id: 'twice' },
      { ...ownRow, id: 'twice' },
      { ...ownRow, id: 'empty', providers: [] },
      {
        ...ownRow,
        id: 'priced',
        providers: [{ ...ownRow.providers[0], price: { unit: 'token', input: '-1', output: '2' } }],
      },
      { ...ownRow, id: 'typo', qualty: 3 },
      { name: 'no id' },
    ],
  })
  const expected = [
    'models.json: providers[house]: name: there is another row of this name',
    'models.json: providers[bad]: base_url:',
    'models.json: models[house-model]: providers.0.provider: unknown provider "nobody"',
    'models.json: models[auto]: id: "auto" is the router\'s own name',
    'models.json: models[twice]: id: there is another row of this id',
    'models.json: models[empty]: providers: an enabled model needs at least one provider',
    'models.json: models[priced]: providers.0.price.input: a decimal string in USD',
    'models.json: models[typo]: Unrecognized key: "qualty"',
    'models.json: models[7]: id:',
  ]
  for (const start of expected) t.is(faults.filter(fault => fault.startsWith(start)).length, 1, start)
  for (const fault of faults) t.notRegex(fault, /\n/)
})

const withTraits = (traits: object, more: object = {}) => ({
  providers: [ownProvider],
  models: [{ ...ownRow, ...more, providers: [{ ...ownRow.providers[0], traits }] }],
})

test('refused: a misspelt trait or quirk, with its place and the name that is meant', t => {
  const [place, media] = ['models.json: models[house-model]: providers.0.traits', { type: 'video', kind: {} }]
  const refusals: [file: object, faults: string[]][] = [
    [
      withTraits({ contxt_length: 9, context_lenth: 9, wings: 2 }),
      [
        `${place}.contxt_length: Unrecognized key: "contxt_length" (did you mean "context_length"?)`,
        `${place}.context_lenth: Unrecognized key: "context_lenth" (did you mean "context_length"?)`,
        `${place}.wings: Unrecognized key: "wings"`,
      ],
    ],
    [
      withTraits({ image_feild: 'image_url', by_mode: { image: { modle: 'x' }, images: {} } }, media),
      [
        `${place}.by_mode.image.modle: Unrecognized key: "modle" (did you mean "model"?)`,
        `${place}.by_mode.images: Unrecognized key: "images" (did you mean "image"?)`,
        `${place}.image_feild: Unrecognized key: "image_feild" (did you mean "image_field"?)`,
      ],
    ],
    [withTraits({ image_field: 'image_url' }), [`${place}.image_field: no chat model has it`]],
    [
      { providers: [{ ...ownProvider, quirks: { stream_usages: false } }] },
      [
        'models.json: providers[house]: quirks.stream_usages: Unrecognized key: "stream_usages" (did you mean "stream_usage"?)',
      ],
    ],
  ]
  for (const [file, faults] of refusals) t.deepEqual(faultsOf(file), faults)
})

test('refused: a trait or quirk of another form, with its place', t => {
  const formed = (traits: object) => faultsOf(withTraits(traits, { type: 'video', kind: {} }))
  const refusals = {
    reasoning: 'yes',
    needs_prompt: 1,
    duration_format: 'minutes',
    formats: 7,
    format_names: ['jpg'],
    most_pixels: '1048576',
    input: { fps: [24] },
    dialect: 'morse',
  }
  for (const [name, value] of Object.entries(refusals)) {
    const faults = formed({ [name]: value })
    t.is(faults.length, 1, name)
    t.true(faults[0]!.startsWith(`models.json: models[house-model]: providers.0.traits.${name}`), faults[0])
  }
  const quirks = faultsOf({ providers: [{ ...ownProvider, quirks: { videos: 'vhs', extra_fields: 'top_k' } }] })
  t.deepEqual(
    quirks.map(fault => fault.split(': ')[2]),
    ['quirks.videos', 'quirks.extra_fields'],
  )
})

test('refused: a field of `kind` that models of the type do not have, or of another form, with its place', t => {
  const place = 'models.json: models[house-model]: kind'
  const refusals: [type: string, kind: unknown, faults: string[]][] = [
    ['image', { max_ns: 4 }, [`${place}.max_ns: Unrecognized key: "max_ns" (did you mean "max_n"?)`]],
    ['speech', { mask: true }, [`${place}.mask: Unrecognized key: "mask"`]],
    ['image', { constructor: 1 }, [`${place}.constructor: Unrecognized key: "constructor"`]],
    ['video', { image_ratios: [] }, [`${place}.image_ratios: Unrecognized key: "image_ratios"`]],
  ]
  for (const [type, kind, faults] of refusals) t.deepEqual(faultsOf(withTraits({}, { type, kind })), faults)
  const formed: [type: string, kind: Record<string, unknown>, path: string][] = [
    ['image', { max_n: '4' }, 'max_n'],
    ['video', { modes: ['text', 'film'] }, 'modes.1'],
    ['video', { reference_durations: ['8'] }, 'reference_durations.0'],
    ['video', { durations_1080p: 8 }, 'durations_1080p'],
    ['lipsync', { prompt: 'required' }, 'prompt'],
    ['mesh', { inputs: 'text' }, 'inputs'],
  ]
  for (const [type, kind, path] of formed) {
    const faults = faultsOf(withTraits({}, { type, kind }))
    t.is(faults.length, 1, path)
    t.true(faults[0]!.startsWith(`${place}.${path}: `), faults[0])
  }
  t.deepEqual(faultsOf(withTraits({}, { type: 'image', kind: [] })), [`${place}: must be an object`])
  const own = { modes: ['text'], durations: [5], durations_1080p: [5], text_aspect_ratios: [], text_prompt: 'none' }
  const { models } = loadCatalog(operatorFile(withTraits({}, { type: 'video', kind: own })))
  t.deepEqual(models.get('house-model')!.kind, own)
})

test('read: traits and quirks in the notation before they were objects, unless in both', t => {
  const traitsOf = (traits: object, more: object) => {
    const { models } = loadCatalog(operatorFile(withTraits(traits, more)))
    return models.get('house-model')!.providers[0]!.traits
  }
  const media = { type: 'image', kind: {} }
  const fields = {
    ...{ image_field: 'image', 'input.fps': 24, 'input.safe': true, aspect_ratios: '1:1,16:9', view_fields: 'a,b' },
    ...{ formats: 'webp,jpeg=jpg,png', size_field: 'w,h', size_format: 'fields', edit_model: 'acme/edit' },
    ...{ multi_image_formats: 'glb', text_aspect_ratio_field: 'ratio', file_formats: 'mp3 wav' },
  }
  t.deepEqual(traitsOf(fields, media), {
    image_field: 'image',
    input: { fps: 24, safe: true },
    aspect_ratios: ['1:1', '16:9'],
    view_fields: ['a', 'b'],
    formats: ['webp', 'jpeg', 'png'],
    format_names: { jpeg: 'jpg' },
    width_field: 'w',
    height_field: 'h',
    file_formats: ['mp3', 'wav'],
    by_mode: { edit: { model: 'acme/edit' }, multi_image: { formats: ['glb'] }, text: { aspect_ratio_field: 'ratio' } },
  })
  t.deepEqual(traitsOf({ reasons: true, image_output: true }, {}), { reasoning: true })
  const quirks = { completions: true, anthropic_version: '2023-06-01', seed_field: 'random_seed' }
  const own = loadCatalog(operatorFile({ providers: [{ ...ownProvider, quirks }] }))
  t.deepEqual(own.providers.get('house')!.quirks, { seed_field: 'random_seed' })
  for (const both of [
    { input: {}, 'input.fps': 24 },
    { by_mode: {}, edit_model: 'acme/edit' },
  ])
    t.is(faultsOf(withTraits(both, media)).length, 1)
})

test('documented: docs/providers.md has each trait and quirk with its values and meaning', t => {
  const text = readFileSync(page, 'utf8')
  t.true(text === withCatalogTables(text), 'run `node docs/catalog-tables.ts`')
})

test('refused: a file that is missing, is not JSON or has another shape', t => {
  t.regex(
    t.throws(() => loadCatalog('/nonexistent/models.json'), { instanceOf: CatalogError }).faults[0]!,
    /^models\.json: cannot be read/,
  )
  t.regex(faultsOf('{"models":')[0]!, /^models\.json: cannot be read as JSON/)
  t.deepEqual(faultsOf({ model: [] }), ['models.json: Unrecognized key: "model"'])
})
