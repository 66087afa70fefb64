import { failure, insufficientQuota, invalidKey } from '../../../emulators/openai.ts'
import { hidesSecrets, isWhole, spareOf } from '../../../support/chat/fault-cases.ts'
import { costNano, type ProviderName } from '../../../support/chat/fault-replies.ts'
import {
  type Answer,
  ask,
  bookedOf,
  type FaultModel,
  type FaultWorld,
  paidNano,
  startFaultWorld,
} from '../../../support/chat/faults.ts'
import { eventually } from '../../../support/gateway.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'

const limited = (headers: Record<string, string>, status = 429) =>
  failure(status, 'Slow down.', 'requests', 'rate_limit_exceeded', headers)
const second = 1_000
const date = (ms: number) => new Date(ms).toUTCString()
const sentAt = Date.UTC(2026, 0, 1)

/** How a provider may say that it wants to be left alone, and for how long. */
const wishes: [title: string, headers: Record<string, string>, minMs: number][] = [
  ['Retry-After: 1', { 'retry-after': '1' }, second],
  ['Retry-After: 0.6', { 'retry-after': '0.6' }, 600],
  ['retry-after-ms: 600', { 'retry-after-ms': '600', 'retry-after': '1' }, 600],
  ['Retry-After as a date', { date: date(sentAt), 'retry-after': date(sentAt + second) }, second],
]
const nonsense = ['soon', '-5', '1e9', '1 2', 'in 2050', date(sentAt)]
const streams = [false, true]
const models: FaultModel[] = [
  ...wishes.map((_, number) => ({ id: `wish-${number}`, providers: ['p1'] })),
  ...nonsense.flatMap((_, number) => [
    { id: `nonsense-${number}`, providers: ['p1'] },
    { id: `nonsense-${number}-two`, providers: ['p1', 'p2'] },
  ]),
  ...streams.flatMap(stream => [
    { id: `one-${stream}`, providers: ['p1'] },
    { id: `two-${stream}`, providers: ['p1', 'p2'] },
    { id: `auto-${stream}`, providers: ['p1'], quality: 95 },
    { id: spareOf(`auto-${stream}`), providers: ['p2'], quality: 40 },
  ]),
  { id: 'returns', providers: ['p1', 'p2'] },
  { id: 'key-two', providers: ['p1', 'p2'] },
  { id: 'key-one', providers: ['p1'] },
]
const world = use(
  test,
  () => startFaultWorld(models),
  (it, t) => it.close(t),
)

const served = (by: ProviderName) => ({ by, finish: 'stop', estimated: false, costNano: costNano(by) })

function isFrom(t: ExecutionContext, answer: Answer, by: ProviderName, attempts: number, stream = false): void {
  isWhole(t, answer, stream, served(by))
  t.is(answer.headers.get('x-gateway-attempts'), String(attempts))
}

for (const [number, [title, headers, minMs]] of wishes.entries()) {
  test(`200 from a lone provider after the pause it asked for: ${title}`, async t => {
    const id = `wish-${number}`
    world.p1.next(id, limited(headers))
    const { live } = await world.gateway.account()
    isFrom(t, await ask(world, live, id), 'p1', 2)
    const [first, again] = world.p1.calls(id)
    const pauseMs = again!.receivedAt - first!.receivedAt
    t.true(pauseMs >= minMs - 5, `${pauseMs} ms`) // A timer may fire a little early.
  })
}

for (const [number, text] of nonsense.entries()) {
  test(`200 although Retry-After says “${text}”: it starts no cooldown`, async t => {
    const { live } = await world.gateway.account()
    const reply = limited({ 'retry-after': text, date: date(sentAt) })
    world.p1.next(`nonsense-${number}`, reply)
    isFrom(t, await ask(world, live, `nonsense-${number}`), 'p1', 2)
    world.p1.next(`nonsense-${number}-two`, reply)
    isFrom(t, await ask(world, live, `nonsense-${number}-two`), 'p2', 2)
    isFrom(t, await ask(world, live, `nonsense-${number}-two`), 'p1', 1)
  })
}

for (const stream of streams) {
  const kind = stream ? ' (stream)' : ''

  test(`503 with the rest of the time, without a call, while the only provider asked to be left alone${kind}`, async t => {
    const id = `one-${stream}`
    const account = await world.gateway.account()
    world.p1.next(id, limited({ 'retry-after': '300' }))
    const refused = await ask(world, account.live, id, { stream })
    t.is(refused.status, 502)
    t.is(refused.headers.get('retry-after'), '300')
    await bookedOf(world, account, refused)
    for (let i = 0; i < 3; i++) {
      const answer = await ask(world, account.live, id, { stream })
      t.is(answer.status, 503)
      t.like(JSON.parse(answer.text).error, { code: 'no_provider_available', param: null })
      const seconds = Number(answer.headers.get('retry-after'))
      t.true(seconds > 100 && seconds <= 300, `${seconds} s`)
      hidesSecrets(t, answer)
    }
    t.is(world.p1.calls(id).length, 1)
    t.is(await paidNano(world, account), 0)
  })

  test(`200 from the second provider at once while the first asked to be left alone${kind}`, async t => {
    const id = `two-${stream}`
    const account = await world.gateway.account()
    world.p1.next(id, limited({ 'retry-after': '300' }, 503))
    isFrom(t, await ask(world, account.live, id, { stream }), 'p2', 2, stream)
    for (let i = 0; i < 3; i++) isFrom(t, await ask(world, account.live, id, { stream }), 'p2', 1, stream)
    t.is(world.p1.calls(id).length, 1)
  })

  test(`200 from another model at once while the best one’s provider asked to be left alone${kind}`, async t => {
    const id = `auto-${stream}`
    const { live } = await world.gateway.account({ model_allowlist: [id, spareOf(id)], mode: 'quality' })
    world.p1.next(id, limited({ 'retry-after': '300' }))
    isFrom(t, await ask(world, live, 'auto', { stream }), 'p2', 2, stream)
    isFrom(t, await ask(world, live, 'auto', { stream }), 'p2', 1, stream)
    t.is(world.p1.calls(id).length, 1)
    const body = { model: 'auto', messages: [{ role: 'user', content: 'Hi' }] }
    const decision = await (await world.gateway.fetch('/v1/route', { key: live, body })).json()
    const candidates = (decision as { candidates: { model: string; excluded: string | null }[] }).candidates
    t.regex(candidates.find(({ model }) => model === id)!.excluded!, /requested a pause/)
  })
}

test('200 from the first provider again once the pause it asked for is over', async t => {
  const { live } = await world.gateway.account()
  world.p1.next('returns', limited({ 'retry-after': '1' }))
  isFrom(t, await ask(world, live, 'returns'), 'p2', 2)
  // The gateway estimates the time of Redis, and the estimate may step back: only a call shows that the pause is over.
  let answer: Answer | undefined
  await eventually(async () => {
    answer = await ask(world, live, 'returns')
    return world.p1.calls('returns').length > 1
  }, 'p1 is called again')
  isFrom(t, answer!, 'p1', 1)
  const [first, again] = world.p1.calls('returns')
  t.true(again!.receivedAt - first!.receivedAt >= second - 5)
})

const keysOf = (of: FaultWorld, model: string) => of.p1.calls(model).map(({ headers }) => headers.authorization)

/** `maxCalls`: refused credentials are tried again when the circuit allows it, a pause that was asked for is kept. */
const ofKey: [title: string, reply: ReturnType<typeof limited>, maxCalls: number][] = [
  ['401', invalidKey, 4],
  ['429 with Retry-After', limited({ 'retry-after': '300' }), 2],
  ['a quota that is used up', insufficientQuota, 4],
]
for (const [title, reply, maxCalls] of ofKey) {
  test(`200 with the provider’s other API key after ${title}, and without a call while both rest`, async t => {
    const keyed = await startFaultWorld(models, { P1_API_KEY: 'secret-key-a, secret-key-b' })
    try {
      const account = await keyed.gateway.account()
      const { live } = account
      keyed.p1.next('key-one', reply)
      isFrom(t, await ask(keyed, live, 'key-one'), 'p1', 2)
      const [bad, good] = keysOf(keyed, 'key-one')
      t.not(bad, good)
      for (let i = 0; i < 3; i++) isFrom(t, await ask(keyed, live, 'key-one'), 'p1', 1)
      t.deepEqual(keysOf(keyed, 'key-one').slice(2), [good, good, good])
      keyed.p1.always('key-two', reply)
      for (let i = 0; i < 4; i++) {
        const answer = await ask(keyed, live, 'key-two')
        isWhole(t, answer, false, served('p2'))
        hidesSecrets(t, answer)
        t.notRegex(answer.text, /secret-key/)
      }
      t.true(keyed.p1.calls('key-two').length <= maxCalls)
    } finally {
      await keyed.close(t)
    }
  })
}
