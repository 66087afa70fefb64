import { commands } from '../../api/operator/commands.ts'
import { parseCommand } from '../../api/operator/parse.ts'
import { applyOverrides, type Override } from '../../shared/catalog/overrides.ts'
import { json } from '../emulators/emulator.ts'
import { chargedNano, expectedNano, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { catalog, decide, idsOf, image, livingWorld, policyOf, worldWith } from '../support/routing/routing.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Any = any

const alias = 'my-chat'
const [most, few] = ['gpt-5-mini', 'claude-haiku-4-5'] as const
const arms = [
  { model: most, percent: 90 },
  { model: few, percent: 10 },
]
const aliasOf = (value: object, name = alias) => ({ kind: 'alias', name, hasKey: false, value }) as Override
const shared = applyOverrides(catalog, [aliasOf({ arms })]).catalog
const world = worldWith(['openai', 'anthropic'], shared)
const drawn = (seed: string, more: Any = {}) =>
  decide({ model: alias, user: seed, ...more.body }, { world, ...more }).targets[0]!.model.id

test('of 1,000 callers nine of ten get the model of 90 %, and each the same one again', t => {
  const seeds = Array.from({ length: 1_000 }, (_, index) => `caller ${index}`)
  const models = seeds.map(seed => drawn(seed))
  const count = models.filter(model => model === few).length
  // Five standard deviations of a binomial distribution.
  t.true(count > 52 && count < 148, String(count))
  t.deepEqual(
    seeds.map(seed => drawn(seed)),
    models,
  )
  const others = seeds.map(seed => drawn(seed, { policy: policyOf({ keyId: 'another' }) }))
  t.notDeepEqual(others, models)
})

test('other shares move only the callers between them', t => {
  const more = applyOverrides(catalog, [
    aliasOf({
      arms: [
        { model: most, percent: 80 },
        { model: few, percent: 20 },
      ],
    }),
  ]).catalog
  const wider = worldWith(['openai', 'anthropic'], more)
  for (let index = 0; index < 200; index++) {
    const seed = `caller ${index}`
    if (drawn(seed) === few) t.is(decide({ model: alias, user: seed }, { world: wider }).targets[0]!.model.id, few)
  }
})

test('the other models of an alias are the fallbacks of the drawn one, and serve what it cannot', t => {
  const decision = decide({ model: alias, user: 'a', models: ['gpt-4o-mini'] }, { world })
  t.deepEqual(new Set(decision.targets.map(({ model }) => model.id)), new Set([most, few, 'gpt-4o-mini']))
  t.deepEqual(decision.alias, { name: alias, model: most, percent: 90 })
  t.is(idsOf(decision).at(-1), 'gpt-4o-mini@openai')
  // No key of the provider, a cooldown, a model that is disabled.
  const without = decide({ model: alias, user: 'a' }, { world: worldWith(['anthropic'], shared) })
  t.deepEqual(without.alias, { name: alias, model: few, percent: 10 })
  const cooling = livingWorld({ [`${most}@openai`]: { cooldownMs: 5_000 } }, world)
  t.is(decide({ model: alias, user: 'a' }, { world: cooling }).targets[0]!.model.id, few)
  const disabled = applyOverrides(catalog, [
    { kind: 'model', name: most, hasKey: false, value: { disabled: true } },
    aliasOf({ arms }),
  ]).catalog
  t.is(decide({ model: alias, user: 'a' }, { world: worldWith(undefined, disabled) }).targets[0]!.model.id, few)
  const texts = applyOverrides(catalog, [
    aliasOf({
      arms: [
        { model: 'gpt-oss-120b', percent: 99 },
        { model: few, percent: 1 },
      ],
    }),
  ]).catalog
  const seeing = worldWith(['groq', 'anthropic'], texts)
  t.is(decide({ model: alias }, { world: seeing }).targets[0]!.model.id, 'gpt-oss-120b')
  t.is(decide({ model: alias, messages: [image] }, { world: seeing }).targets[0]!.model.id, few)
})

test('a session stays with the model that has served it; suffixes sort the providers of the drawn model', t => {
  for (const model of [most, few]) {
    const sticky = { model, provider: 'openai', credentialId: null }
    t.is(drawn('a', { sticky }), model)
  }
  t.is(decide({ model: `${alias}:floor`, user: 'a' }, { world }).targets[0]!.model.id, most)
  t.is(decide({ model: 'My-Chat', user: 'a' }, { world }).targets[0]!.model.id, most)
})

test('an allowlist decides which models are drawn; 403 when it has none of them', t => {
  for (let index = 0; index < 50; index++)
    t.is(drawn(`caller ${index}`, { policy: policyOf({ allowlist: new Set([few]) }) }), few)
  const models = Array.from({ length: 100 }, (_, index) =>
    drawn(`caller ${index}`, { policy: policyOf({ allowlist: new Set([alias]) }) }),
  )
  t.deepEqual(new Set(models), new Set([most, few]))
  const policy = policyOf({ allowlist: new Set(['gpt-4o-mini']) })
  t.throws(() => drawn('a', { policy }), { message: /may not use/ })
})

test('faults of an alias with several models name the field', t => {
  const faultsOf = (value: object) => applyOverrides(catalog, [aliasOf(value)]).faults.map(({ field }) => field)
  const one = arms[0]!
  t.deepEqual(faultsOf({ arms: [one, { model: 'no-such-model', percent: 10 }] }), ['arms.1.model'])
  t.deepEqual(faultsOf({ arms: [one, { model: 'gpt-image-2', percent: 10 }] }), ['arms.1.model'])
  t.deepEqual(faultsOf({ arms: [one, one] }), ['arms'])
  const taken = applyOverrides(catalog, [aliasOf({ arms }, 'gpt-4o')])
  t.deepEqual(
    taken.faults.map(({ field }) => field),
    ['alias'],
  )
  t.is(taken.catalog.arms.size, 0)
})

const gatewayWorld = use(test, startWorld)
async function run(...argv: string[]) {
  const { command, flags } = parseCommand(argv, commands)
  return command.run(gatewayWorld.gateway.services, flags)
}

test.serial(
  '200 by the drawn model, which is billed, logged and shown by /v1/route; then by another if it fails',
  async t => {
    const { gateway, openai, anthropic } = gatewayWorld
    const account = await gateway.account()
    const added = await run('model', 'alias', '--alias', 'house', '--arms', `${most}=50,${few}=50`)
    t.regex(added.text, /house is shared: gpt-5-mini 50 %, claude-haiku-4-5 50 %/)
    const served = new Map<string, string>()
    for (let index = 0; index < 8; index++) {
      const headers = { 'x-session-id': `session ${index}` }
      const body = saying('house', 'Hello', { max_tokens: 20 })
      const preview = (await (await gateway.fetch('/v1/route', { key: account.live, body, headers })).json()) as Any
      t.deepEqual(preview.alias, { name: 'house', model: preview.model, percent: 50 })
      const response = await gateway.fetch('/v1/chat/completions', { key: account.live, body, headers })
      const answer = (await response.json()) as Any
      t.is(answer.model, preview.model)
      const id = response.headers.get('x-generation-id')!
      const row = (await generationOf(gatewayWorld, id)) as Any
      t.is(row.model, answer.model)
      t.is(Number(row.costNano), expectedNano(answer.model, answer.usage))
      t.regex(row.routing.reason, new RegExp(`the alias house gives 50 % of its requests to ${answer.model}`))
      served.set(answer.model, id)
    }
    t.deepEqual([...served.keys()].sort(), [few, most])
    t.true((await chargedNano(gatewayWorld, account)) > 0)
    const failing = json(500, { error: { message: 'down', type: 'server_error' } })
    for (const emulator of [openai, anthropic]) emulator.reset()
    openai.next(...Array.from({ length: 10 }, () => failing))
    anthropic.next(...Array.from({ length: 10 }, () => failing))
    const only = { provider: { only: ['openai', 'anthropic'] } }
    const down = await gateway.fetch('/v1/chat/completions', { key: account.live, body: saying('house', 'Hi', only) })
    t.true(down.status >= 500)
    t.true(openai.requests.length > 0 && anthropic.requests.length > 0, 'both were tried')
    await t.throwsAsync(async () => run('model', 'alias', '--alias', 'z', '--arms', `${most}=50,${few}=40`), {
      message: /make 90, not 100/,
    })
    await run('model', 'alias', '--alias', 'house', '--remove')
    const gone = await gateway.fetch('/v1/chat/completions', { key: account.live, body: saying('house', 'Hi') })
    t.is(gone.status, 404)
  },
)
