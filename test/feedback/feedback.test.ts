import { systemClock } from '../../shared/base/time.ts'
import type { Policy } from '../../shared/keys/policy.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { json } from '../emulators/emulator.ts'
import { failure } from '../emulators/openai.ts'
import { generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const dayMs = 86_400_000
/** What the clock is ahead of the machine's. */
let aheadMs = 0
let account: Account

/** When none of the models is retired, also a month later. */
const beginMs = Date.parse('2026-11-01T12:00:00Z')
const startedMs = systemClock.now()
const world = use(test, () => startWorld({}, { now: () => beginMs + systemClock.now() - startedMs + aheadMs }))
test.beforeEach(async () => {
  aheadMs = 0
  for (const emulator of [world.openai, world.anthropic, world.openrouter]) emulator.reset()
  account = await world.gateway.account()
})

type Answer = { status: number; json: Record<string, unknown> & { error?: { code: string; param: string | null } } }

async function post(path: string, body: unknown, key = account.live): Promise<Answer & { headers: Headers }> {
  const { status, headers, ...response } = await world.gateway.fetch(path, { key, body }).then(async response => ({
    status: response.status,
    headers: response.headers,
    text: await response.text(),
  }))
  return { status, headers, json: response.text.startsWith('{') ? JSON.parse(response.text) : {} }
}
const score = (generation_id: string, score: unknown, more: object = {}, key?: string) =>
  post('/v1/feedback', { generation_id, score, ...more }, key)

/** Sends a request and waits until it is booked; the ids by which it can be named. */
async function ask(path: string, body: object, key = account.live) {
  const { headers, json, status } = await post(path, body, key)
  if (status !== 200) throw new Error(JSON.stringify(json))
  const id = headers.get('x-generation-id')!
  await generationOf(world, id)
  return { id, own: String(json.id), model: headers.get('x-gateway-model')! }
}
const chat = (more: object = {}, key?: string) => ask('/v1/chat/completions', { ...saying('gpt-5-nano'), ...more }, key)

async function countersOf(model: string, scope = 'live') {
  const { organisationId } = account
  return world.gateway.services.db.qualityCounter.findUnique({
    where: { organisationId_scope_model: { organisationId, scope, model } },
  })
}

type Candidate = { model: string; score: number | null; quality: number; learned: number }
async function candidateOf(model: string, key = account.live): Promise<Candidate> {
  const { json } = await post('/v1/route', saying('auto'), key)
  return (json.candidates as Candidate[]).find(one => one.model === model && one.score !== null)!
}

test.serial('chat, Messages and Responses are scored by either of their ids', async t => {
  const requests: [string, object][] = [
    ['/v1/chat/completions', saying('gpt-5-nano')],
    ['/v1/messages', { ...saying('claude-haiku-4-5'), max_tokens: 100 }],
    ['/v1/responses', { model: 'gpt-5-nano', input: 'Hello' }],
  ]
  for (const [path, body] of requests) {
    const { id, own, model } = await ask(path, body)
    for (const name of [id, own]) {
      const { status, json } = await score(name, 0.5, { comment: 'Good.' })
      t.is(status, 200, path)
      t.like(json, { object: 'feedback', generation_id: id, model, score: 0.5, comment: 'Good.' })
    }
    t.is(await world.gateway.services.db.feedback.count({ where: { generationId: id } }), 1)
  }
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('a later score of the same key replaces the earlier one, in the counters too', async t => {
  const { id, model } = await chat()
  await score(id, -1, { comment: 'Wrong.' })
  const first = await score(id, 1)
  t.like(first.json, { score: 1, comment: null })
  const counters = await countersOf(model)
  t.true(Math.abs(counters!.explicitSum - 1) < 1e-3)
  t.true(Math.abs(counters!.explicitCount - 1) < 1e-3)
  const other = await world.gateway.key(account.organisationId, 'live')
  await score(id, 1, {}, other)
  t.is(await world.gateway.services.db.feedback.count({ where: { generationId: id } }), 2)
  t.true(Math.abs((await countersOf(model))!.explicitCount - 2) < 1e-3)
})

test.serial('scores at the same time are counted once each', async t => {
  const { id, model } = await chat()
  const keys = await Promise.all([1, 2, 3].map(() => world.gateway.key(account.organisationId, 'live')))
  const answers = await Promise.all(keys.flatMap(key => [1, 1, -1].map(value => score(id, value, {}, key))))
  t.true(answers.every(({ status }) => status === 200))
  const { _sum, _count } = await world.gateway.services.db.feedback.aggregate({
    where: { generationId: id },
    _sum: { score: true },
    _count: true,
  })
  t.is(_count, 3)
  const counters = await countersOf(model)
  t.true(Math.abs(counters!.explicitCount - 3) < 1e-3)
  t.true(Math.abs(counters!.explicitSum - _sum.score!) < 1e-3)
})

test.serial('404 for what is unknown, of another organisation or environment, or too old', async t => {
  const { id } = await chat()
  const stranger = await world.gateway.account()
  for (const key of [stranger.live, account.test]) {
    const { status, json } = await score(id, 1, {}, key)
    t.is(status, 404)
    t.like(json.error, { code: 'not_found', param: 'generation_id' })
  }
  t.is((await score('chatcmpl-none', 1)).status, 404)
  aheadMs = 31 * dayMs
  t.is((await score(id, 1)).status, 404)
  t.is(await world.gateway.services.db.feedback.count({ where: { generationId: id } }), 0)
})

test.serial('400 names the field; the scope of chat is needed', async t => {
  const { id } = await chat()
  const refused: [object, string][] = [
    [{ generation_id: id }, 'score'],
    [{ generation_id: id, score: 1.1 }, 'score'],
    [{ generation_id: id, score: '1' }, 'score'],
    [{ generation_id: id, score: null }, 'score'],
    [{ score: 1 }, 'generation_id'],
    [{ generation_id: '', score: 1 }, 'generation_id'],
    [{ generation_id: id, score: 1, comment: 'x'.repeat(2_001) }, 'comment'],
    [{ generation_id: id, score: 1, stars: 5 }, 'stars'],
  ]
  for (const [body, param] of refused) {
    const { status, json } = await post('/v1/feedback', body)
    t.is(status, 400)
    t.is(json.error!.param, param)
  }
  t.is((await score(id, 1, { comment: 'x'.repeat(2_000) })).status, 200)
  t.is((await score(id, 0, { comment: 'Half a pair: \ud800' })).status, 400)
  for (const more of [{ comment: 'Null: \u0000' }, { generation_id: '\u0000' }])
    t.is((await score(id, 0, more)).json.error!.param, Object.keys(more)[0]!)
  const narrow = await world.gateway.key(account.organisationId, 'live', { scopes: 'embeddings' })
  t.is((await score(id, 1, {}, narrow)).status, 403)
})

test.serial(
  'scores move the quality of a model for the key that asked, less for its organisation, not for others',
  async t => {
    const [{ organisationId }, { model }] = [account, await chat()]
    const colleague = await world.gateway.key(organisationId, 'live')
    for (let i = 0; i < 10; i++) await score((await chat()).id, -1)
    const own = await candidateOf(model)
    const shared = await candidateOf(model, colleague)
    t.true(own.learned < -3 && own.learned > -6, String(own.learned))
    t.true(shared.learned < -1 && shared.learned > own.learned, String(shared.learned))
    const stranger = await world.gateway.account()
    t.is((await candidateOf(model, stranger.live)).learned, 0)
    t.is((await candidateOf(model, account.test)).learned, 0)
    t.is(own.quality, shared.quality)
    t.true(own.score! < shared.score!)
    // A month later they weigh half.
    aheadMs = 30 * dayMs
    const later = await candidateOf(model)
    t.true(later.learned < 0 && later.learned > own.learned)
  },
)

test.serial('learning can be switched off for a key, and by the operator', async t => {
  const { model, id } = await chat()
  await score(id, -1)
  t.true((await candidateOf(model)).learned < 0)
  const fixed = await world.gateway.key(account.organisationId, 'live', { learning: false })
  t.is((await candidateOf(model, fixed)).learned, 0)
  const { learnedQualities, config } = world.gateway.services
  t.true(config.routingLearning)
  t.is(learnedQualities.of({ learning: false, keyId: 'k' } as Policy), null)
})

test.serial('a request of auto uses what was learned, and the reason says so', async t => {
  // Two models of the same price.
  const key = await world.gateway.key(account.organisationId, 'live', { model_allowlist: ['gpt-5', 'gpt-5.1'] })
  const free = await chat({ model: 'auto' }, key)
  t.is(free.model, 'gpt-5.1')
  for (let i = 0; i < 12; i++) await score((await chat({ model: free.model }, key)).id, -1)
  const { json } = await post('/v1/route', saying('auto'), key)
  t.is(json.model, 'gpt-5')
  t.is((await chat({ model: 'auto' }, key)).model, 'gpt-5')
  const only = await world.gateway.key(account.organisationId, 'live', { model_allowlist: ['gpt-5.1'] })
  const { json: forced } = await post('/v1/route', saying('auto'), only)
  t.regex(String(forced.reason), /\(quality \d+ − \d\.\d learned from feedback, about/)
})

test.serial('a key’s first request of auto has no offsets; they are read in the background', async t => {
  const { learnedQualities, policies } = world.gateway.services
  const { id, model } = await chat()
  await score(id, -1)
  const { keyId } = await world.gateway.services.db.generation.findFirstOrThrow({ where: { id } })
  const { policy } = await policies.findByKeyId(keyId, null)
  t.is(learnedQualities.of(policy), null)
  await eventually(() => learnedQualities.of(policy) !== null, 'the offsets are read')
  const before = learnedQualities.of(policy)!.get(model)!
  t.true(before < 0)
  for (let i = 0; i < 3; i++) await score((await chat()).id, -1)
  t.is(learnedQualities.of(policy)!.get(model), before, 'they are read once a minute')
  aheadMs = 61_000
  await eventually(() => learnedQualities.of(policy)!.get(model)! < before, 'they are read again')
})

const prompt = 'Explain in two sentences why the sky is blue at noon.'
const auto = (more: object = {}) =>
  chat({ model: 'auto', mode: 'cost', messages: [{ role: 'user', content: prompt }], ...more })
const implicitOf = async (model: string) => {
  const counters = await countersOf(model)
  return { sum: counters?.implicitSum ?? 0, count: counters?.implicitCount ?? 0 }
}
const untilCounted = (model: string, count: number) =>
  eventually(async () => (await implicitOf(model)).count > count - 0.01, `${count} requests are counted`)

test.serial('the same prompt again counts against the first answer, once; another prompt does not', async t => {
  // Whichever `auto` chooses, it is one for all prompts.
  const one = { model_allowlist: ['gpt-4.1-mini'] }
  account = await world.gateway.account(one)
  const { model } = await auto()
  await untilCounted(model, 1)
  t.is((await implicitOf(model)).sum, 0)
  await auto()
  await auto()
  await auto({ messages: [{ role: 'user', content: `${prompt} Why red at dusk?` }] })
  await auto({ messages: [{ role: 'user', content: 'Hi' }] })
  await auto({ messages: [{ role: 'user', content: 'Hi' }] })
  await untilCounted(model, 6)
  t.true(Math.abs((await implicitOf(model)).sum + 1) < 1e-3)
  const other = await world.gateway.key(account.organisationId, 'live', one)
  await chat({ model: 'auto', mode: 'cost', messages: [{ role: 'user', content: prompt }] }, other)
  await untilCounted(model, 7)
  t.true(Math.abs((await implicitOf(model)).sum + 1) < 1e-3, 'another key asks for itself')
})

test.serial('refusals and calls with unusable arguments count; named models and failures do not', async t => {
  const { model } = await auto()
  await untilCounted(model, 1)
  const answered = (choice: object) =>
    json(200, {
      id: 'chatcmpl-x',
      object: 'chat.completion',
      created: 1,
      model,
      choices: [{ index: 0, ...choice }],
      usage: { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 },
    })
  const callWith = (text: string) => ({
    finish_reason: 'tool_calls',
    message: {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: text } }],
    },
  })
  const answers: [object, number][] = [
    [callWith('{"a":1}'), 0],
    [callWith('{"a":'), -1],
    [{ finish_reason: 'content_filter', message: { role: 'assistant', content: 'No.' } }, -1.5],
  ]
  for (const [index, [choice, sum]] of answers.entries()) {
    for (const emulator of [world.openai, world.openrouter]) emulator.next(answered(choice))
    const asked = await auto({ messages: [{ role: 'user', content: `${index}: ${prompt}` }] })
    t.is(asked.model, model)
    await untilCounted(model, index + 2)
    for (const emulator of [world.openai, world.openrouter]) emulator.reset()
    t.true(Math.abs((await implicitOf(model)).sum - sum) < 1e-3, String(sum))
  }
  const { count } = await implicitOf(model)
  await chat({ model })
  const fixed = await world.gateway.key(account.organisationId, 'live', { learning: false })
  await chat({ model: 'auto', messages: [{ role: 'user', content: prompt }] }, fixed)
  world.openrouter.next(failure(400, 'No.', 'invalid_request_error', null))
  t.is((await post('/v1/chat/completions', saying('auto', prompt))).status, 400)
  t.deepEqual(await world.gateway.settled(), [])
  t.is((await implicitOf(model)).count, count)
})

test.serial('deleted by housekeeping: old feedback, and counters that were not updated recently', async t => {
  const { services } = world.gateway
  const { id, model } = await chat()
  await score(id, 1)
  aheadMs = 200 * dayMs
  await runMaintenance('expire', {}, services)
  t.is(await countersOf(model), null)
  t.is(await services.db.feedback.count({ where: { generationId: id } }), 1)
  aheadMs = 14 * 31 * dayMs
  await runMaintenance('expire', {}, services)
  t.is(await services.db.feedback.count({ where: { generationId: id } }), 0)
})
