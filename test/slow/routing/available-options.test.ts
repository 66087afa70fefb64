import fc from 'fast-check'
import type { Catalog } from '../../../shared/catalog/catalog.ts'
import { modes } from '../../../shared/keys/policy.ts'
import type { Decision, Explain } from '../../../shared/routing/router.ts'
import { type Candidate, maxCandidates } from '../../../shared/wallet/routing-record.ts'
import { fuzzRuns } from '../../support/fuzz.ts'
import { anyCase, type Case, catalogOf } from '../../support/routing/arbitraries.ts'
import { decide, decideOrRefuse, idsOf, livingWorld, policyOf, worldWith } from '../../support/routing/routing.ts'
import { test } from '../../support/test.ts'

type Asked = { catalog: Catalog; figures: Case; allowlist: ReadonlySet<string> | null; needs: Case; live: boolean }

/** What a request gets. `plain`: with everything compared and explained, from a catalog that is read the first time. */
function outcomeOf({ catalog, figures, allowlist, needs, live }: Asked, models: Case['models'], plain: boolean) {
  const world = { ...figures.world, catalog: plain ? catalogOf(models) : catalog }
  const policy = policyOf({
    allowlist: plain && allowlist ? new Set(allowlist) : allowlist,
    environment: live ? 'live' : 'test',
  })
  const explain = plain ? 'preview' : 'no'
  const outcome = decideOrRefuse(needs.body, { world, policy, features: needs.features, explain })
  return 'code' in outcome ? outcome : idsOf(outcome)
}

test('what is remembered of earlier requests changes no decision: other needs, keys, figures, a new catalog', t => {
  fc.assert(
    fc.property(anyCase(), anyCase(), (a, b) => {
      // Two gateways' worth of circumstances that share whatever is remembered.
      const upstreams = a.world.upstreams
      const cases = [a, { ...b, world: { ...b.world, upstreams } }]
      const catalogs = cases.map(({ models }) => ({ models, catalog: catalogOf(models) }))
      const allowlists = [null, ...cases.map(({ allowlist }) => allowlist && new Set(allowlist))]
      for (const _ of ['first', 'remembered'])
        for (const { models, catalog } of catalogs)
          for (const figures of cases)
            for (const allowlist of allowlists)
              for (const needs of cases) {
                const world = { ...figures, world: { ...figures.world, upstreams } }
                const asked = { catalog, figures: world, allowlist, needs, live: needs === a }
                t.deepEqual(outcomeOf(asked, models, false), outcomeOf(asked, models, true))
              }
    }),
    { numRuns: 60 },
  )
})

test('auto: after the first model come the next best by score, each at its best provider', t => {
  fc.assert(
    fc.property(anyCase({ cooldowns: false }), fc.constantFrom(...modes), (given, mode) => {
      const { provider: _, ...body } = given.body as { provider?: object }
      const decision = decisionOf(given, { ...body, mode })
      if (!decision) return
      // A model whose best provider cannot express the request keeps the place of that one.
      fc.pre(!decision.candidates.some(isRefused))
      const [first, ...others] = decision.targets.filter(
        ({ model }, i, all) => all.findIndex(other => other.model === model) === i,
      )
      const best = new Map<string, number>()
      for (const { model, score, excluded } of decision.candidates)
        if (excluded === null && score !== null && model !== first!.model.id)
          best.set(model, Math.max(score, best.get(model) ?? Number.NEGATIVE_INFINITY))
      const expected = [...best.values()].sort((x, y) => y - x).slice(0, others.length)
      // The last may instead be one with a larger context.
      const scores = others.map(({ model }) => best.get(model.id))
      t.deepEqual(scores.slice(0, -1), expected.slice(0, -1))
      if (others.length > 0) t.true(scores.at(-1)! <= expected.at(-1)!)
    }),
    { numRuns: fuzzRuns(400) },
  )
})

test('of many models, the log shows the first candidates that a preview shows, and both have the same targets', t => {
  let long = 0
  fc.assert(
    fc.property(anyCase({ large: true }), fc.constantFrom(...modes), fc.nat(), (given, mode, session) => {
      const { model, provider } = sessionOf(given, session)
      const sticky = { model, provider, credentialId: null }
      const policy = policyOf({ allowlist: given.allowlist && new Set(given.allowlist) })
      const { provider: preferences, ...plain } = given.body as { provider?: object }
      const body = { ...plain, mode, ...(session % 4 === 0 && { provider: preferences }) }
      const decideOn = (explain: Explain) => {
        const { world, features, learned } = given
        return decideOrRefuse(body, { world, features, learned, policy, sticky, explain })
      }
      const [all, logged] = [decideOn('preview'), decideOn('log')]
      if ('code' in all || 'code' in logged) return t.deepEqual(logged, all)
      t.deepEqual(idsOf(logged), idsOf(all))
      t.deepEqual(idsOf(decideOn('no') as Decision), idsOf(all))
      if (all.candidates.some(isRefused)) return // Of which the log knows only those that it met.
      t.is(logged.reason, all.reason)
      // A preview also has what the key may not use.
      const usable = all.candidates.filter(({ score }) => score !== null)
      t.deepEqual(logged.candidates, usable.slice(0, maxCandidates))
      if (usable.length > 2 * maxCandidates) long++
    }),
    { numRuns: fuzzRuns(1_500) },
  )
  t.true(long > 50, 'enough of them have many candidates')
})

test('a key’s new allowlist counts at once, and so does the end of a cooldown', t => {
  const world = worldWith()
  const [first] = decide({}, { world }).targets
  const others = [...world.catalog.models.keys()].filter(id => id !== first!.model.id)
  t.not(decide({}, { world, policy: policyOf({ allowlist: new Set(others) }) }).targets[0]!.model, first!.model)
  const resting = { [`${first!.model.id}@${first!.provider.name}`]: { cooldownMs: 5_000 } }
  t.false(idsOf(decide({}, { world: livingWorld(resting, world) })).includes(Object.keys(resting)[0]!))
  t.is(decide({}, { world }).targets[0]!.model, first!.model)
})

/** A target that may have served the session of a case. */
function sessionOf({ models }: Case, seed: number): { model: string; provider: string } {
  const { id, providers } = models[seed % models.length]!
  return { model: id, provider: providers[seed % providers.length]!.provider }
}

function isRefused({ provider, score, excluded }: Candidate): boolean {
  return provider !== null && score === null && excluded !== 'provider is not configured'
}

function decisionOf({ world, allowlist, features }: Case, body: object): Decision | null {
  const policy = policyOf({ allowlist: allowlist && new Set(allowlist) })
  const outcome = decideOrRefuse(body, { world, features, policy, explain: 'preview' })
  return 'code' in outcome ? null : outcome
}
