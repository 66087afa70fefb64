import fc from 'fast-check'
import { buildCatalog, type Catalog } from '../../../shared/catalog/catalog.ts'
import { type ModelRow, modelRow, ratedTasks } from '../../../shared/catalog/schema.ts'
import type { Figures } from '../../../shared/providers/health.ts'
import type { Features } from '../../../shared/routing/features.ts'
import type { RoutingInputs } from '../../../shared/routing/options.ts'
import { audio, file, image, livingWorld, names, schema, catalog as shipped, tools, worldWith } from './routing.ts'

/** Few different prices and qualities, so that ties are common. */
const usd = fc.constantFrom('0', '0.05', '0.4', '1', '2.5', '10', '75')
const rates = { input: usd, output: usd }
const price = fc.record(
  { unit: fc.constant('token'), ...rates, above: fc.record({ tokens: fc.constantFrom(1_000, 200_000), ...rates }) },
  { requiredKeys: ['unit', 'input', 'output'] },
)

const offers = fc
  .subarray(names, { minLength: 1, maxLength: 3 })
  .chain(chosen => fc.tuple(...chosen.map(provider => price.map(price => ({ provider, upstream_model: 'm', price })))))

const rowFields = {
  owned_by: fc.constantFrom('openai', 'anthropic', 'groq', 'acme'),
  type: rarely('embeddings', 'chat'),
  endpoint: rarely('/v1/completions', undefined),
  disabled: rarely(true, false),
  context_length: fc.constantFrom(8_000, 128_000, 1_000_000, 1_000_000, null),
  max_output_tokens: fc.constantFrom(4_000, 32_000, 128_000, 128_000, null),
  input_modalities: mostly(['image', 'audio', 'file']).map(more => ['text', ...more]),
  output_modalities: mostly(['image', 'audio']).map(more => ['text', ...more]),
  supported_parameters: mostly(['tools', 'structured_outputs', 'response_format', 'logprobs']),
  quality: fc.integer({ min: 7, max: 20 }).map(steps => (steps === 7 ? null : steps * 5)),
  task_qualities: fc.oneof(
    fc.constant(undefined),
    fc.record(Object.fromEntries(ratedTasks.map(task => [task, fc.integer({ min: 0, max: 100 })])), {
      requiredKeys: [],
    }),
  ),
  providers: offers,
}
function rarely<T>(rare: T, usual: T) {
  return fc.oneof({ weight: 11, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constant(rare) })
}

/** Half of the time all. */
function mostly(all: string[]) {
  return fc.oneof(fc.constant(all), fc.subarray(all))
}

const fixed = { created: 0, description: '', expires_on: null, price_source: null, price_as_of: null }

function modelsOf(minLength: number, maxLength: number): fc.Arbitrary<ModelRow[]> {
  return fc
    .array(fc.record(rowFields), { minLength, maxLength, size: 'max' })
    .map(rows => rows.map((row, index) => modelRow.parse({ ...fixed, id: `m${index}`, name: `m${index}`, ...row })))
}

export function catalogOf(models: readonly ModelRow[]): Catalog {
  return buildCatalog(new Map(models.map(model => [model.id, model])), new Map(shipped.providers), new Map())
}

/** What requests need, each in its own words, beside what they prefer. */
const needs = fc.record({
  image: rarely(true, false),
  audio: rarely(true, false),
  file: rarely(true, false),
  tools: rarely(true, false),
  json: fc.constantFrom(null, null, null, null, 'json_object', 'json_schema'),
  logprobs: rarely(true, false),
  paints: rarely(true, false),
  n: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.constant(3) }),
  maxTokens: fc.constantFrom(null, null, null, 100, 10_000, 100_000),
})
export type Needs = typeof needs extends fc.Arbitrary<infer T> ? T : never

/** The chat body that has these needs. */
function bodyOf({ json, n, maxTokens, ...needs }: Needs): object {
  const text = { role: 'user', content: 'Hi' }
  return {
    messages: [text, ...(needs.image ? [image] : []), ...(needs.audio ? [audio] : []), ...(needs.file ? [file] : [])],
    ...(needs.tools && { tools }),
    ...(json && { response_format: json === 'json_object' ? { type: json } : schema }),
    ...(needs.logprobs && { logprobs: true }),
    ...(needs.paints && { modalities: ['text', 'image'] }),
    ...(n > 1 && { n }),
    ...(maxTokens && { max_tokens: maxTokens }),
  }
}

const someProviders = fc.subarray(names, { minLength: 1 })
const preferences = fc.oneof(
  { weight: 2, arbitrary: fc.constant(undefined) },
  {
    weight: 1,
    arbitrary: fc.record(
      { order: someProviders, only: someProviders, ignore: someProviders, allow_fallbacks: fc.boolean() },
      { requiredKeys: [] },
    ),
  },
)
export type Preferences = { order?: string[]; only?: string[]; ignore?: string[]; allow_fallbacks?: boolean }

const anyFigures: fc.Arbitrary<Figures> = fc.record({
  circuit: fc.constantFrom('closed', 'closed', 'half_open', 'open'),
  cooldownMs: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 200, 9_000, 90_000),
  failureRate: fc.constantFrom(0, 0, 0, 0.05, 0.3, 1),
  firstByteMs: fc.constantFrom(null, null, 150, 2_000, 7_000, 55_000),
  tokensPerSecond: fc.constantFrom(null, null, 0.5, 15, 80, 400),
})

export const anyDifficulty = fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true }))
/** Texts of different classes of tasks. */
const lastText = fc.constantFrom('Hi', 'Fix the bug in this script.', 'Prove it.', 'Как называется столица?')
const measures = fc.record({
  lastText: lastText.map(text => () => text),
  promptTokensEstimate: fc.constantFrom(10, 10, 900, 900, 7_000, 7_000, 150_000, 900_000),
  difficulty: anyDifficulty.map(difficulty => () => difficulty),
})

/** A catalog, what is known of its providers, a key's allowlist, and one request without its model. */
export type Case = {
  models: ModelRow[]
  world: RoutingInputs
  needs: Needs
  allowlist: string[] | null
  preferences: Preferences | undefined
  features: Partial<Features>
  /** What feedback taught about some of the models. */
  learned: Map<string, number> | null
  body: object
}

const worlds = new Map<string, RoutingInputs>()
function worldFor(providers: string[]): RoutingInputs {
  const key = providers.join()
  if (!worlds.has(key)) worlds.set(key, worldWith(providers))
  return worlds.get(key)!
}

/** `cooldowns`: some providers may be in cooldown. `large`: with as many models as gateways have. */
export function anyCase({ cooldowns = true, large = false } = {}): fc.Arbitrary<Case> {
  const figures = cooldowns ? anyFigures : anyFigures.map(one => ({ ...one, cooldownMs: 0 }))
  const known = (models: ModelRow[]) => fc.array(fc.option(figures, { nil: undefined }), lengthOf(models))
  const anyModels = large ? modelsOf(20, 60) : modelsOf(2, 10)
  return anyModels.chain(models =>
    fc
      .record({
        configured: fc.subarray(names, { minLength: 5 }),
        known: known(models),
        needs,
        allowlist: fc.oneof(
          { weight: 2, arbitrary: fc.constant(null) },
          {
            weight: 1,
            arbitrary: fc.subarray(
              models.map(({ id }) => id),
              { minLength: 1 },
            ),
          },
        ),
        preferences,
        features: measures,
        offsets: fc.option(fc.array(fc.constantFrom(0, 0, -6, -1.5, 0.25, 3, 6), lengthOf(models))),
      })
      .map(({ configured, known, offsets, ...rest }) => {
        const deployments = models.flatMap(({ id, providers }) => providers.map(({ provider }) => `${id}@${provider}`))
        const figures = Object.fromEntries(deployments.map((name, index) => [name, known[index] ?? {}]))
        const world = { ...livingWorld(figures, worldFor(configured)), catalog: catalogOf(models) }
        const body = { ...bodyOf(rest.needs), ...(rest.preferences && { provider: rest.preferences }) }
        const learned = offsets && new Map(models.map(({ id }, index) => [id, offsets[index]!]))
        return { ...rest, models, world, body, learned }
      }),
  )
}

function lengthOf(models: ModelRow[]) {
  const length = models.reduce((sum, { providers }) => sum + providers.length, 0)
  return { minLength: length, maxLength: length }
}
