import fc from 'fast-check'
import { type ModelRow, modelRow } from '../../../shared/catalog/schema.ts'
import { modes } from '../../../shared/keys/policy.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import type { Features } from '../../../shared/routing/features.ts'
import { type Decision, type Explain, maxTargets } from '../../../shared/routing/router.ts'
import { setPoints } from '../../../shared/routing/score.ts'
import { fuzzRuns } from '../../support/fuzz.ts'
import { anyCase, anyDifficulty, type Case, catalogOf } from '../../support/routing/arbitraries.ts'
import { decide, decideOrRefuse, idsOf, policyOf, worldWith } from '../../support/routing/routing.ts'
import { test } from '../../support/test.ts'

type Outcome = Decision | { code: string }

/** The decision on a request, or the code of its refusal. */
function outcomeOf(
  { world, allowlist, features, body, learned }: Case,
  more: object = {},
  explain: Explain = 'preview',
): Outcome {
  const policy = policyOf({ allowlist: allowlist && new Set(allowlist) })
  const outcome = decideOrRefuse({ ...body, ...more }, { world, policy, features, explain, learned })
  return 'code' in outcome ? { code: outcome.code } : outcome
}

/** The decision, when there is one. */
function decisionOf(given: Case, more: object = {}): Decision | null {
  const outcome = outcomeOf(given, more)
  return 'code' in outcome ? null : outcome
}

/** Why a target must not be sent the request of a case; null when it may. Written apart from the product. */
function faultOf({ needs, allowlist, preferences = {}, features, models, world }: Case, target: Target, auto: boolean) {
  const { model, provider, deployment } = target
  const { input_modalities: takes, output_modalities: gives, supported_parameters: supports } = model
  const { only, ignore, order, allow_fallbacks } = preferences
  const faults: [boolean, string][] = [
    [!models.some(({ id }) => id === model.id) || !model.providers.includes(deployment), 'not in the catalog'],
    [deployment.provider !== provider.name || !world.upstreams.isConfigured(provider.name, 'live'), 'not configured'],
    [model.disabled || model.type !== 'chat' || model.endpoint !== undefined, 'no chat model'],
    [auto && model.quality === null, 'no quality'],
    [allowlist !== null && !allowlist.includes(model.id), 'not allowed'],
    [needs.image && !takes.includes('image'), 'image'],
    [needs.audio && !takes.includes('audio'), 'audio'],
    [needs.file && !takes.includes('file'), 'file'],
    [needs.paints && !gives.includes('image'), 'image output'],
    [needs.tools && !supports.includes('tools'), 'tools'],
    [needs.paints && needs.json === 'json_schema' && !supports.includes('structured_outputs'), 'JSON schema'],
    [needs.paints && needs.json === 'json_object' && !supports.includes('response_format'), 'JSON'],
    [needs.logprobs && !supports.includes('logprobs'), 'logprobs'],
    [needs.n > 1 && provider.protocol === 'anthropic', 'several answers'],
    [features.promptTokensEstimate! > (model.context_length ?? Infinity), 'context'],
    [auto && (needs.maxTokens ?? 0) > (model.max_output_tokens ?? Infinity), 'room for the answer'],
    [only !== undefined && !only.includes(provider.name), 'only'],
    [ignore?.includes(provider.name) === true, 'ignore'],
    [allow_fallbacks === false && order !== undefined && !order.includes(provider.name), 'order without fallbacks'],
  ]
  return faults.find(([applies]) => applies)?.[1] ?? null
}

const settings = { numRuns: fuzzRuns(2_500) }

/** What a request may name: `auto`, models, suffixes, and models there are not. */
const anySuffix = fc.constantFrom('', '', ':floor', ':nitro')
const anyModel = fc
  .tuple(fc.constantFrom('m0', 'm1', 'm2', 'm3', 'm99'), anySuffix)
  .map(([name, suffix]) => name + suffix)
const anyNames = fc.array(
  fc.oneof(
    anyModel,
    anySuffix.map(suffix => `auto${suffix}`),
  ),
  { minLength: 1, maxLength: 4 },
)
const named = ([model, ...models]: string[]) => ({ model, ...(models.length > 0 && { models }) })

test('whatever is named, every target satisfies every hard requirement and preference, each once, at most five', t => {
  fc.assert(
    fc.property(anyCase(), anyNames, fc.constantFrom(...modes), (given, names, mode) => {
      const decision = decisionOf(given, { ...named(names), mode })
      if (!decision) return
      const { targets } = decision
      const pinned = new Set(names.map(name => name.split(':')[0]))
      for (const target of targets) t.is(faultOf(given, target, !pinned.has(target.model.id)), null)
      t.is(new Set(idsOf(decision)).size, targets.length)
      t.true(targets.length > 0 && targets.length <= maxTargets && maxTargets <= 6)
      const restOf = (target: Target) => given.world.figures(target).cooldownMs
      if (targets.some(target => restOf(target) > 0)) {
        t.true(
          targets.every(target => restOf(target) > 0),
          'none that rests beside one that does not',
        )
        t.true(restOf(targets[0]!) <= given.world.maxPauseMs)
      }
    }),
    settings,
  )
})

test('asking why changes nothing; the excluded have a reason, and none of them is chosen', t => {
  fc.assert(
    fc.property(anyCase(), anyNames, (given, names) => {
      const more = named(names)
      const [told, untold] = [outcomeOf(given, more), outcomeOf(given, more, 'no')]
      if ('code' in told) {
        // The only provider of the only model cannot express it: the request itself finds that out.
        const alone = told.code === 'unsupported_capability' && 'targets' in untold && untold.targets.length === 1
        if (!alone) t.deepEqual(untold, told)
        return
      }
      t.deepEqual(idsOf(untold as Decision), idsOf(told))
      const { candidates, targets, reason } = told
      t.regex(reason, /^(fallback|auto|pinned)/)
      t.is(new Set(candidates.map(({ model, provider }) => `${model}@${provider}`)).size, candidates.length)
      for (const { excluded, estimatedCostNano } of candidates) {
        if (excluded === null) t.is(typeof estimatedCostNano, 'number')
        else t.regex(excluded, /\w{3}/)
      }
      for (const { model, provider } of targets) {
        t.like(
          candidates.find(one => one.model === model.id && one.provider === provider.name),
          { excluded: null },
        )
      }
    }),
    settings,
  )
})

test('auto: what cost chooses is neither dearer nor better than what balanced, nor that than what quality chooses', t => {
  let rising = 0
  fc.assert(
    fc.property(anyCase(), given => {
      const [cost, balanced, quality] = modes.map(mode => firstOf(decisionOf(given, { mode })))
      if (!cost || !balanced || !quality) return t.is(cost ?? balanced ?? quality, null)
      t.true(cost.nano <= balanced.nano && balanced.nano <= quality.nano)
      t.true(cost.quality <= balanced.quality && balanced.quality <= quality.quality)
      if (cost.quality < quality.quality) rising++
    }),
    settings,
  )
  t.true(rising > settings.numRuns / 50, 'the modes do differ')
})

function firstOf(decision: Decision | null): { nano: number; quality: number } | null {
  if (!decision) return null
  const { model, provider } = decision.targets[0]!
  const {
    estimatedCostNano,
    quality,
    learned = 0,
  } = decision.candidates.find(one => one.model === model.id && one.provider === provider.name)!
  return { nano: estimatedCostNano!, quality: quality! + learned }
}

/** A model at one provider, at a price in USD for a million tokens. */
function modelAt(id: string, quality: number, usd: number): ModelRow {
  const price = { unit: 'token', input: usd.toFixed(6), output: usd.toFixed(6) }
  const text = { type: 'chat', input_modalities: ['text'], output_modalities: ['text'], supported_parameters: [] }
  const unknown = { created: 0, description: '', expires_on: null, price_source: null, price_as_of: null }
  const limits = { context_length: null, max_output_tokens: null }
  const providers = [{ provider: 'openai', upstream_model: id, price }]
  return modelRow.parse({ ...unknown, ...limits, ...text, id, name: id, owned_by: 'acme', quality, providers })
}

const shipped = worldWith()
/** What each mode chooses of some models for a prompt of a difficulty. */
function choicesOf(models: ModelRow[], difficulty: number): string[] {
  const world = { ...shipped, catalog: catalogOf(models) }
  const features = { difficulty: () => difficulty }
  return modes.map(mode => decide({ mode }, { world, features }).targets[0]!.model.id)
}

const anyUsd = fc.double({ min: 0, max: 3, noNaN: true })

test('auto: of a cheap and a strong model, a mode takes the strong one from its set point on, whatever separates them', t => {
  const anyGap = fc.double({ min: 0.01, max: 90, noNaN: true })
  const anyFactor = fc.double({ min: 1.05, max: 1_000, noNaN: true })
  fc.assert(
    fc.property(anyUsd, anyFactor, anyGap, anyDifficulty, (usd, factor, gap, difficulty) => {
      const models = [modelAt('cheap', 5, usd), modelAt('strong', 5 + gap, (usd + 0.01) * factor)]
      const expected = modes.map(mode => (difficulty > setPoints[mode] ? 'strong' : 'cheap'))
      t.deepEqual(choicesOf(models, difficulty), expected)
    }),
    { numRuns: 200 },
  )
})

test('auto: what feedback taught moves the set point of a mode, also between two models', t => {
  const models = [modelAt('cheap', 60, 0.5), modelAt('strong', 80, 8)]
  const chosenWith = (learned: Map<string, number> | null, difficulty: number) => {
    const world = { ...shipped, catalog: catalogOf(models) }
    const features = { difficulty: () => difficulty }
    return decide({ mode: 'balanced' }, { world, features, learned }).targets[0]!.model.id
  }
  const [below, above] = [setPoints.balanced - 0.02, setPoints.balanced + 0.02]
  t.is(chosenWith(null, below), 'cheap')
  t.is(chosenWith(new Map([['strong', 3]]), below), 'strong')
  t.is(chosenWith(new Map([['cheap', -3]]), below), 'strong')
  t.is(chosenWith(null, above), 'strong')
  t.is(chosenWith(new Map([['strong', -3]]), above), 'cheap')
})

test('auto: of many models, the most trivial prompt gets a cheap one in every mode, and the hardest no worse one', t => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 3, max: 10 }), fc.double({ min: 3, max: 6, noNaN: true })), {
    minLength: 2,
    maxLength: 8,
  })
  fc.assert(
    fc.property(anyUsd, steps, (firstUsd, rises) => {
      let [quality, usd] = [10, firstUsd + 1]
      const models = [modelAt('m0', quality, usd)]
      for (const [more, factor] of rises) {
        quality += more
        usd *= factor
        models.push(modelAt(`m${models.length}`, quality, usd))
      }
      const best = models.length - 1
      const trivial = choicesOf(models, 0).map(id => Number(id.slice(1)))
      const hard = choicesOf(models, 1).map(id => Number(id.slice(1)))
      t.true(trivial.every(index => index < best))
      t.true(hard.every((index, i) => index >= trivial[i]!))
      t.true(hard[2]! > 0 && hard[2]! >= hard[1]! && hard[1]! >= hard[0]!)
    }),
    { numRuns: 200 },
  )
})

test('auto: a harder prompt never gets a worse model', t => {
  let better = 0
  fc.assert(
    fc.property(anyCase(), anyDifficulty, (given, other) => {
      const [low, high] = [given.features.difficulty!(), other].sort((a, b) => a - b)
      const at = (difficulty: number, mode: string) => {
        const features: Partial<Features> = { ...given.features, difficulty: () => difficulty }
        return firstOf(decisionOf({ ...given, features }, { mode }))
      }
      for (const mode of modes) {
        const [easy, hard] = [at(low!, mode), at(high!, mode)]
        if (!easy || !hard) return t.is(easy, hard)
        t.true(easy.quality <= hard.quality)
        if (easy.quality < hard.quality) better++
      }
    }),
    settings,
  )
  t.true(better > settings.numRuns / 100, 'the difficulty does matter')
})

test('the order of the catalog, and of the providers in it, decides nothing', t => {
  const shuffled = anyCase().chain(given =>
    fc
      .tuple(
        fc.shuffledSubarray(given.models, { minLength: given.models.length }),
        ...given.models.map(({ providers }) => fc.shuffledSubarray(providers, { minLength: providers.length })),
      )
      .map(([order, ...offers]) => {
        const providersOf = (model: ModelRow) => offers[given.models.indexOf(model)]!
        const models = order.map(model => ({ ...model, providers: providersOf(model) }))
        return { given, other: { ...given, world: { ...given.world, catalog: catalogOf(models) } } }
      }),
  )
  fc.assert(
    fc.property(shuffled, anyNames, fc.constantFrom(...modes), ({ given, other }, names, mode) => {
      const more = { ...named(names), mode }
      const [one, two] = [outcomeOf(given, more), outcomeOf(other, more)]
      if ('code' in one || 'code' in two) return t.deepEqual(one, two)
      t.deepEqual(idsOf(one), idsOf(two))
      t.is(one.reason, two.reason)
      t.deepEqual(one.candidates, two.candidates)
    }),
    settings,
  )
})

test(':floor takes the cheapest and :nitro the fastest of what is suitable', t => {
  fc.assert(
    fc.property(anyCase({ cooldowns: false }), fc.constantFrom('auto', 'm0', 'm1'), (given, name) => {
      if (given.preferences?.order) return // The caller's own order comes first.
      const floor = decisionOf(given, { model: `${name}:floor` })
      if (!floor) return
      const nitro = decisionOf(given, { model: `${name}:nitro` })!
      const suitable = ({ candidates }: Decision) => candidates.filter(({ excluded }) => excluded === null)
      t.is(firstOf(floor)!.nano, Math.min(...suitable(floor).map(({ estimatedCostNano }) => estimatedCostNano!)))
      const tokens = Math.min(given.needs.maxTokens ?? 512, 4_096)
      const secondsOf = (model: string, provider: string) => {
        const row = given.models.find(({ id }) => id === model)!
        const target = given.world.catalog.targets(row).find(one => one.provider.name === provider)!
        const { firstByteMs, tokensPerSecond } = given.world.figures({ model: row, ...target })
        return (firstByteMs ?? 2_000) / 1_000 + tokens / (tokensPerSecond ?? 20)
      }
      const [first] = nitro.targets
      const fastest = Math.min(...suitable(nitro).map(({ model, provider }) => secondsOf(model, provider!)))
      t.is(secondsOf(first!.model.id, first!.provider.name), fastest)
    }),
    settings,
  )
})

test('the models named in a request are tried in its order', t => {
  const pinned = fc.uniqueArray(anyModel, { minLength: 2, selector: slug => slug.split(':')[0] })
  fc.assert(
    fc.property(anyCase({ cooldowns: false }), pinned, (given, [model, ...models]) => {
      const decision = decisionOf(given, { model, models })
      if (!decision) return
      const tried = decision.targets.map(target => target.model.id)
      const slugs = [model, ...models].map(slug => slug!.split(':')[0])
      const places = tried.map(id => slugs.indexOf(id))
      t.deepEqual(
        places,
        places.toSorted((a, b) => a - b),
      )
    }),
    settings,
  )
})

test('auto stays where a session was served, unless something is much better', t => {
  let stayed = 0
  fc.assert(
    fc.property(anyCase({ cooldowns: false }), fc.nat(), fc.constantFrom(...modes), (given, any, mode) => {
      const free = decisionOf(given, { mode })
      if (!free || given.preferences?.order) return
      const served = free.candidates.filter(({ excluded, score }) => excluded === null && score !== null)
      const { model, provider } = served[any % served.length]!
      const policy = policyOf({ allowlist: given.allowlist && new Set(given.allowlist) })
      const sticky = { model, provider: provider!, credentialId: null }
      const first = decide({ ...given.body, mode }, { ...given, policy, sticky }).targets[0]!
      const best = free.targets[0]!
      const qualityOf = (id: string) => {
        const { quality, learned = 0 } = free.candidates.find(one => one.model === id && one.score !== null)!
        return quality! + learned
      }
      const moves = qualityOf(best.model.id) >= qualityOf(model) + 10
      const refused = decisionOf(given, { model, provider: { only: [provider] } }) === null
      t.deepEqual(
        [first.model.id, first.provider.name],
        moves || refused ? [best.model.id, best.provider.name] : [model, provider],
      )
      if (!moves && model !== best.model.id) stayed++
    }),
    settings,
  )
  t.true(stayed > settings.numRuns / 50, 'sessions do stay')
})
